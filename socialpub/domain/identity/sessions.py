"""Sessions of signed-in browsers, and devices that have signed in before.

The secret of each is in a cookie only; the digest is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS
from socialpub.base.security import crypto
from socialpub.domain.access import authentication
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import Tx
from socialpub.store.schema.models import Device, Session

COOKIE_MS = 400 * DAY_MS  # browsers keep no cookie longer; the server ends an idle session earlier
DEVICE_MS = 365 * DAY_MS
DEVICES_MAX = 20
SESSIONS_MAX = 100
USER_AGENT_MAX = 300


@dataclass(frozen=True)
class NewSession:
    """New session with its cookie values."""

    cookie: str
    csrf: str
    user: str
    device: str


@dataclass(frozen=True)
class BrowserState:
    """Browser of a session: time zone, saved form, client address and User-Agent."""

    zone: str | None = None
    saved_form: str | None = None  # JSON
    address: str = ""
    agent: str = ""


@dataclass(frozen=True)
class SessionInfo:
    """Live session as its user sees it. `name` identifies it on pages and grants nothing."""

    name: str
    address: str
    agent: str
    started_ms: int
    seen_ms: int
    is_current: bool  # the session of this request


def start(
    service: AppContext, tx: Tx, user: str, device: str | None = None, browser: BrowserState | None = None
) -> NewSession:
    """Start a session for an authenticated user; `device` is the old device cookie, replaced."""
    entropy, now = service.runtime.entropy, service.now_ms
    cookie, csrf = entropy(32).hex(), entropy(32).hex()
    Session.delete().where(Session.ends_at <= now).execute()
    times = {"created_at": now, "seen_at": now, "ends_at": now + authentication.SESSION_IDLE_MS, "proved_at": now}
    state = browser or BrowserState()
    columns = {
        "zone": state.zone,
        "kept": state.saved_form,
        "address": state.address,
        "agent": state.agent[:USER_AGENT_MAX],
    }
    Session.insert(id=crypto.digest(cookie), user=user, csrf=csrf, **columns, **times).execute()
    return NewSession(cookie, csrf, user, _register_device(service, tx, user, device))


def record_password_check(tx: Tx, who: Actor) -> ActionResult:
    """Record that the user has just entered the password in this session."""
    Session.update(proved_at=who.service.now_ms).where(Session.id == who.scope.session).execute()
    return ActionResult({}, subject=who.scope.user)


def end(tx: Tx, session: str | None) -> None:
    Session.delete().where(Session.id == session).execute()


def sign_out(tx: Tx, who: Actor) -> ActionResult:
    """Sign out of this session; the device stays registered."""
    end(tx, who.scope.session)
    return ActionResult({}, subject=who.scope.user)


def sign_out_everywhere(tx: Tx, who: Actor) -> ActionResult:
    """End all sessions of the user and forget their devices."""
    end_all(tx, who.scope.user)
    return ActionResult({}, subject=who.scope.user)


def list_sessions(who: Actor) -> list[SessionInfo]:
    """List the user's live sessions: this one first, then the most recently seen."""
    scope, now = who.scope, who.service.now_ms
    query = (
        Session.select(Session.id, Session.address, Session.agent, Session.created_at, Session.seen_at)
        .where(Session.user == scope.user, authentication.select_live(now))
        .order_by(Session.seen_at.desc())
        .limit(SESSIONS_MAX)
    )
    rows = [
        SessionInfo(_make_public_name(id), address, agent, started, seen, id == scope.session)
        for id, address, agent, started, seen in query.tuples()
    ]
    return sorted(rows, key=lambda session: not session.is_current)


def end_one(tx: Tx, who: Actor, name: str) -> ActionResult:
    """End one of the user's sessions. Raises ApiError `not_found`."""
    mine = [row[0] for row in Session.select(Session.id).where(Session.user == who.scope.user).tuples()]
    found = next((id for id in mine if _make_public_name(id) == name), None)
    if found is None:
        raise ApiError("not_found", "This session has already ended.")
    end(tx, found)
    return ActionResult({}, subject=who.scope.user)


def end_others(tx: Tx, who: Actor) -> None:
    """End the user's other sessions and forget their devices."""
    Session.delete().where(Session.user == who.scope.user, Session.id != who.scope.session).execute()
    Device.delete().where(Device.user == who.scope.user).execute()


def _make_public_name(session: str) -> str:
    return crypto.digest(f"session {session}")[:32]


def end_all(tx: Tx, user: str | None) -> None:
    """End all sessions of a user and forget their devices."""
    Session.delete().where(Session.user == user).execute()
    Device.delete().where(Device.user == user).execute()


def find_device(service: AppContext, user: str, cookie: str | None) -> str | None:
    """Return the id of a device cookie that has signed in as this user before."""
    if cookie is None:
        return None
    query = Device.select(Device.id).where(
        Device.id == crypto.digest(cookie), Device.user == user, Device.ends_at > service.now_ms
    )
    return query.scalar()  # type: ignore[no-any-return]


def _register_device(service: AppContext, tx: Tx, user: str, before: str | None) -> str:
    """Register a device, keeping the user's newest; return its cookie."""
    cookie, now = service.runtime.entropy(32).hex(), service.now_ms
    if before is not None:
        Device.delete().where(Device.id == crypto.digest(before), Device.user == user).execute()
    Device.delete().where(Device.ends_at <= now).execute()
    Device.insert(id=crypto.digest(cookie), user=user, created_at=now, ends_at=now + DEVICE_MS).execute()
    newest = Device.select(Device.id).where(Device.user == user).order_by(Device.created_at.desc()).limit(DEVICES_MAX)
    Device.delete().where(Device.user == user, Device.id.not_in(newest)).execute()
    return cookie

"""Sessions of signed-in browsers, and the devices that are known for having signed in before.

Of either the browser alone has the secret, in a cookie; here is its digest.
"""

from __future__ import annotations

from dataclasses import dataclass

from socialpub.base import crypto
from socialpub.base.errors import ApiError
from socialpub.domain.core.service import Service
from socialpub.domain.people import tenancy
from socialpub.domain.people.actor import Actor, Done
from socialpub.store.db import Tx
from socialpub.store.models import Device, Session

DAY_MS = 24 * 3600 * 1000
COOKIE_MS = 400 * DAY_MS  # the longest that browsers keep one; the server ends an idle session before
DEVICE_MS = 365 * DAY_MS
DEVICES_MAX = 20
LISTED_MAX = 100
AGENT_MAX = 300


@dataclass(frozen=True)
class SignedIn:
    """A new session: the cookies' values are shown to the browser alone."""

    cookie: str
    csrf: str
    user: str
    device: str


@dataclass(frozen=True)
class Browser:
    """What is known of a browser beside who signs in: its time zone, the form that was on its way when a session
    ended, where it is, and what it calls itself.
    """

    zone: str | None = None
    kept: str | None = None  # JSON
    address: str = ""
    agent: str = ""


@dataclass(frozen=True)
class Open:
    """A session that is not over, as its owner sees it. `name` stands for it on pages, and opens nothing."""

    name: str
    address: str
    agent: str
    begun_ms: int
    seen_ms: int
    here: bool  # it is the one that asks


def begin(service: Service, tx: Tx, user: str, device: str | None = None, here: Browser | None = None) -> SignedIn:
    """A session for somebody who has proved who they are. `device`: the device cookie so far; it gets a new value."""
    entropy, now = service.runtime.entropy, service.now_ms
    cookie, csrf = entropy(32).hex(), entropy(32).hex()
    Session.delete().where(Session.ends_at <= now).execute()
    times = {"created_at": now, "seen_at": now, "ends_at": now + tenancy.SESSION_IDLE_MS, "proved_at": now}
    there = here or Browser()
    of_it = {"zone": there.zone, "kept": there.kept, "address": there.address, "agent": there.agent[:AGENT_MAX]}
    Session.insert(id=crypto.digest(cookie), user=user, csrf=csrf, **of_it, **times).execute()
    return SignedIn(cookie, csrf, user, _remember(service, tx, user, device))


def proved(tx: Tx, who: Actor) -> Done:
    """The person has just given their password in this session."""
    Session.update(proved_at=who.service.now_ms).where(Session.id == who.scope.session).execute()
    return Done({}, subject=who.scope.user)


def end(tx: Tx, session: str | None) -> None:
    Session.delete().where(Session.id == session).execute()


def leave(tx: Tx, who: Actor) -> Done:
    """The session is over; the device stays known."""
    end(tx, who.scope.session)
    return Done({}, subject=who.scope.user)


def leave_everywhere(tx: Tx, who: Actor) -> Done:
    """Every session of the person is over, and no browser is known any more."""
    end_all(tx, who.scope.user)
    return Done({}, subject=who.scope.user)


def listed(who: Actor) -> list[Open]:
    """The sessions of whoever acts that are not over: this one first, then those that were seen last."""
    scope, now = who.scope, who.service.now_ms
    query = (
        Session.select(Session.id, Session.address, Session.agent, Session.created_at, Session.seen_at)
        .where(Session.user == scope.user, tenancy.is_open(now))
        .order_by(Session.seen_at.desc())
        .limit(LISTED_MAX)
    )
    found = [
        Open(_name(id), address, agent, begun, seen, id == scope.session)
        for id, address, agent, begun, seen in query.tuples()
    ]
    return sorted(found, key=lambda session: not session.here)


def end_one(tx: Tx, who: Actor, name: str) -> Done:
    """One of one's own sessions is over; ApiError `not_found`."""
    mine = [row[0] for row in Session.select(Session.id).where(Session.user == who.scope.user).tuples()]
    found = next((id for id in mine if _name(id) == name), None)
    if found is None:
        raise ApiError("not_found", "This session is over already.")
    end(tx, found)
    return Done({}, subject=who.scope.user)


def end_others(tx: Tx, who: Actor) -> None:
    """Every session of whoever acts but this one is over, and no device of theirs is known any more."""
    Session.delete().where(Session.user == who.scope.user, Session.id != who.scope.session).execute()
    Device.delete().where(Device.user == who.scope.user).execute()


def _name(session: str) -> str:
    return crypto.digest(f"session {session}")[:32]


def end_all(tx: Tx, user: str | None) -> None:
    """Every session of somebody is over, and no device of theirs is known any more."""
    Session.delete().where(Session.user == user).execute()
    Device.delete().where(Device.user == user).execute()


def device_of(service: Service, user: str, cookie: str | None) -> str | None:
    """The id of the device whose cookie this is, where it has signed in as this user before."""
    if cookie is None:
        return None
    query = Device.select(Device.id).where(
        Device.id == crypto.digest(cookie), Device.user == user, Device.ends_at > service.now_ms
    )
    return query.scalar()  # type: ignore[no-any-return]


def _remember(service: Service, tx: Tx, user: str, before: str | None) -> str:
    """The cookie of a device that is known from now on; of a user's devices the newest are kept."""
    cookie, now = service.runtime.entropy(32).hex(), service.now_ms
    if before is not None:
        Device.delete().where(Device.id == crypto.digest(before), Device.user == user).execute()
    Device.delete().where(Device.ends_at <= now).execute()
    Device.insert(id=crypto.digest(cookie), user=user, created_at=now, ends_at=now + DEVICE_MS).execute()
    newest = Device.select(Device.id).where(Device.user == user).order_by(Device.created_at.desc()).limit(DEVICES_MAX)
    Device.delete().where(Device.user == user, Device.id.not_in(newest)).execute()
    return cookie

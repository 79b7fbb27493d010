"""Authentication by API key or session, and the Scope that narrows every query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.key_scopes import KeyScopeName
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.base.security import crypto
from socialpub.domain.context.app_context import AppContext
from socialpub.store.engine import sql
from socialpub.store.queries import authentication
from socialpub.store.schema.models import Session, User

LAST_USED_INTERVAL_MS = 60_000
SESSION_IDLE_MS = 30 * DAY_MS
KEY_LABELS = ("live", "test")


@dataclass(frozen=True)
class Scope:
    """Authorization scope: one organization, and what of it the key is limited to."""

    organization: str
    profile: str | None = None
    key: str | None = None  # API key id; None for a user or the operator
    user: str | None = None
    role: str = "owner"
    csrf: str | None = None
    session: str | None = None  # session id; None for a key or the operator
    needs: tuple[str, ...] = ()  # roles allowed; empty: every role
    scopes: tuple[KeyScopeName, ...] | None = None  # of the key, as granted; None: every scope
    accounts: frozenset[str] | None = None  # the accounts that the key may use; None: all

    def narrowed(self, profile: str | None) -> str | None:
        """Return the profile to filter by; None: all. Raises `not_found` for another profile's key."""
        if profile is not None and self.profile not in (None, profile):
            raise rule_error("api_key.profile_scope")
        return profile or self.profile

    def has_account(self, account: str) -> bool:
        """Return whether the key may use an account of its organization and profile."""
        return self.accounts is None or account in self.accounts

    def filter(self, model: Any) -> Any:
        """Return the condition that rows are of the organization, and of the profile if any."""
        here = model.organization == self.organization
        return here if self.profile is None else here & (model.profile == self.profile)

    @property
    def user_filter(self) -> Any:
        """Condition that a row of users is the signed-in one."""
        return (User.id == self.user) & (User.organization == self.organization)

    @property
    def account_list(self) -> str | None:
        """The accounts as a sorted JSON list, for queries; None: all."""
        return None if self.accounts is None else sql.dump_json(sorted(self.accounts))


def list_key_prefixes(service: AppContext) -> tuple[str, ...]:
    """Return the API key prefixes, e.g. `svc_live_`, `svc_test_`; `svc` is configurable."""
    word = service.runtime.settings.security.key_prefix
    return tuple(f"{word}_{label}_" for label in KEY_LABELS)


async def authenticate_key(service: AppContext, presented: str) -> Scope:
    """Return the scope of an API key. Raises ApiError `unauthenticated`, `api_key.expired`.

    The time of its use is stored at most once a minute.
    """
    row = None
    if crypto.is_well_formed_api_key(presented, list_key_prefixes(service)):
        digest = crypto.digest(presented)
        row = await service.read_inline(lambda: _find_key(digest), to_identify=True)
    if row is None:
        raise ApiError("unauthenticated")
    key, organization, profile, used, scopes, accounts, expires_at = row
    _check_not_expired(service, expires_at)
    if used is None or service.now_ms - used > LAST_USED_INTERVAL_MS:
        now = service.now_ms
        service.write(lambda tx: sql.update(authentication.TOUCH_KEY, (now, key, now - LAST_USED_INTERVAL_MS)))
    if scopes is None and accounts is None:
        return Scope(organization, profile, key)
    granted, listed = sql.load_optional_json(scopes), sql.load_optional_json(accounts)
    return Scope(
        organization,
        profile,
        key,
        scopes=None if granted is None else tuple(granted),
        accounts=None if listed is None else frozenset(listed),
    )


def _check_not_expired(service: AppContext, expires_at: int | None) -> None:
    if expires_at is not None and expires_at <= service.now_ms:
        raise rule_error("api_key.expired", f"The API key expired at {format_iso(expires_at)}.")


_KeyColumns = tuple[str, str, str | None, int | None, str | None, str | None, int | None]
"""Id, organization, profile, time of last use, scopes, accounts and expiry of a key."""


def _find_key(digest: str) -> _KeyColumns | None:
    found: _KeyColumns | None = sql.fetch_one(authentication.FIND_KEY_BY_DIGEST, (digest,))
    return found


def check_key(service: AppContext, key: str) -> None:
    """Raise ApiError `unauthenticated` unless the key is valid now. Call in a transaction."""
    row = sql.fetch_one(authentication.FIND_KEY_EXPIRY, (key,))
    if row is None:
        raise ApiError("unauthenticated")
    _check_not_expired(service, row[0])


async def authenticate_session(service: AppContext, cookie: str) -> Scope:
    """Return the scope of a session cookie. Raises ApiError `unauthenticated`."""
    now, digest = service.now_ms, crypto.digest(cookie)
    row = await service.read_inline(lambda: _find_session(digest, now), to_identify=True)
    if row is None:
        raise ApiError("unauthenticated")
    user, organization, role, csrf, seen = row
    if now - seen > LAST_USED_INTERVAL_MS:
        renewed = {"seen_at": now, "ends_at": now + SESSION_IDLE_MS}
        service.write(lambda tx: Session.update(renewed).where(Session.id == digest).execute())
    return Scope(organization, user=user, role=role, csrf=csrf, session=digest)


def _find_session(digest: str, now: int) -> tuple[str, str, str, str, int] | None:
    query = (
        Session.select(User.id, User.organization, User.role, Session.csrf, Session.seen_at)
        .join(User, on=(Session.user == User.id))
        .where(Session.id == digest, select_live(now))
    )
    return query.tuples().first()  # type: ignore[no-any-return]


def find_role(session: str, now: int) -> str | None:
    """Return the role of the session's user; None if the session is unknown or expired."""
    row = _find_session(session, now)
    return row[2] if row is not None else None


def list_csrf_tokens(user: str, now: int) -> list[str]:
    """List the CSRF tokens of the user's live sessions, one each."""
    return [row[0] for row in Session.select(Session.csrf).where(Session.user == user, select_live(now)).tuples()]


def select_live(now: int) -> Any:
    """Return the condition that selects live sessions."""
    return Session.ends_at > now

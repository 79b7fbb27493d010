"""Who asks: API keys and sessions, and the Scope that every query carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from socialpub.base import crypto
from socialpub.base.errors import ApiError, refuse
from socialpub.domain.core.service import Service
from socialpub.store import sql
from socialpub.store.models import Session, User
from socialpub.store.statements import keys

USED_EVERY_MS = 60_000
SESSION_IDLE_MS = 30 * 24 * 3600 * 1000
LABELS = ("live", "test")


@dataclass(frozen=True)
class Scope:
    """Who asks: one organization, and one profile where the key is bound to it. Every query is narrowed by it."""

    organization: str
    profile: str | None = None
    key: str | None = None  # the API key's id; None for a signed-in user or the operator
    user: str | None = None
    role: str = "owner"
    csrf: str | None = None
    session: str | None = None  # the session's id; None for a key or the operator
    needs: tuple[str, ...] = ()  # the roles that may do what is asked; none named: every role

    def narrowed(self, profile: str | None) -> str | None:
        """The profile to look in when the caller names one (None: all of the scope).

        Raises `not_found` when the key is bound to another profile.
        """
        if profile is not None and self.profile not in (None, profile):
            raise refuse("api_key.profile_scope")
        return profile or self.profile


def key_prefixes(service: Service) -> tuple[str, ...]:
    """What API keys begin with: `svc_live_`, `svc_test_`, or the configured word in place of `svc`."""
    word = service.runtime.settings.security.key_prefix
    return tuple(f"{word}_{label}_" for label in LABELS)


async def authenticate_key(service: Service, presented: str) -> Scope:
    """The scope of an API key; ApiError `unauthenticated` for any other text.

    Its use is noted at most once a minute.
    """
    row = None
    if crypto.key_is_well_formed(presented, key_prefixes(service)):
        digest = crypto.digest(presented)
        row = await service.look_up(lambda: _find_key(digest))
    if row is None:
        raise ApiError("unauthenticated")
    key, organization, profile, used = row
    if used is None or service.now_ms - used > USED_EVERY_MS:
        now = service.now_ms
        service.write(lambda tx: sql.change(keys.KEY_USED, (now, key, now - USED_EVERY_MS)))
    return Scope(organization, profile, key)


def _find_key(digest: str) -> tuple[str, str, str | None, int | None] | None:
    """A key's id, organization, profile, and when it was used last."""
    found: tuple[str, str, str | None, int | None] | None = sql.first(keys.KEY_BY_DIGEST, (digest,))
    return found


def key_is_valid(key: str) -> bool:
    """Whether a key, by its id, is there and not revoked; in a transaction."""
    return sql.first(keys.KEY_STANDS, (key,)) is not None


async def authenticate_session(service: Service, cookie: str) -> Scope:
    """The scope of a signed-in browser; ApiError `unauthenticated` when the session is unknown, idle or over."""
    now, digest = service.now_ms, crypto.digest(cookie)
    row = await service.look_up(lambda: _find_session(digest, now))
    if row is None:
        raise ApiError("unauthenticated")
    user, organization, role, csrf, seen = row
    if now - seen > USED_EVERY_MS:
        renewed = {"seen_at": now, "ends_at": now + SESSION_IDLE_MS}
        service.write(lambda tx: Session.update(renewed).where(Session.id == digest).execute())
    return Scope(organization, user=user, role=role, csrf=csrf, session=digest)


def _find_session(digest: str, now: int) -> tuple[str, str, str, str, int] | None:
    query = (
        Session.select(User.id, User.organization, User.role, Session.csrf, Session.seen_at)
        .join(User, on=(Session.user == User.id))
        .where(Session.id == digest, is_open(now))
    )
    return query.tuples().first()  # type: ignore[no-any-return]


def role_now(session: str, now: int) -> str | None:
    """The role of the person whose session this is; None when the session is unknown, idle or over."""
    row = _find_session(session, now)
    return row[2] if row is not None else None


def csrf_tokens(user: str, now: int) -> list[str]:
    """The CSRF tokens of somebody's sessions that are not over: a name for each."""
    return [row[0] for row in Session.select(Session.csrf).where(Session.user == user, is_open(now)).tuples()]


def is_open(now: int) -> Any:
    """The condition of a session that is not over."""
    return Session.ends_at > now

"""People: users of an organization, their passwords, and signing in and out.

An unknown address and a wrong password get the same answer after the same work. Failures are slowed down, for the
address that fails and for the account that is tried; nobody is ever locked out for good.
"""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from socialpub.base import crypto
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Clock
from socialpub.domain import tenancy
from socialpub.domain.service import Service
from socialpub.store.db import Tx
from socialpub.store.models import Organization, Session, User

ROLES = ("owner", "admin", "member")
PASSWORD_MIN, PASSWORD_MAX = 10, 1024
SESSION_MS = 24 * 3600 * 1000
FREE_FAILURES = 5
DELAY_MAX = 900.0
FORGET_SECONDS = 3600.0
_EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,255}")

# OWASP's first recommendation for argon2id. Two threads of their own: each thread that ever hashed keeps its 19 MiB.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_hashing = ThreadPoolExecutor(2, "hashing")


@dataclass(frozen=True)
class SignedIn:
    """A new session: the cookie's value is shown to the browser alone."""

    cookie: str
    csrf: str


# --- Users -------------------------------------------------------------------------------------------------------


def hashed(password: str) -> str:
    """The password's argon2id hash; ApiError for one that is too short or too long. Takes a while: not on the loop."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise _wrong("password", f"A password has {PASSWORD_MIN} to {PASSWORD_MAX} characters.")
    return _hasher.hash(password)


def create_user(
    service: Service, tx: Tx, organization: str, email: str, role: str, password_hash: str
) -> dict[str, Any]:
    """`{id, email, role}` of a new user; ApiError `not_found` for the organization, 409 for a taken e-mail address."""
    address = email.strip().lower()
    if not _EMAIL.fullmatch(address):
        raise _wrong("email", "This is not an e-mail address.")
    if role not in ROLES:
        raise _wrong("role", f"A role is one of {', '.join(ROLES)}.")
    if not Organization.select().where(Organization.id == organization).exists():
        raise ApiError("not_found", "There is no organization with this id.")
    if User.select().where(User.email == address).exists():
        raise _wrong("email", "A user with this e-mail address exists.", status=409)
    row = {"id": service.runtime.ids.uuid(), "email": address, "role": role}
    User.insert(organization=organization, password=password_hash, created_at=service.now_ms, **row).execute()
    return row


def set_password(service: Service, tx: Tx, email: str, password_hash: str) -> dict[str, Any]:
    """`{id, email, role}`; every session of the user ends."""
    row = User.select(User.id, User.email, User.role).where(User.email == email.strip().lower()).dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no user with this e-mail address.")
    User.update(password=password_hash).where(User.id == row["id"]).execute()
    Session.delete().where(Session.user == row["id"]).execute()
    return dict(row)


def _wrong(field: str, message: str, status: int = 400) -> ApiError:
    return ApiError("validation_failed", message, rule=field, status=status)


# --- First start -------------------------------------------------------------------------------------------------


def offer_setup(service: Service) -> str | None:
    """A one-time token for the first owner; None when there are users already."""
    if service.read(lambda: User.select().exists()).result():
        return None
    token = crypto.base62(int.from_bytes(service.runtime.entropy(32), "big"), 43)
    service.setup_digest = crypto.digest(token)
    return token


def setup_is_open(service: Service, token: str) -> bool:
    """Whether this is the token that was offered and not used."""
    offered = service.setup_digest
    return offered is not None and crypto.same(offered.encode(), crypto.digest(token).encode())


async def set_up(service: Service, token: str, organization: str, email: str, password: str) -> SignedIn:
    """Make the organization and its owner, once, and sign the owner in."""
    if not setup_is_open(service, token):
        raise ApiError("not_found", "This set-up link was used, or is of an earlier start of the server.")
    if not organization.strip():
        raise _wrong("organization", "The organization needs a name.")
    hash_ = await asyncio.get_running_loop().run_in_executor(_hashing, hashed, password)

    def make(tx: Tx) -> SignedIn:
        if User.select().exists():
            raise ApiError("not_found", "This server is set up already.")
        made = tenancy.create_organization(service, tx, organization.strip()[:200])
        user = create_user(service, tx, made["id"], email, "owner", hash_)
        return _open_session(service, tx, user["id"])

    signed_in = await service.write(make)
    service.setup_digest = None
    return signed_in


# --- Sessions ----------------------------------------------------------------------------------------------------


class Throttle:
    """Growing pauses after failures, in memory: the first five are free, then the wait doubles up to 15 minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failures: dict[str, tuple[int, float]] = {}

    def wait(self, *names: str) -> float:
        """Seconds until the next try of any of these is looked at; 0: now."""
        with self._lock:
            return max(0.0, *(self._left(name) for name in names))

    def failed(self, *names: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            self._failures = {
                name: seen for name, seen in self._failures.items() if now - seen[1] < FORGET_SECONDS + DELAY_MAX
            }
            for name in names:
                self._failures[name] = (self._failures.get(name, (0, 0.0))[0] + 1, now)

    def succeeded(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._failures.pop(name, None)

    def _left(self, name: str) -> float:
        count, last = self._failures.get(name, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        delay = min(DELAY_MAX, 2.0 ** (count - FREE_FAILURES))
        return last + delay - self._clock.monotonic()


async def sign_in(service: Service, throttle: Throttle, email: str, password: str, address: str) -> SignedIn:
    """A new session; ApiError `unauthenticated` in one form for every reason, or `rate_limited` while slowed down."""
    account = email.strip().lower()[:320]
    names = (f"account:{account}", f"address:{address}")
    row = await service.read(lambda: User.select(User.id, User.password).where(User.email == account).tuples().first())
    user, stored = row or (None, None)
    await asyncio.get_running_loop().run_in_executor(_hashing, _prove, throttle, names, stored, password)
    return await service.write(lambda tx: _open_session(service, tx, str(user)))


def _prove(throttle: Throttle, names: tuple[str, str], stored: str | None, password: str) -> None:
    """ApiError unless it is the password. Guesses that were sent all at once find the throttle as their turn comes."""
    if (wait := throttle.wait(*names)) > 0:
        raise ApiError("rate_limited", "Too many failed sign-ins. Wait a little.", retry_after=int(wait) + 1)
    right = _verify(stored or _nobody(), password)
    if stored is None or not right:
        throttle.failed(*names)
        raise ApiError("unauthenticated", "The e-mail address or the password is wrong.", remediation="Try again.")
    throttle.succeeded(*names)


@cache
def _nobody() -> str:
    """A hash for addresses that nobody has, so that they take as long as others."""
    return _hasher.hash("nobody has this password")


def _verify(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password[: PASSWORD_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False


def _open_session(service: Service, tx: Tx, user: str) -> SignedIn:
    entropy, now = service.runtime.entropy, service.now_ms
    cookie, csrf = entropy(32).hex(), entropy(32).hex()
    Session.delete().where(Session.ends_at <= now).execute()
    Session.insert(
        id=crypto.digest(cookie), user=user, csrf=csrf, created_at=now, seen_at=now, ends_at=now + SESSION_MS
    ).execute()
    return SignedIn(cookie, csrf)


def sign_out(tx: Tx, cookie: str) -> None:
    """End the session on the server."""
    Session.delete().where(Session.id == crypto.digest(cookie)).execute()


def require(role: str, *allowed: str) -> None:
    """ApiError `unauthorized` unless the role is one of those allowed."""
    if role not in allowed:
        raise ApiError("unauthorized", f"This needs the role {' or '.join(allowed)}; yours is {role}.")

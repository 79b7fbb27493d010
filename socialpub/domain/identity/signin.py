"""Sign-in by e-mail address and password, with delays after wrong guesses.

An unknown address and a wrong password get the same response after the same work. Delays apply mainly to the pair of
account and client address. The account alone and the address alone are delayed by 90 s at most, and a known device is
throttled separately, so no remote client can lock an owner out.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from dataclasses import dataclass

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import Clock
from socialpub.base.security import crypto
from socialpub.domain.access import audit_log
from socialpub.domain.access.actor import Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import sessions, totp, users
from socialpub.domain.identity.sessions import BrowserState, NewSession
from socialpub.store.database import Tx
from socialpub.store.schema.models import Session, User

GUESS_LIFETIME_SECONDS = 4500.0
NAMES_MAX = 20_000
REAUTHENTICATED_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class GuessBackoff:
    """Delay policy: `free` guesses, then a wait that doubles from 1 s up to `longest` s."""

    free: int
    longest: float


GUESS_BACKOFFS = {
    "pair": GuessBackoff(5, 900.0),
    "device": GuessBackoff(5, 900.0),
    "account": GuessBackoff(10, 90.0),
    "address": GuessBackoff(20, 90.0),
    "code": GuessBackoff(5, 900.0),
}
ThrottleName = tuple[str, str]  # (key in GUESS_BACKOFFS, identifier)


@dataclass(frozen=True)
class PendingSecondFactor:
    """Sign-in whose password is verified and whose second factor is pending."""

    user: str
    password: str  # digest of the password hash: changing the password invalidates this


@dataclass(frozen=True)
class _GuessCount:
    """Number of guesses, and the times of the last two."""

    count: int
    last: float
    before: float


_NO_GUESSES = _GuessCount(0, 0.0, 0.0)


class LoginThrottle:
    """Growing delays after wrong guesses, in memory; beyond NAMES_MAX the oldest are dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._guesses: OrderedDict[ThrottleName, _GuessCount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._guesses)

    def try_guess(self, *names: ThrottleName) -> float:
        """Count a guess under all names and return 0, or return the seconds to wait."""
        with self._lock:
            wait = max(self._get_wait(name) for name in names)
            if wait > 0:
                return wait
            for name in names:
                self._count(name)
            self._drop_old()
            return 0.0

    def accept(self, *names: ThrottleName) -> None:
        """Reset the first name and take the guess back from the others, after a right password."""
        with self._lock:
            self._guesses.pop(names[0], None)
            for name in names[1:]:
                self._discount(name)

    def _count(self, name: ThrottleName) -> None:
        seen = self._guesses.pop(name, _NO_GUESSES)
        self._guesses[name] = _GuessCount(seen.count + 1, self._clock.monotonic(), seen.last)

    def _discount(self, name: ThrottleName) -> None:
        seen = self._guesses.get(name, _NO_GUESSES)
        if seen.count > 1:
            self._guesses[name] = _GuessCount(seen.count - 1, seen.before, seen.before)
        else:
            self._guesses.pop(name, None)

    def _get_wait(self, name: ThrottleName) -> float:
        backoff, seen = GUESS_BACKOFFS[name[0]], self._guesses.get(name, _NO_GUESSES)
        if seen.count < backoff.free:
            return 0.0
        return seen.last + min(backoff.longest, 2.0 ** min(seen.count - backoff.free, 30)) - self._clock.monotonic()

    def _drop_old(self) -> None:
        while self._guesses and (len(self._guesses) > NAMES_MAX or self._is_over(next(iter(self._guesses)))):
            self._guesses.popitem(last=False)

    def _is_over(self, name: ThrottleName) -> bool:
        return self._clock.monotonic() - self._guesses[name].last > GUESS_LIFETIME_SECONDS


async def start(
    service: AppContext,
    throttle: LoginThrottle,
    email: str,
    password: str,
    address: str,
    cookie: str | None = None,
    audit: audit_log.AuditContext | None = None,
    browser: BrowserState | None = None,
) -> NewSession | PendingSecondFactor:
    """Verify the password; return a session, or what `finish` needs to check a code.

    Raises ApiError `unauthenticated`, the same for every cause, or `rate_limited`. `cookie` is the device cookie.
    """
    account = email.strip().lower()[:320]
    known = await service.read(lambda: _load_login(service, account, cookie))
    await _verify_password(throttle, _list_throttle_names(account, address, known.device), known.stored, password)
    pending = PendingSecondFactor(known.user, crypto.digest(known.stored or ""))
    if known.wants_code:
        return pending

    def start_session(tx: Tx) -> NewSession:
        if totp.is_required(pending.user):  # turned on since the check above
            raise _build_refused_error()
        return _start_session(service, tx, pending, cookie, audit, browser)

    return await service.write(start_session)


async def finish(
    service: AppContext,
    throttle: LoginThrottle,
    pending: PendingSecondFactor,
    code: str,
    cookie: str | None = None,
    audit: audit_log.AuditContext | None = None,
    browser: BrowserState | None = None,
) -> NewSession:
    """Verify the second factor or a recovery code and start a session.

    Raises ApiError `unauthenticated`, `rate_limited`. Throttled per user: a guesser here knows the password.
    """
    _count_guess(throttle, ("code", pending.user))

    def start_session(tx: Tx) -> NewSession:
        method = totp.use_code(service, tx, pending.user, code)
        if method is None:
            raise ApiError("unauthenticated", "This code is wrong, or it was used already.")
        context = audit._replace(verb=f"{audit.verb} with a recovery code") if audit and method != totp.CODE else audit
        return _start_session(service, tx, pending, cookie, context, browser)

    signed_in = await service.write(start_session)
    throttle.accept(("code", pending.user))
    return signed_in


async def reauthenticate_if_stale(
    who: Actor, throttle: LoginThrottle, password: str, address: str, cookie: str | None = None
) -> bool:
    """Verify the password unless it was entered recently; return whether it was verified.

    On True, record it with `sessions.record_password_check`. Raises ApiError `session.proof`, `rate_limited`.
    """
    proof = await _load_reauthentication(who, cookie)
    if is_fresh(proof.proved_at, who.service.now_ms):
        return False
    await _reauthenticate(throttle, proof, password, address)
    return True


async def reauthenticate(
    who: Actor, throttle: LoginThrottle, password: str, address: str, cookie: str | None = None
) -> None:
    """Verify the password even if it was entered recently. Raises as `reauthenticate_if_stale`."""
    await _reauthenticate(throttle, await _load_reauthentication(who, cookie), password, address)


async def check_reauthenticated(who: Actor) -> None:
    """Raise ApiError `session.proof` unless the password was entered recently."""
    proof = await _load_reauthentication(who, None)
    if not is_fresh(proof.proved_at, who.service.now_ms):
        raise rule_error("session.proof")


async def _reauthenticate(throttle: LoginThrottle, proof: _Reauthentication, password: str, address: str) -> None:
    if not password:
        raise rule_error("session.proof")
    names = _list_throttle_names(proof.account, address, proof.device)
    try:
        await _verify_password(throttle, names, proof.stored, password)
    except ApiError as error:
        if error.code != "unauthenticated":
            raise
        raise rule_error("session.proof", "The password is wrong.") from error


def is_fresh(proved_at: int, now_ms: int) -> bool:
    """Return whether a password check still covers destructive actions and new secrets."""
    return now_ms - proved_at <= REAUTHENTICATED_MS


@dataclass(frozen=True)
class _Reauthentication:
    """Re-authentication data of a session: account, password hash, last check, known device."""

    account: str
    stored: str | None
    proved_at: int
    device: str | None


async def _load_reauthentication(who: Actor, cookie: str | None) -> _Reauthentication:
    return await who.service.read(lambda: _read_reauthentication(who, cookie))


def _read_reauthentication(who: Actor, cookie: str | None) -> _Reauthentication:
    scope = who.scope
    row = (
        Session.select(User.email, User.password, Session.proved_at)
        .join(User, on=(Session.user == User.id))
        .where(Session.id == scope.session, User.organization == scope.organization)
        .tuples()
        .first()
    )
    if row is None:
        raise ApiError("unauthenticated")
    account, stored, proved_at = row
    return _Reauthentication(account, stored, proved_at, sessions.find_device(who.service, scope.user or "", cookie))


@dataclass(frozen=True)
class _LoginRecord:
    """User of an account: password hash, second factor, known device."""

    user: str = ""
    stored: str | None = None
    wants_code: bool = False
    device: str | None = None


def _load_login(service: AppContext, account: str, cookie: str | None) -> _LoginRecord:
    query = User.select(User.id, User.password, User.totp.is_null(False)).where(User.email == account)
    row = query.tuples().first()
    if row is None:
        return _LoginRecord()
    user, stored, wants_code = row
    return _LoginRecord(user, stored, bool(wants_code), sessions.find_device(service, user, cookie))


def _list_throttle_names(account: str, address: str, device: str | None) -> tuple[ThrottleName, ...]:
    """Return the names under which to count a guess; the first one identifies the client."""
    if device is not None:
        return (("device", device),)
    pair = crypto.digest(f"{len(account)}:{account}{address}")
    return ("pair", pair), ("account", crypto.digest(account)), ("address", address[:64])


async def _verify_password(
    throttle: LoginThrottle, names: tuple[ThrottleName, ...], stored: str | None, password: str
) -> None:
    """Raise ApiError unless the password matches."""

    def verify() -> None:
        _count_guess(throttle, *names)  # in the pool, so that the queued guesses of a burst are throttled too
        is_right = users.verify_password(stored, password)
        if stored is None or not is_right:
            raise _build_refused_error()
        throttle.accept(*names)

    await asyncio.get_running_loop().run_in_executor(users.HASHING_POOL, verify)


def _count_guess(throttle: LoginThrottle, *names: ThrottleName) -> None:
    """Count a guess. Raises ApiError `rate_limited` while one of the names is throttled."""
    if (wait := throttle.try_guess(*names)) > 0:
        seconds = int(wait) + 1
        message = f"Too many failed sign-ins. Try again in {_format_wait(seconds)}."
        raise ApiError("rate_limited", message, retry_after=seconds)


def _start_session(
    service: AppContext,
    tx: Tx,
    pending: PendingSecondFactor,
    cookie: str | None,
    audit: audit_log.AuditContext | None,
    browser: BrowserState | None,
) -> NewSession:
    """Start and audit the session, unless the password was changed since it was verified."""
    row = User.select(User.password, User.organization).where(User.id == pending.user).tuples().first()
    if row is None or crypto.digest(row[0] or "") != pending.password:
        raise _build_refused_error()
    session = sessions.start(service, tx, pending.user, cookie, browser)
    if audit:
        audit_log.record(service, tx, audit._replace(organization=row[1], user=session.user), session.user)
    return session


def _build_refused_error() -> ApiError:
    return ApiError("unauthenticated", "The e-mail address or the password is wrong.", remediation="Try again.")


def _format_wait(seconds: int) -> str:
    if seconds > 90:
        return f"{-(-seconds // 60)} minutes"
    return "a second" if seconds == 1 else f"{seconds} seconds"

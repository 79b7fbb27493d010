"""Signing in: who proves an e-mail address by its password gets a session, and who guesses is slowed down.

An unknown address and a wrong password get the same answer after the same work. What is slowed down is above all the
pair of account and address. The account as a whole and the address as a whole wait for a minute and a half at most,
and a browser that has signed in before answers for itself alone: nobody can lock an owner out from afar.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from dataclasses import dataclass

from socialpub.base import crypto
from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import Clock
from socialpub.domain.core.service import Service
from socialpub.domain.people import audit, sessions, totp, users
from socialpub.domain.people.actor import Actor
from socialpub.domain.people.sessions import Browser, SignedIn
from socialpub.store.db import Tx
from socialpub.store.models import Session, User

FORGET_SECONDS = 4500.0
NAMES_MAX = 20_000
FRESH_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class Brake:
    """So many guesses are free; then the wait doubles with each, from a second up to `longest`."""

    free: int
    longest: float


BRAKES = {
    "pair": Brake(5, 900.0),
    "device": Brake(5, 900.0),
    "account": Brake(10, 90.0),
    "address": Brake(20, 90.0),
    "code": Brake(5, 900.0),
}
Name = tuple[str, str]  # one of BRAKES, and whose


@dataclass(frozen=True)
class Half:
    """Somebody has proved their password, and a code of their second factor is still wanted."""

    user: str
    password: str  # the digest of its hash: another one ends this


@dataclass(frozen=True)
class _Guesses:
    """How many there were, and when the last was and the one before it."""

    count: int
    last: float
    before: float


_NONE = _Guesses(0, 0.0, 0.0)


class Throttle:
    """Growing waits after wrong guesses, in memory: the oldest are forgotten where there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._guesses: OrderedDict[Name, _Guesses] = OrderedDict()

    def __len__(self) -> int:
        return len(self._guesses)

    def guess(self, *names: Name) -> float:
        """0: look at the guess, which is counted for all of these; else the seconds until one will be looked at."""
        with self._lock:
            wait = max(self._left(name) for name in names)
            if wait > 0:
                return wait
            for name in names:
                self._count(name)
            self._forget()
            return 0.0

    def was_right(self, *names: Name) -> None:
        """It was no guess: the first of these starts anew, for the others it is as if it had not been."""
        with self._lock:
            self._guesses.pop(names[0], None)
            for name in names[1:]:
                self._discount(name)

    def _count(self, name: Name) -> None:
        seen = self._guesses.pop(name, _NONE)
        self._guesses[name] = _Guesses(seen.count + 1, self._clock.monotonic(), seen.last)

    def _discount(self, name: Name) -> None:
        seen = self._guesses.get(name, _NONE)
        if seen.count > 1:
            self._guesses[name] = _Guesses(seen.count - 1, seen.before, seen.before)
        else:
            self._guesses.pop(name, None)

    def _left(self, name: Name) -> float:
        brake, seen = BRAKES[name[0]], self._guesses.get(name, _NONE)
        if seen.count < brake.free:
            return 0.0
        return seen.last + min(brake.longest, 2.0 ** min(seen.count - brake.free, 30)) - self._clock.monotonic()

    def _forget(self) -> None:
        while self._guesses and (len(self._guesses) > NAMES_MAX or self._is_over(next(iter(self._guesses)))):
            self._guesses.popitem(last=False)

    def _is_over(self, name: Name) -> bool:
        return self._clock.monotonic() - self._guesses[name].last > FORGET_SECONDS


async def sign_in(
    service: Service,
    throttle: Throttle,
    email: str,
    password: str,
    address: str,
    cookie: str | None = None,
    act: audit.Act | None = None,
    here: Browser | None = None,
) -> SignedIn | Half:
    """A new session, or where there is a second factor the half of one, which `finish` completes.

    ApiError `unauthenticated` in one form for every reason, or `rate_limited` while slowed down.
    `cookie`: the browser's device cookie. `here`: what else is known of it.
    """
    account = email.strip().lower()[:320]
    known = await service.read(lambda: _known(service, account, cookie))
    names = _names(account, address, known.device)
    await asyncio.get_running_loop().run_in_executor(users.hashing, _prove, throttle, names, known.stored, password)
    half = Half(known.user, crypto.digest(known.stored or ""))
    if known.wants_code:
        return half

    def begin(tx: Tx) -> SignedIn:
        if totp.is_wanted(half.user):  # since a moment ago
            raise _refused()
        return _begin(service, tx, half, cookie, act, here)

    return await service.write(begin)


async def finish(
    service: Service,
    throttle: Throttle,
    half: Half,
    code: str,
    cookie: str | None = None,
    act: audit.Act | None = None,
    here: Browser | None = None,
) -> SignedIn:
    """A new session for a code of the second factor, or a recovery code; the same ApiErrors.

    Guesses are slowed down for the person, whatever device they come from: whoever guesses here knows the password.
    """
    _count(throttle, ("code", half.user))

    def begin(tx: Tx) -> SignedIn:
        taken = totp.spend(service, tx, half.user, code)
        if taken is None:
            raise ApiError("unauthenticated", "This is not the current code, or it has been used before.")
        told = act._replace(verb=f"{act.verb} with a recovery code") if act and taken != totp.CODE else act
        return _begin(service, tx, half, cookie, told, here)

    signed_in = await service.write(begin)
    throttle.was_right(("code", half.user))
    return signed_in


async def prove(who: Actor, throttle: Throttle, password: str, address: str, cookie: str | None = None) -> bool:
    """Whether whoever acts gives their password now (`sessions.proved` is to be told); False: they did so lately.

    ApiError `session.proof` without one or with a wrong one, `rate_limited` while slowed down.
    """
    proof = await _proof(who, cookie)
    if is_fresh(proof.proved_at, who.service.now_ms):
        return False
    await _give(throttle, proof, password, address)
    return True


async def give(who: Actor, throttle: Throttle, password: str, address: str, cookie: str | None = None) -> None:
    """Whoever acts gives their password, be it that they did so a moment ago; the same ApiErrors."""
    await _give(throttle, await _proof(who, cookie), password, address)


async def check_proof(who: Actor) -> None:
    """ApiError `session.proof` unless whoever acts gave their password lately."""
    proof = await _proof(who, None)
    if not is_fresh(proof.proved_at, who.service.now_ms):
        raise refuse("session.proof")


async def _give(throttle: Throttle, proof: _Proof, password: str, address: str) -> None:
    if not password:
        raise refuse("session.proof")
    names = _names(proof.account, address, proof.device)
    try:
        await asyncio.get_running_loop().run_in_executor(users.hashing, _prove, throttle, names, proof.stored, password)
    except ApiError as error:
        if error.code != "unauthenticated":
            raise
        raise refuse("session.proof", "The password is wrong.") from error


def is_fresh(proved_at: int, now_ms: int) -> bool:
    """Whether a password that was given then counts for what destroys something, or makes a secret."""
    return now_ms - proved_at <= FRESH_MS


@dataclass(frozen=True)
class _Proof:
    """Of a session: the person's account, the password's hash, when it was last given, the device where it is known."""

    account: str
    stored: str | None
    proved_at: int
    device: str | None


async def _proof(who: Actor, cookie: str | None) -> _Proof:
    return await who.service.read(lambda: _proof_of(who, cookie))


def _proof_of(who: Actor, cookie: str | None) -> _Proof:
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
    return _Proof(account, stored, proved_at, sessions.device_of(who.service, scope.user or "", cookie))


@dataclass(frozen=True)
class _Known:
    """The user of an account, their password's hash, whether they have a second factor, and one of their devices."""

    user: str = ""
    stored: str | None = None
    wants_code: bool = False
    device: str | None = None


def _known(service: Service, account: str, cookie: str | None) -> _Known:
    query = User.select(User.id, User.password, User.totp.is_null(False)).where(User.email == account)
    row = query.tuples().first()
    if row is None:
        return _Known()
    user, stored, wants_code = row
    return _Known(user, stored, bool(wants_code), sessions.device_of(service, user, cookie))


def _names(account: str, address: str, device: str | None) -> tuple[Name, ...]:
    """Under which names a guess is counted; the first stands for this browser, or where it is not known, its place."""
    if device is not None:
        return (("device", device),)
    pair = crypto.digest(f"{len(account)}:{account}{address}")
    return ("pair", pair), ("account", crypto.digest(account)), ("address", address[:64])


def _prove(throttle: Throttle, names: tuple[Name, ...], stored: str | None, password: str) -> None:
    """ApiError unless it is the password. Guesses that were sent all at once find the throttle as their turn comes."""
    _count(throttle, *names)
    right = users.verify(stored, password)
    if stored is None or not right:
        raise _refused()
    throttle.was_right(*names)


def _count(throttle: Throttle, *names: Name) -> None:
    """ApiError `rate_limited` while guesses under one of these names are slowed down; else one more was made."""
    if (wait := throttle.guess(*names)) > 0:
        seconds = int(wait) + 1
        message = f"Too many failed sign-ins. Try again in {_spoken(seconds)}."
        raise ApiError("rate_limited", message, retry_after=seconds)


def _begin(
    service: Service, tx: Tx, half: Half, cookie: str | None, act: audit.Act | None, here: Browser | None
) -> SignedIn:
    """The session and its row, unless the password that was proved is another one by now."""
    row = User.select(User.password, User.organization).where(User.id == half.user).tuples().first()
    if row is None or crypto.digest(row[0] or "") != half.password:
        raise _refused()
    begun = sessions.begin(service, tx, half.user, cookie, here)
    if act:
        audit.record(service, tx, act._replace(organization=row[1], user=begun.user), begun.user)
    return begun


def _refused() -> ApiError:
    return ApiError("unauthenticated", "The e-mail address or the password is wrong.", remediation="Try again.")


def _spoken(seconds: int) -> str:
    if seconds > 90:
        return f"{-(-seconds // 60)} minutes"
    return "a second" if seconds == 1 else f"{seconds} seconds"

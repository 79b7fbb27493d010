"""How much and how often: idempotency records, rate windows, the monthly quota."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import DAY_MS, Clock, iso
from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.errors import QuotaUse
from socialpub.domain.shapes.events import QuotaExceeded, QuotaWarning
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.rows import IdempotencyRow
from socialpub.store.statements import accepting, sweeps
from socialpub.store.statements.rows import Row

# --- Idempotency -------------------------------------------------------------------------------------------------

KEY_MAX = 128
_KEY = re.compile(rf"[ -~]{{1,{KEY_MAX}}}")  # visible ASCII, and spaces
SAME_KEY_WAIT_SECONDS = 60.0
SAME_KEY_RETRY_SECONDS = 5


class Key(NamedTuple):
    """An Idempotency-Key in its scope, with what it was sent for."""

    id: str
    organization: str
    fingerprint: str


class Answer(NamedTuple):
    """The answer of a write, as bytes: what the first caller got and every replay gets."""

    status: int
    body: str
    replayed: bool = False
    batch: str | None = None


class InUseError(Exception):
    """Another request with this key got in first; its answer is waited for."""


def fingerprint(query: str) -> Any:
    """The hash of what a key is sent for, to which the body is still to be added as it comes."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass") + b"\0")


def key_of(scope: Scope, method: str, path: str, header: str | None, fingerprint: str) -> Key | None:
    """The request's key, or None when it has none; ApiError `idempotency_key.length` for one that cannot be."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise refuse("idempotency_key.length")
    who = [scope.organization, scope.profile] if scope.user is None else [scope.organization, scope.user]
    scoped = json.dumps([*who, method, path, header])
    return Key(hashlib.sha256(scoped.encode()).hexdigest(), scope.organization, fingerprint)


async def once(service: Service, key: Key | None, run: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of `run`, executed once for a key: the same request again waits for it, a repeat gets the same bytes.

    `run` calls `check` in its transaction and then `remember`, so that a crash after it can never execute the key
    twice. Raises `idempotency_conflict` for another body, or when the first is still running after 60 s.
    """
    if key is None:
        return await run()
    found = await _replay(service, key, wait=0)
    if found is None:
        try:
            return await run()
        except InUseError:
            found = await _of_another(service, key)
    return found


async def once_found(service: Service, key: Key, run: Callable[[], Awaitable[Answer]]) -> Answer:
    """The same where `run` looks for the key's record itself, among what else it looks up: InUseError.

    What it refuses before that, or after, is said only where there is none.
    """
    try:
        return await run()
    except InUseError:
        return await _of_another(service, key)
    except ApiError:
        found = await _replay(service, key, wait=0)
        if found is None:
            raise
        return found


async def _of_another(service: Service, key: Key) -> Answer:
    found = await _replay(service, key, wait=SAME_KEY_WAIT_SECONDS)
    assert found is not None, "it waits, or says that it is in progress"
    return found


async def _replay(service: Service, key: Key, wait: float) -> Answer | None:
    """The kept answer; None when there is no record (with `wait` 0), or none in time."""
    row = await service.read(lambda: _find(key, service.now_ms))
    if row is None and not wait:
        return None
    if row is not None and row["fingerprint"] != key.fingerprint:
        raise refuse("idempotency_key.body_mismatch")
    row = await service.hub.until(
        f"key:{key.id}", lambda: service.read(lambda: _finished(key, service.now_ms)), wait or SAME_KEY_WAIT_SECONDS
    )
    if row is None:
        raise refuse("idempotency_key.in_progress", retry_after=SAME_KEY_RETRY_SECONDS)
    assert row["status"] is not None, "only a finished one is waited for"
    return Answer(row["status"], _opened(service, row), replayed=True, batch=row["batch"])


def _find(key: Key, now: int) -> IdempotencyRow | None:
    """Its record. One that is still running never lapses: its batch may yet be published."""
    values = sql.first(accepting.KEPT, (key.id, now))
    return None if values is None else sql.row(IdempotencyRow, values)


def _finished(key: Key, now: int) -> IdempotencyRow | None:
    row = _find(key, now)
    return row if row is not None and row["status"] is not None else None


def check(service: Service, key: Key | None) -> None:
    """In the transaction that executes the write: InUseError when another request has the key."""
    if key is not None and _find(key, service.now_ms) is not None:
        raise InUseError


def remember(
    service: Service,
    tx: Tx,
    key: Key | None,
    answer: Answer | None,
    *,
    batch: str | None = None,
    secret: bool = False,
) -> None:
    """After `check`: take the key, with its answer where that is known already.

    `secret`: it is sealed, for bodies that show a secret once.
    """
    if key is not None:
        sql.insert(accepting.REMEMBER, [row_of(service, tx, key, answer, batch=batch, secret=secret)])


def row_of(
    service: Service, tx: Tx, key: Key, answer: Answer | None, *, batch: str | None = None, secret: bool = False
) -> Row:
    """The row with which a key is taken, for `accepting.REMEMBER` in this transaction."""
    now, body = service.now_ms, _sealed(service, key.id, answer, secret=secret) if answer else None
    ends = now + int(service.runtime.settings.retention.idempotency * 1000)
    if answer:
        tx.after_commit(lambda: service.hub.ring(f"key:{key.id}"))
    status = answer.status if answer else None
    return key.id, key.organization, key.fingerprint, status, body, int(secret), batch, now, ends


def keep(service: Service, tx: Tx, key_id: str, answer: Answer) -> None:
    """Store the answer of a key that was taken without one."""
    sql.execute(accepting.KEEP, (answer.status, answer.body, 0, key_id))
    tx.after_commit(lambda: service.hub.ring(f"key:{key_id}"))


def _sealed(service: Service, key_id: str, answer: Answer, *, secret: bool) -> str:
    if not secret:
        return answer.body
    return service.runtime.vault.seal(answer.body.encode(), ("idempotency", "body", key_id))


def kept(service: Service, key: Key) -> Answer | None:
    """The stored answer of a key; None while there is none."""
    row = _finished(key, service.now_ms)
    if row is None:
        return None
    assert row["status"] is not None, "it is finished"
    return Answer(row["status"], _opened(service, row), batch=row["batch"])


def _opened(service: Service, row: IdempotencyRow) -> str:
    assert row["body"] is not None, "it is kept with the status"
    if not row["sealed"]:
        return row["body"]
    return service.runtime.vault.open(row["body"], ("idempotency", "body", row["id"])).decode()


PURGED_AT_ONCE = 500


def purge(tx: Tx, now: int) -> int:
    """Forget answers that are past their time, some hundred at once; never a record that is still running."""
    return sql.change(sweeps.FORGET_ANSWERS, (now, PURGED_AT_ONCE))


# --- Rate windows ------------------------------------------------------------------------------------------------

WINDOW_SECONDS = 60


class Rate(NamedTuple):
    """Where a caller stands in its window after (or, refused, without) this request."""

    limit: int
    remaining: int
    reset: int  # seconds until the oldest request leaves the window
    allowed: bool


class Windows:
    """Sliding windows of 60 s, in memory: a durable write for each GET would cost more than the GET."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._hits: dict[str, deque[float]] = defaultdict(deque)
        self._swept = clock.monotonic()

    def spend(self, name: str, limit: int, *, dry: bool = False) -> Rate:
        """Count one request of `name`; `dry` only looks."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._swept >= WINDOW_SECONDS:
                self._sweep(now)
            hits = self._hits[name]
            while hits and hits[0] <= now - WINDOW_SECONDS:
                hits.popleft()
            allowed = len(hits) < limit
            if allowed and not dry:
                hits.append(now)
            oldest = hits[0] if hits else now
            left = math.ceil(oldest + WINDOW_SECONDS - now)
            reset = min(max(1, left), WINDOW_SECONDS)  # rounding may make a bit more than the window of it
            return Rate(limit, max(0, limit - len(hits)), reset, allowed)

    def _sweep(self, now: float) -> None:
        self._swept = now
        stale = [name for name, hits in self._hits.items() if not hits or hits[-1] <= now - WINDOW_SECONDS]
        for name in stale:
            del self._hits[name]


# --- Monthly quota -----------------------------------------------------------------------------------------------

WARN_PERCENT = 80


@dataclass(frozen=True)
class Crossing:
    """A quota event to emit: its type and data."""

    type: str
    data: QuotaExceeded


class Standing(NamedTuple):
    """Of an organization: its quota (None: unlimited, and not counted) and how much of it is used in a month."""

    period: str
    quota: int | None
    posts: int


def quota_of(service: Service, tier: str) -> int | None:
    """Posts a month that a tier allows; None: unlimited."""
    billing = service.runtime.settings.billing
    return {"free": billing.free, "pro": billing.pro, "business": billing.business}.get(tier)


def standing(service: Service, organization: str, quota: int | None) -> Standing:
    """How much of it is used, in a read; what has no end is not counted."""
    period = month(service.now_ms)
    used = 0 if quota is None else sql.value(accepting.USED_QUOTA, (organization, period)) or 0
    return Standing(period, quota, used)


def take_quota(service: Service, tx: Tx, organization: str, quota: int | None, cost: int) -> list[Crossing]:
    """Spend `cost` posts of this month in the caller's transaction; the thresholds that this crosses.

    One conditional update decides: two requests cannot spend the last slot twice. ApiError `quota_exceeded`.
    """
    period = month(service.now_ms)
    taken = sql.first(accepting.TAKE_QUOTA, (organization, period, cost, quota))
    if taken is None:
        used = sql.value(accepting.USED_QUOTA, (organization, period)) or 0
        raise _used_up(service, Standing(period, quota, used), cost)
    return [] if quota is None else _crossings(service, tx, organization, period, quota, taken)


def check_quota(service: Service, standing: Standing, cost: int) -> None:
    """The same refusal, from a read, before anything else is done."""
    if standing.quota is not None and standing.posts + cost > standing.quota:
        raise _used_up(service, standing, cost)


def _used_up(service: Service, standing: Standing, cost: int) -> ApiError:
    detail: QuotaUse = {
        "period": standing.period,
        "quota": standing.quota,
        "postsCount": standing.posts,
        "cost": cost,
        "resetAt": _next_month(service.now_ms),
    }
    return refuse("billing.posts.monthly_cap", platform_response=detail)


def _crossings(
    service: Service, tx: Tx, organization: str, period: str, quota: int, taken: tuple[int, int, int]
) -> list[Crossing]:
    (posts, warned, exceeded), reset = taken, _next_month(service.now_ms)
    data: QuotaExceeded = {"period": period, "postsCount": posts, "quota": quota, "resetAt": reset}
    told = []
    if posts * 100 >= quota * WARN_PERCENT and not warned:
        warning: QuotaWarning = {**data, "percent": round(posts / quota, 4)}
        told.append(Crossing("quota.warning", warning))
    if posts >= quota and not exceeded:
        told.append(Crossing("quota.exceeded", data))
    if told:
        sql.execute(accepting.TOLD_QUOTA, (int(posts >= quota), organization, period))
    return told


def month(now_ms: int) -> str:
    """This month as `YYYY-MM`."""
    return _month_of(now_ms // DAY_MS)


@functools.lru_cache(4)
def _month_of(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m}"


def _next_month(now_ms: int) -> str:
    """The instant at which the next month begins."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return iso(int(following.timestamp() * 1000))

"""Idempotency records, rate limit windows and monthly quotas."""

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
_KEY = re.compile(rf"[ -~]{{1,{KEY_MAX}}}")  # printable ASCII
SAME_KEY_WAIT_SECONDS = 60.0
SAME_KEY_RETRY_SECONDS = 5


class Key(NamedTuple):
    """Idempotency-Key in its scope, with the request's fingerprint."""

    id: str
    organization: str
    fingerprint: str


class Answer(NamedTuple):
    """Stored response of a write, replayed byte for byte."""

    status: int
    body: str
    replayed: bool = False
    batch: str | None = None


class InUseError(Exception):
    """Key taken by another request; wait for its response."""


def fingerprint(query: str) -> Any:
    """Start the request fingerprint (SHA-256); the caller adds the body as it arrives."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass") + b"\0")


def key_of(scope: Scope, method: str, path: str, header: str | None, fingerprint: str) -> Key | None:
    """Parse the Idempotency-Key header, if any. Raises `idempotency_key.length`."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise refuse("idempotency_key.length")
    who = [scope.organization, scope.profile] if scope.user is None else [scope.organization, scope.user]
    scoped = json.dumps([*who, method, path, header])
    return Key(hashlib.sha256(scoped.encode()).hexdigest(), scope.organization, fingerprint)


async def once(service: Service, key: Key | None, run: Callable[[], Awaitable[Answer]]) -> Answer:
    """Execute `run` once per key; concurrent duplicates wait, repeats get the same bytes.

    `run` calls `check` and then `remember` in its transaction, so that no crash can lead to a second execution. Raises
    `idempotency_conflict` for a different body, or if the first request still runs after 60 s.
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
    """Execute `run`, which looks up the key itself (raising InUseError), once per key.

    An error of `run` is raised only if no record of the key exists.
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
    """Load the stored response; None if there is no record and `wait` is 0."""
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
    """Load the record. A running one never expires: its batch may yet be published."""
    values = sql.first(accepting.KEPT, (key.id, now))
    return None if values is None else sql.row(IdempotencyRow, values)


def _finished(key: Key, now: int) -> IdempotencyRow | None:
    row = _find(key, now)
    return row if row is not None and row["status"] is not None else None


def check(service: Service, key: Key | None) -> None:
    """Raise InUseError if the key is taken. Call in the write's transaction."""
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
    """Insert the key's record after `check`; `secret` encrypts the stored body."""
    if key is not None:
        sql.insert(accepting.REMEMBER, [row_of(service, tx, key, answer, batch=batch, secret=secret)])


def row_of(
    service: Service, tx: Tx, key: Key, answer: Answer | None, *, batch: str | None = None, secret: bool = False
) -> Row:
    """Build the record for `accepting.REMEMBER`, in this transaction."""
    now, body = service.now_ms, _sealed(service, key.id, answer, secret=secret) if answer else None
    ends = now + int(service.runtime.settings.retention.idempotency * 1000)
    if answer:
        tx.after_commit(lambda: service.hub.ring(f"key:{key.id}"))
    status = answer.status if answer else None
    return key.id, key.organization, key.fingerprint, status, body, int(secret), batch, now, ends


def keep(service: Service, tx: Tx, key_id: str, answer: Answer) -> None:
    """Store the response of a key that was inserted without one."""
    sql.execute(accepting.KEEP, (answer.status, answer.body, 0, key_id))
    tx.after_commit(lambda: service.hub.ring(f"key:{key_id}"))


def _sealed(service: Service, key_id: str, answer: Answer, *, secret: bool) -> str:
    if not secret:
        return answer.body
    return service.runtime.vault.seal(answer.body.encode(), ("idempotency", "body", key_id))


def kept(service: Service, key: Key) -> Answer | None:
    """Return the stored response of a key, or None."""
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
    """Delete a batch of expired records, never a running one; return the number."""
    return sql.change(sweeps.FORGET_ANSWERS, (now, PURGED_AT_ONCE))


# --- Rate windows ------------------------------------------------------------------------------------------------

WINDOW_SECONDS = 60


class Rate(NamedTuple):
    """State of a rate limit window after this request, counted only if allowed."""

    limit: int
    remaining: int
    reset: int  # seconds until the oldest request leaves the window
    allowed: bool


class Windows:
    """In-memory sliding windows of 60 s: a durable write per GET would cost more than the GET."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._hits: dict[str, deque[float]] = defaultdict(deque)
        self._swept = clock.monotonic()

    def spend(self, name: str, limit: int, *, dry: bool = False) -> Rate:
        """Count one request of `name`; `dry` only checks."""
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
            reset = min(max(1, left), WINDOW_SECONDS)  # rounding up may exceed the window
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
    """Quota event to emit."""

    type: str
    data: QuotaExceeded


class Standing(NamedTuple):
    """Quota (None: unlimited and not counted) and usage of an organization in a month."""

    period: str
    quota: int | None
    posts: int


def quota_of(service: Service, tier: str) -> int | None:
    """Return the monthly post quota of a tier; None: unlimited."""
    billing = service.runtime.settings.billing
    return {"free": billing.free, "pro": billing.pro, "business": billing.business}.get(tier)


def standing(service: Service, organization: str, quota: int | None) -> Standing:
    """Read this month's usage; an unlimited quota is not counted."""
    period = month(service.now_ms)
    used = 0 if quota is None else sql.value(accepting.USED_QUOTA, (organization, period)) or 0
    return Standing(period, quota, used)


def take_quota(service: Service, tx: Tx, organization: str, quota: int | None, cost: int) -> list[Crossing]:
    """Spend `cost` posts of this month's quota; return the thresholds crossed.

    One conditional UPDATE decides, so two requests cannot spend the last post twice. Raises ApiError `quota_exceeded`.
    """
    period = month(service.now_ms)
    taken = sql.first(accepting.TAKE_QUOTA, (organization, period, cost, quota))
    if taken is None:
        used = sql.value(accepting.USED_QUOTA, (organization, period)) or 0
        raise _used_up(service, Standing(period, quota, used), cost)
    return [] if quota is None else _crossings(service, tx, organization, period, quota, taken)


def check_quota(service: Service, standing: Standing, cost: int) -> None:
    """Raise ApiError `quota_exceeded` if `cost` does not fit; a read, before any work."""
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
    """Return the month as `YYYY-MM`."""
    return _month_of(now_ms // DAY_MS)


@functools.lru_cache(4)
def _month_of(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m}"


def _next_month(now_ms: int) -> str:
    """Return the start of the next month."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return iso(int(following.timestamp() * 1000))

"""Recovery at a start and in sweeps: leases, overdue posts, lost jobs and responses.

Recovery sends nothing. It frees leases and enqueues jobs; a resumed post first looks up what was already published.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from peewee import JOIN, fn

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY
from socialpub.domain.access import idempotency
from socialpub.domain.accounts import tokens
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import batches
from socialpub.domain.publishing import overdue_rule, transactions
from socialpub.domain.server import clock_watch
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, Job
from socialpub.store.queries import maintenance, notifications, webhooks
from socialpub.store.schema.models import Batch, Post

log = logging.getLogger("socialpub.jobs")

WRITE_BATCH = 20  # rows per transaction: other writers wait for it
SWEEP_MAX = 500
SOON_MS = 3_600_000  # a post without a job is found this long before it is due
COMPLETION_MS, COMPLETION_MAX_MS = 1000, 60_000  # between checks of an interrupted batch, growing with its age
INTERRUPTED_MS = 120_000  # a request that runs for longer counts as interrupted


def recover(service: AppContext) -> None:
    """Free the leases of the previous run and enqueue interrupted responses; must be quick."""

    def free(tx: Tx) -> None:
        service.jobs.free_all(tx, service.now_ms)
        tokens.release_all(tx)

    service.write(free).result()
    fault_injection.hit("recover.mid")
    enqueue_interrupted(service, older_ms=0)


def skip_downtime(service: AppContext, seen_at: int) -> None:
    """Let the time since the last heartbeat not count as failing, for receivers that fail."""
    now = service.now_ms

    def skip(tx: Tx) -> None:
        for outbox in (webhooks, notifications):
            sql.update(outbox.SKIP_DOWNTIME, (now, now - seen_at))

    if 0 < seen_at < now:
        service.write(skip).result()


def retry_unstored_responses(service: AppContext) -> None:
    """Enqueue the responses that this process sent but could not store."""
    for batch in list(service.lost.unstored):
        _enqueue(service, "answer", f"answer:{batch}", service.now_ms)
        service.lost.unstored.discard(batch)


def _enqueue(service: AppContext, kind: str, key: str, due: int, account: str = "") -> None:
    def put(tx: Tx) -> None:
        share = upstreams.load_share_key(service, account) if account else NO_SHARE_KEY
        service.jobs.put(tx, kind, key, due, account, share)

    service.write(put).result()


# --- Clock steps -------------------------------------------------------------------------------------------------


def has_due_post(service: AppContext) -> bool:
    """Return whether a publish job is due now."""
    return bool(Job.select().where(Job.kind == "publish", Job.visible_at <= service.now_ms).exists())


def measure_clock_lag(service: AppContext, seen_at: int) -> int:
    """Return by how many ms the clock is behind the newest stored time; 0 if it is not."""
    newest = service.read(lambda: sql.fetch_value(maintenance.FIND_NEWEST_EVENT_TIME))
    lag = max(seen_at, newest.result() or 0) - service.now_ms
    if lag > clock_watch.DRIFT_MS:
        log.warning("the clock is %d s behind the newest stored time: scheduled posts are late by as much", lag // 1000)
    return max(0, lag)


def shorten_delays(service: AppContext, by_ms: int) -> int:
    """Bring delayed jobs and deliveries forward after a clock step; return how many jobs.

    Scheduled posts keep their time. Leases, retries, lookups, responses and deliveries are due a delay after a clock
    that has changed.
    """
    after, moved = "", 0
    if by_ms:
        _shorten_delivery_delays(service, by_ms)
    while by_ms and (keys := service.read(functools.partial(_list_delayed, after, service.now_ms)).result()):
        service.write(functools.partial(_bring_forward, keys=keys, by_ms=by_ms, now=service.now_ms)).result()
        after, moved = keys[-1], moved + len(keys)
    return moved


def _shorten_delivery_delays(service: AppContext, by_ms: int) -> None:
    now = service.now_ms
    for outbox in (webhooks, notifications):
        found = service.read(functools.partial(sql.fetch_all, outbox.FIND_DELAYED, (now,))).result()
        for (receiver,) in found:
            values = (now, by_ms, receiver)
            service.write(functools.partial(_bring_deliveries_forward, outbox=outbox, values=values)).result()
        service.wake_deliveries([receiver for (receiver,) in found])


def _bring_deliveries_forward(tx: Tx, *, outbox: ModuleType, values: tuple[int, int, str]) -> None:
    sql.update(outbox.BRING_FORWARD, values)


def _list_delayed(after: str, now: int) -> list[str]:
    query = (
        Job.select(Job.key)
        .join(Post, JOIN.LEFT_OUTER, on=(Post.id == Job.key))
        .where(Job.key > after, Job.visible_at > now, Post.status.is_null() | (Post.status != "queued"))
        .order_by(Job.key)
        .limit(SWEEP_MAX)
    )
    return [row[0] for row in query.tuples()]


def _bring_forward(tx: Tx, *, keys: list[str], by_ms: int, now: int) -> None:
    def bring_forward(column: Any) -> Any:
        return fn.MAX(now, column - by_ms)  # now, if the delay began before the clock was set ahead

    Job.update(visible_at=bring_forward(Job.visible_at)).where(Job.key.in_(keys)).execute()
    Post.update(next_attempt_at=bring_forward(Post.next_attempt_at), due_at=bring_forward(Post.due_at)).where(
        Post.id.in_(keys), Post.status.in_(["validated", "publishing"])
    ).execute()


# --- Overdue -----------------------------------------------------------------------------------------------------


def fail_overdue(service: AppContext) -> int:
    """Fail posts overdue beyond the grace time, rule `schedule.overdue`; return their number.

    Posts that this server is publishing are left alone.
    """
    held = {claim.key for claim in service.jobs.held()}
    found = service.read(lambda: overdue_rule.list_overdue(overdue_rule.get_cutoff(service))).result()
    rows = [row for row in found if row["id"] not in held]
    fail_posts(service, rows)
    return len(rows)


def fail_posts(service: AppContext, rows: Sequence[overdue_rule.DuePost]) -> None:
    """Fail overdue posts, WRITE_BATCH per transaction."""

    def fail(tx: Tx, batch: Sequence[overdue_rule.DuePost]) -> None:
        for row in batch:
            transactions.fail_overdue(service, tx, row)

    for start in range(0, len(rows), WRITE_BATCH):
        service.write(functools.partial(fail, batch=rows[start : start + WRITE_BATCH])).result()


def complete_response(service: AppContext, claim: Claim) -> None:
    """Store the response of an interrupted request once all its posts are finished."""
    batch = claim.key.removeprefix("answer:")

    def finish(tx: Tx) -> None:
        if batches.is_finished(batch):
            key = sql.fetch_value(maintenance.FIND_UNANSWERED_REQUEST, (batch,))
            if key:
                idempotency.store_response(service, tx, key, batches.build_response(batches.load_body(batch)))
            service.jobs.finish(tx, claim)
        else:
            age = service.now_ms - Batch.select(Batch.created_at).where(Batch.id == batch).scalar()
            service.jobs.reschedule(tx, claim, service.now_ms + max(COMPLETION_MS, min(age // 10, COMPLETION_MAX_MS)))

    service.write(finish).result()


# --- Sweeps ------------------------------------------------------------------------------------------------------


def enqueue_lost_posts(service: AppContext) -> None:
    """Enqueue the open posts that have no job and are due within SOON_MS."""
    before = service.now_ms + SOON_MS
    for post, account, due in service.read(
        lambda: sql.fetch_all(maintenance.FIND_WITHOUT_JOB, (before, SWEEP_MAX))
    ).result():
        log.warning("post %s had no job; a new one is enqueued", post)
        _enqueue(service, "publish", post, due, account)


def enqueue_interrupted(service: AppContext, older_ms: int = INTERRUPTED_MS) -> None:
    """Enqueue the missing responses of requests that are at least `older_ms` old."""
    bounds = (service.now_ms, older_ms)
    for (batch,) in service.read(lambda: sql.fetch_all(maintenance.FIND_INTERRUPTED_REQUESTS, bounds)).result():
        _enqueue(service, "answer", f"answer:{batch}", service.now_ms)

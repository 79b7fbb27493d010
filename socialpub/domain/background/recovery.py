"""What a start finds and what a sweep finds: leases of the run before, overdue posts, lost doorbells, answers cut off.

Recovery sends nothing: it frees the leases, and the freed doorbells lead each post to look before it does anything.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from peewee import JOIN, fn

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import tokens
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import batches
from socialpub.domain.publishing import overdue_rule, transactions
from socialpub.domain.server import clock_watch, instance
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, Job
from socialpub.store.queries import maintenance
from socialpub.store.schema.models import Batch, Post

log = logging.getLogger("socialpub.jobs")

WRITE_BATCH = 20  # rows in one transaction: other writers wait for it
SWEEP_MAX = 500
SKIPPED_MAX = 200  # overdue posts that one transaction gives up: other writers wait for it
SOON_MS = 3_600_000  # a post that has lost its doorbell is found this long before it is due
COMPLETION_MS, COMPLETION_MAX_MS = 1000, 60_000  # between looks at an interrupted batch, growing with its age
INTERRUPTED_MS = 120_000  # an answer this late is nobody's any more


def recover(service: AppContext) -> None:
    """Free what the run before has held, and let interrupted answers be finished. Quick: the port is not open yet."""

    def free(tx: Tx) -> None:
        service.jobs.free_all(tx, service.now_ms)
        tokens.release_all(tx)

    service.write(free).result()
    fault_injection.hit("recover.mid")
    _enqueue_completions(service)


def _enqueue_completions(service: AppContext, within_ms: int = 0) -> None:
    """`within_ms`: of requests that began less than this ago, somebody may still be at work."""
    for batch in service.read(lambda: _list_interrupted(service.now_ms, within_ms)).result():
        _enqueue(service, "answer", f"answer:{batch}", service.now_ms)


def retry_unstored_responses(service: AppContext) -> None:
    """The answers of this process that could not be kept when they were given: soon, not after minutes."""
    for batch in list(service.lost.unkept):
        _enqueue(service, "answer", f"answer:{batch}", service.now_ms)
        service.lost.unkept.discard(batch)


def _enqueue(service: AppContext, kind: str, key: str, due: int, account: str = "") -> None:
    def put(tx: Tx) -> None:
        share = upstreams.load_share_key(service, account) if account else NO_SHARE_KEY
        service.jobs.put(tx, kind, key, due, account, share)

    service.write(put).result()


# --- A clock that was set ----------------------------------------------------------------------------------------


def has_due_post(service: AppContext) -> bool:
    """Whether a post is to be worked on now, by the clock."""
    return bool(Job.select().where(Job.kind == "publish", Job.visible_at <= service.now_ms).exists())


def measure_clock_lag(service: AppContext, seen_at: int) -> int:
    """By how many milliseconds the clock is behind what was written here before; 0 when it is not."""
    newest = service.read(lambda: sql.fetch_value(maintenance.FIND_NEWEST_EVENT_TIME))
    by = max(seen_at, newest.result() or 0) - service.now_ms
    if by > clock_watch.DRIFT_MS:
        log.warning("the clock is %d s behind the newest entry: what is scheduled is late by as much", by // 1000)
    return max(0, by)


def shorten_delays(service: AppContext, by_ms: int) -> int:
    """Bring forward what waits for a while and not for a moment, after the clock was set back; how many jobs.

    A scheduled post waits for its moment. Leases, attempts, looks and answers had their time counted from a clock that
    is gone.
    """
    after, moved = "", 0
    while by_ms and (keys := service.read(functools.partial(_list_delayed, after, service.now_ms)).result()):
        service.write(functools.partial(_bring_forward, keys=keys, by_ms=by_ms, now=service.now_ms)).result()
        after, moved = keys[-1], moved + len(keys)
    return moved


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
    def sooner(column: Any) -> Any:
        return fn.MAX(now, column - by_ms)  # what began to wait before the clock had been set ahead: now

    Job.update(visible_at=sooner(Job.visible_at)).where(Job.key.in_(keys)).execute()
    Post.update(next_attempt_at=sooner(Post.next_attempt_at), due_at=sooner(Post.due_at)).where(
        Post.id.in_(keys), Post.status.in_(["validated", "publishing"])
    ).execute()


# --- Overdue -----------------------------------------------------------------------------------------------------


def fail_overdue(service: AppContext) -> int:
    """Posts due longer ago than the grace time become `failed`, rule `schedule.overdue`; how many were found.

    Not those that a thread of this server is at work on.
    """
    held = {claim.key for claim in service.jobs.held()}
    found = service.read(lambda: overdue_rule.list_overdue(overdue_rule.get_cutoff(service))).result()
    rows = [row for row in found if row["id"] not in held]
    for start in range(0, len(rows), WRITE_BATCH):
        fail_posts(service, rows[start : start + WRITE_BATCH])
    return len(rows)


def end_pause(tx: Tx, who: Actor, reason: str) -> dict[str, Any]:
    """`{was}`: nothing is paused for this reason any more."""
    instance.resume(tx, reason)
    return {"was": reason}


def hand_over(tx: Tx, who: Actor) -> dict[str, Any]:
    """`{handedOverAt}`: the database is to run elsewhere from now on (`instance.hand_over`)."""
    return {"handedOverAt": format_iso(instance.hand_over(who.service, tx).at)}


def cancel_handover(tx: Tx, who: Actor) -> dict[str, Any]:
    """`{was}`: it stays here; whether it was to go."""
    return {"was": instance.cancel_handover(tx)}


def trust_clock(tx: Tx, who: Actor) -> dict[str, Any]:
    """The same where only the clock was in doubt, on the word of somebody who may speak for the whole server."""
    _check_may_resume(who.scope)
    return end_pause(tx, who, instance.CLOCK)


def resume_after_restore(tx: Tx, who: Actor, *, skip: bool) -> dict[str, Any]:
    """`{was, skipped}`: publishing goes on after a restore, on the word of somebody who has compared.

    `skip`: what is overdue now fails, in place of going out late. ApiError where another pause is on, or where that
    is more than SKIPPED_MAX posts, which are a command's work.
    """
    _check_may_resume(who.scope)
    if instance.get_pause_reason() != instance.RESTORED:
        raise ApiError("validation_failed", "Publishing is not paused for a restore.", rule="state", status=409)
    rows = overdue_rule.list_overdue(who.service.now_ms, SKIPPED_MAX + 1) if skip else []
    if len(rows) > SKIPPED_MAX:
        command = f"{instance.get_resume_command(instance.RESTORED)} --skip-overdue"
        words = f"More than {SKIPPED_MAX} posts are overdue. {command} does it."
        raise ApiError("validation_failed", words)
    for row in rows:
        transactions.fail_overdue(who.service, tx, row)
    return end_pause(tx, who, instance.RESTORED) | {"skipped": len(rows)}


def _check_may_resume(scope: Scope) -> None:
    if not may_resume(scope):
        command = instance.get_resume_command(instance.get_pause_reason())
        raise ApiError("unauthorized", f"Only the operator of this server can end its pause: {command}")


def may_resume(scope: Scope) -> bool:
    """Whether a pause is this organization's alone: there is no other whose posts would go out too."""
    return profiles.is_only_organization(scope.organization)


def fail_posts(service: AppContext, rows: Sequence[overdue_rule.DuePost]) -> None:
    def fail(tx: Tx) -> None:
        for row in rows:
            transactions.fail_overdue(service, tx, row)

    service.write(fail).result()


def _list_interrupted(now: int, within_ms: int) -> list[str]:
    """Batches whose answer nobody waits for any more, and that nothing is about to complete."""
    return [batch for (batch,) in sql.fetch_all(maintenance.FIND_INTERRUPTED_REQUESTS, (now, within_ms))]


def complete_response(service: AppContext, claim: Claim) -> None:
    """Complete the kept answer of a batch whose request died with the process, once the batch is settled."""
    batch = claim.key.removeprefix("answer:")

    def finish(tx: Tx) -> None:
        if batches.is_finished(batch):
            key = sql.fetch_value(maintenance.FIND_UNANSWERED_REQUEST, (batch,))
            if key:
                batches.store_current_response(service, tx, batch, key)
            service.jobs.finish(tx, claim)
        else:
            age = service.now_ms - Batch.select(Batch.created_at).where(Batch.id == batch).scalar()
            service.jobs.again(tx, claim, service.now_ms + max(COMPLETION_MS, min(age // 10, COMPLETION_MAX_MS)))

    service.write(finish).result()


# --- Sweeps ------------------------------------------------------------------------------------------------------


def enqueue_lost_posts(service: AppContext) -> None:
    """Ring again for open posts that have no job: those that are due, or soon."""
    before = service.now_ms + SOON_MS
    for post, lane, due in service.read(
        lambda: sql.fetch_all(maintenance.FIND_WITHOUT_JOB, (before, SWEEP_MAX))
    ).result():
        log.warning("post %s had no job; it rings again", post)
        _enqueue(service, "publish", post, due, lane)


def enqueue_interrupted(service: AppContext) -> None:
    """Let answers be finished that nobody has finished for minutes."""
    _enqueue_completions(service, INTERRUPTED_MS)

"""What a start finds and what a sweep finds: leases of the run before, overdue posts, lost doorbells, answers cut off.

Recovery sends nothing: it frees the leases, and the freed doorbells lead each post to look before it does anything.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from peewee import JOIN, Value, fn

from socialpub.base import faults
from socialpub.domain import batches, instance, limits, media, outcomes, unclear
from socialpub.domain.service import Service
from socialpub.store.db import Tx
from socialpub.store.models import Batch, Idempotency, Intent, Post
from socialpub.store.queue import Claim, Job

log = logging.getLogger("socialpub.jobs")

STEP = 20  # rows in one transaction: other writers wait for it
SWEEP_MAX = 500
ANSWER_MS, ANSWER_MAX_MS = 1000, 60_000  # between looks at an interrupted batch, growing with its age
INTERRUPTED_MS = 120_000  # an answer this late is nobody's any more


def recover(service: Service) -> None:
    """Free the leases of the run before, and let interrupted answers be finished. Quick: the port is not open yet."""
    service.write(lambda tx: service.jobs.free_all(tx, service.now_ms)).result()
    faults.hit("recover.mid")
    _answer_interrupted(service, service.now_ms)


def _answer_interrupted(service: Service, before: int) -> None:
    for batch in service.read(lambda: _interrupted(before)).result():
        _ring(service, "answer", f"answer:{batch}", service.now_ms)


def _ring(service: Service, kind: str, key: str, due: int, lane: str = "") -> None:
    service.write(lambda tx: service.jobs.put(tx, kind, key, due, lane)).result()


def fail_overdue(service: Service) -> int:
    """Posts due longer ago than the grace time become `failed`, rule `schedule.overdue`; how many."""
    rows = service.read(lambda: overdue(grace_ends(service))).result()
    for start in range(0, len(rows), STEP):
        fail_part(service, rows[start : start + STEP])
    return len(rows)


def grace_ends(service: Service) -> int:
    """What was due before this is not published any more."""
    return service.now_ms - int(service.runtime.settings.scheduling.overdue_grace * 1000)


def fail_part(service: Service, rows: list[dict[str, Any]]) -> None:
    def fail(tx: Tx) -> None:
        for row in rows:
            outcomes.overdue(service, tx, row)

    service.write(fail).result()


def overdue(before: int) -> list[dict[str, Any]]:
    """Open posts that were due before a time and of which nothing can have been sent, in due order."""
    sent = Intent.select().where(Intent.post == Post.id, Intent.outcome.is_null() | (Intent.outcome == "ok"))
    rows = (
        Post.select(*_SHOWN)
        .where(Post.status.in_(["queued", "validated", "publishing"]), _due_at() < before, ~fn.EXISTS(sent))
        .order_by(_due_at(), Post.id)
        .dicts()
    )
    return [row for row in rows if not unclear.goes_on(row)]


_SHOWN = (
    Post.id,
    Post.status,
    Post.platform,
    Post.account,
    Post.attempts,
    Post.next_attempt_at,
    Post.scheduled_at,
    Post.created_at,
    Post.saved,
)


def _due_at() -> Any:
    return fn.COALESCE(Post.next_attempt_at, Post.scheduled_at, Post.created_at)


def _interrupted(before: int) -> list[str]:
    """Batches whose answer nobody waits for any more, and that nothing is about to complete."""
    query = (
        Idempotency.select(Idempotency.batch)
        .join(Job, JOIN.LEFT_OUTER, on=(Job.key == Value("answer:").concat(Idempotency.batch)))
        .where(Idempotency.status.is_null(), Idempotency.created_at < before, Job.key.is_null())
    )
    return [row[0] for row in query.tuples()]


def answer(service: Service, claim: Claim) -> None:
    """Complete the kept answer of a batch whose request died with the process, once the batch is settled."""
    batch = claim.key.removeprefix("answer:")

    def finish(tx: Tx) -> None:
        if batches.is_settled(batch):
            key = Idempotency.select(Idempotency.id).where(Idempotency.batch == batch).scalar()
            batches.complete(service, tx, batch, key)
            service.jobs.finish(tx, claim)
        else:
            age = service.now_ms - Batch.select(Batch.created_at).where(Batch.id == batch).scalar()
            service.jobs.again(tx, claim, service.now_ms + max(ANSWER_MS, min(age // 10, ANSWER_MAX_MS)))

    service.write(finish).result()


# --- Sweeps ------------------------------------------------------------------------------------------------------


def sweep(service: Service, fetched: media.Fetched) -> None:
    """Ring again for open posts that have no job, and forget what is past its time."""
    for post, lane, due in service.read(_unrung).result():
        log.warning("post %s had no job; it rings again", post)
        _ring(service, "publish", post, due, lane)
    _answer_interrupted(service, service.now_ms - INTERRUPTED_MS)
    service.write(lambda tx: limits.purge(tx, service.now_ms)).result()
    for batch in fetched.kept():
        if service.read(functools.partial(batches.is_settled, batch)).result():
            fetched.drop(batch)
    # A database that was put back may be the wrong one: its media are left alone until somebody has looked.
    if service.read(instance.paused).result() is None:
        fetched.tidy()


def _unrung() -> list[tuple[str, str, int]]:
    query = (
        Post.select(Post.id, Post.account, _due_at())
        .join(Job, JOIN.LEFT_OUTER, on=(Job.key == Post.id))
        .where(Post.status.in_(["queued", "validated", "publishing"]), Job.key.is_null())
        .limit(SWEEP_MAX)
    )
    return list(query.tuples())

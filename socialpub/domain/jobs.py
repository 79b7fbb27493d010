"""Kinds of job and their functions, the embedded consumer, recovery at start, and the sweeps that ring again.

Recovery sends nothing: it frees the leases of the run before, and the freed doorbells lead each post to look before
it does anything.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from peewee import JOIN, fn

from socialpub.base import faults
from socialpub.domain import batches, instance, limits, media, outcomes, publish
from socialpub.domain.service import Service
from socialpub.store.db import Tx
from socialpub.store.models import Idempotency, Intent, Post
from socialpub.store.queue import RENEW_SECONDS, Claim, EmbeddedConsumer, Job

log = logging.getLogger("socialpub.jobs")

STOP_SECONDS = 20.0
SWEEP_SECONDS = 60.0
STEP = 500
FAILED_AGAIN_MS = 30_000
ANSWER_EVERY_MS = 1000


class Engine:
    """Everything that runs beside the requests: started once the port may open, stopped before the process ends."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.fetched = media.Fetched(service)
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._consumer: EmbeddedConsumer | None = None
        self.heartbeat = service.runtime.clock.monotonic()
        self.paused: str | None = None

    def start(self) -> None:
        """Own the database, recover what the run before left, and begin to answer doorbells."""
        service, jobs = self.service, self.service.jobs
        row = service.write(lambda tx: instance.take_over(service, tx)).result()
        jobs.epoch, self.paused = row["epoch"], row["paused"]
        service.db.guard = lambda: instance.fence(jobs.epoch)
        instance.beat(service)
        if self.paused:
            log.warning(
                "publishing is paused (%s): run `socialpub resume --after-restore` once you have looked", self.paused
            )
        recover(service, paused=bool(self.paused))
        jobs.paused = lambda: ("publish",) if self.paused else ()
        for kind, run in self._kinds().items():
            jobs.register(kind, self._answering(run))
        self._consumer = EmbeddedConsumer(jobs, workers=service.runtime.settings.publishing.workers, periodic=False)
        self._consumer.start()
        self._keeper.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way; the rest is taken up by the next start."""
        self._stop.set()
        if self._consumer:
            self._consumer.shutdown_timeout = seconds
            self._consumer.stop(graceful=True)
        if self._keeper.is_alive():
            self._keeper.join(timeout=5)

    def publish_now(self, claims: Sequence[Claim]) -> None:
        """Run the targets of an immediate batch in the I/O pool: all at once, but one after the other on an account."""
        lanes: dict[str, list[Claim]] = {}
        for claim in claims:
            lanes.setdefault(claim.lane, []).append(claim)
        for lane in lanes.values():
            self.service.pool.submit(publish.run_lane, self.service, self.fetched, lane)

    def _kinds(self) -> dict[str, Callable[[Claim], None]]:
        return {
            "publish": lambda claim: publish.run(self.service, self.fetched, claim),
            "answer": lambda claim: answer(self.service, claim),
        }

    def _answering(self, run: Callable[[Claim], None]) -> Callable[[Claim], None]:
        """A job's function for a worker: its lane is left whatever happens, and a failure rings again."""

        def answered(claim: Claim) -> None:
            late = _lateness(self.service, claim)
            try:
                run(claim)
            except Exception:  # noqa: BLE001 - the worker goes on; the job rings again
                log.exception("job %s failed", claim.key)
                at = self.service.now_ms + FAILED_AGAIN_MS
                self.service.write(lambda tx: self.service.jobs.again(tx, claim, at))
            finally:
                settings = self.service.runtime.settings.scheduling
                self.service.jobs.lanes.leave(claim.lane, settings.overdue_spacing if late else 0)
                self.service.jobs.drop(claim)

        return answered

    # --- The keeper ---

    def _keep(self) -> None:
        """Renew leases, count beats, sweep: one thread, so that a stuck job cannot stop it."""
        clock = self.service.runtime.clock
        swept = beaten = clock.monotonic()
        while not self._stop.wait(min(RENEW_SECONDS, 5.0)):
            try:
                self.service.jobs.renew()
                self._look_at_pause()
                if clock.monotonic() - swept >= SWEEP_SECONDS:
                    swept = clock.monotonic()
                    sweep(self.service, self.fetched)
                if clock.monotonic() - beaten >= instance.BEAT_SECONDS:
                    beaten = clock.monotonic()
                    instance.beat(self.service)
                self.heartbeat = clock.monotonic()
            except Exception:  # noqa: BLE001 - a full disk must not end the keeper
                log.exception("the keeper could not do its round")

    def _look_at_pause(self) -> None:
        self.paused = self.service.read(instance.paused).result()


def _lateness(service: Service, claim: Claim) -> bool:
    """Whether a job is answered long after its time: overdue posts of one account keep a distance."""
    row = service.read(lambda: _due(claim.key)).result()
    return row is not None and service.now_ms - row > 10_000


def _due(post: str) -> int | None:
    row = Post.select(Post.next_attempt_at, Post.scheduled_at, Post.status).where(Post.id == post).tuples().first()
    if row is None or row[2] == "publishing":
        return None
    return row[0] or row[1]  # type: ignore[no-any-return]


# --- Recovery ----------------------------------------------------------------------------------------------------


def recover(service: Service, *, paused: bool) -> None:
    """Free the leases of the run before; fail what is overdue beyond the grace time; finish interrupted answers."""
    service.write(lambda tx: service.jobs.free_all(tx, service.now_ms)).result()
    faults.hit("recover.mid")
    if not paused:
        fail_overdue(service)
    for batch in service.read(_interrupted).result():
        _ring(service, "answer", f"answer:{batch}", service.now_ms)


def _ring(service: Service, kind: str, key: str, due: int, lane: str = "") -> None:
    service.write(lambda tx: service.jobs.put(tx, kind, key, due, lane)).result()


def fail_overdue(service: Service) -> int:
    """Posts due longer ago than the grace time become `failed`, rule `schedule.overdue`; how many."""
    before = service.now_ms - int(service.runtime.settings.scheduling.overdue_grace * 1000)
    rows = service.read(lambda: _overdue(before)).result()
    for start in range(0, len(rows), STEP):
        _fail_part(service, rows[start : start + STEP])
    return len(rows)


def _fail_part(service: Service, rows: list[dict[str, Any]]) -> None:
    def fail(tx: Tx) -> None:
        for row in rows:
            outcomes.overdue(service, tx, row)

    service.write(fail).result()


def _overdue(before: int) -> list[dict[str, Any]]:
    """Open posts that were due before a time and of which nothing can have been sent."""
    sent = Intent.select().where(Intent.post == Post.id, Intent.outcome.is_null() | (Intent.outcome == "ok"))
    return list(
        Post.select()
        .where(Post.status.in_(["queued", "validated", "publishing"]), _due_at() < before, ~fn.EXISTS(sent))
        .order_by(Post.created_at)
        .dicts()
    )


def _due_at() -> Any:
    return fn.COALESCE(Post.next_attempt_at, Post.scheduled_at, Post.created_at)


def _interrupted() -> list[str]:
    return [row[0] for row in Idempotency.select(Idempotency.batch).where(Idempotency.status.is_null()).tuples()]


def answer(service: Service, claim: Claim) -> None:
    """Complete the kept answer of a batch whose request died with the process, once the batch is settled."""
    batch = claim.key.removeprefix("answer:")

    def finish(tx: Tx) -> None:
        if batches.is_settled(batch):
            key = Idempotency.select(Idempotency.id).where(Idempotency.batch == batch).scalar()
            batches.complete(service, tx, batch, key)
            service.jobs.finish(tx, claim)
        else:
            service.jobs.again(tx, claim, service.now_ms + ANSWER_EVERY_MS)

    service.write(finish).result()


# --- Sweeps ------------------------------------------------------------------------------------------------------


def sweep(service: Service, fetched: media.Fetched) -> None:
    """Ring again for open posts that have no job, and forget what is past its time."""
    for post, lane, due in service.read(_unrung).result():
        log.warning("post %s had no job; it rings again", post)
        _ring(service, "publish", post, due, lane)
    service.write(lambda tx: limits.purge(tx, service.now_ms)).result()
    for batch in fetched.kept():
        if service.read(functools.partial(batches.is_settled, batch)).result():
            fetched.drop(batch)


def _unrung() -> list[tuple[str, str, int]]:
    query = (
        Post.select(Post.id, Post.account, _due_at())
        .join(Job, JOIN.LEFT_OUTER, on=(Job.key == Post.id))
        .where(Post.status.in_(["queued", "validated", "publishing"]), Job.key.is_null())
        .limit(STEP)
    )
    return list(query.tuples())

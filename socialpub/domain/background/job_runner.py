"""The workers: due jobs are begun, as many of a kind as it has places; and what is published at once.

They are the workers of Huey's consumer. Posts are handed to threads of the service's crew, which come with the work
and go after it; every other kind of job, and what runs on a timer, is done by the workers themselves. There is one more
than can be taken by that, so that a due post never waits for a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from socialpub.domain.background.job_kinds import JOB_KINDS, JobContext, JobKind
from socialpub.domain.context import upstreams
from socialpub.domain.publishing import immediate_batch
from socialpub.store.jobs.job_queue import MEMORY_TASKS_MAX
from socialpub.store.jobs.leases import Claim

log = logging.getLogger("socialpub.jobs")

JOIN_SECONDS = 5.0  # at the end, for tasks that give up, and for a round that is under way


class JobRunner:
    """The threads that answer doorbells, from a start to a stop."""

    def __init__(self, bench: JobContext) -> None:
        self._bench, self._jobs = bench, bench.service.jobs
        self._consumer: Any = None

    def start(self) -> None:
        settings = self._bench.service.runtime.settings
        for kind in JOB_KINDS:
            self._jobs.register(kind.name, self._answering(kind), kind.places(settings), kind.due)
        taken = MEMORY_TASKS_MAX + sum(kind.places(settings) for kind in JOB_KINDS if kind.waits)
        self._consumer = self._jobs.create_consumer(workers=taken + 1)
        self._consumer.start()

    def stop(self, seconds: float) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way."""
        clock = self._bench.service.runtime.clock
        deadline = clock.monotonic() + seconds
        if self._consumer:
            self._consumer.shutdown_timeout = min(seconds, JOIN_SECONDS)
            self._consumer.stop(graceful=True)
        self._jobs.until_none_held(deadline - clock.monotonic())

    def publish_now(self, claims: Sequence[Claim], taken: immediate_batch.ClaimedPosts) -> None:
        """Publish the targets of an immediate batch: all at once, but one after the other on an account."""
        service = self._bench.service
        lanes: dict[str, list[Claim]] = {}
        for claim in claims:
            lanes.setdefault(claim.lane, []).append(claim)
        for lane in lanes.values():
            try:
                targets = immediate_batch.AccountSequence(service, self._bench.fetched, lane, taken)
                upstreams.choose_executor(service, lane[0].share).enter_for(lane[0].share, targets.start)
            except RuntimeError:  # the server stops: the leases run out and the jobs ring
                log.exception("an immediate batch could not be started; it follows within a minute")
                for claim in lane:
                    if claim.key in taken:
                        self._jobs.lanes.leave(claim.lane)
                    self._jobs.drop(claim)

    def _answering(self, kind: JobKind) -> Callable[[Claim], None]:
        """A kind's function for the consumer."""
        settings = self._bench.service.runtime.settings

        def answer(claim: Claim) -> None:
            rest = kind.rest(settings) if kind.is_late(self._bench.service, claim) else 0.0
            kind.answer(self._bench, claim, lambda sent: self._over(claim, rest if sent else 0.0))

        return answer

    def _over(self, claim: Claim, rest: float) -> None:
        """Nothing of a job is left to do: its lane may rest."""
        self._jobs.leave(claim, rest)
        self._jobs.drop(claim)

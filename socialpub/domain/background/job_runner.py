"""Job runner: Huey workers that start due jobs, and immediate batches.

Workers hand posts to threads of an elastic pool; other jobs and periodic tasks run in the workers themselves. There is
one worker more than those can occupy, so that a due post never waits for a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from socialpub.domain.background.job_kinds import JOB_KINDS, LATE_MS, JobContext, JobKind
from socialpub.domain.context import upstreams
from socialpub.domain.publishing import immediate_batch
from socialpub.store.jobs.job_queue import MEMORY_TASKS_MAX
from socialpub.store.jobs.leases import Claim

log = logging.getLogger("socialpub.jobs")

JOIN_SECONDS = 5.0  # at a stop, for tasks that give up and the current round


class JobRunner:
    """Threads that run jobs, from a start to a stop."""

    def __init__(self, context: JobContext) -> None:
        self._context, self._jobs = context, context.service.jobs
        self._consumer: Any = None

    def register(self) -> None:
        """Register what runs the jobs of each kind; none is claimed before `start`."""
        settings = self._context.service.runtime.settings
        for kind in JOB_KINDS:
            self._jobs.register(kind.name, self._build_handler(kind), kind.concurrency(settings), kind.due)

    def start(self) -> None:
        settings = self._context.service.runtime.settings
        occupied = MEMORY_TASKS_MAX + sum(kind.concurrency(settings) for kind in JOB_KINDS if kind.waits)
        self._consumer = self._jobs.create_consumer(workers=occupied + 1)
        self._consumer.start()

    def stop(self, seconds: float) -> None:
        """Stop claiming jobs and wait at most `seconds` for running ones."""
        clock = self._context.service.runtime.clock
        deadline = clock.monotonic() + seconds
        if self._consumer:
            self._consumer.shutdown_timeout = min(seconds, JOIN_SECONDS)
            self._consumer.stop(graceful=True)
        self._jobs.wait_until_idle(deadline - clock.monotonic())

    def publish_now(self, claims: Sequence[Claim], claimed: immediate_batch.ClaimedPosts) -> None:
        """Publish the posts of an immediate batch in parallel, those of one account in sequence."""
        service = self._context.service
        groups: dict[str, list[Claim]] = {}
        for claim in claims:
            groups.setdefault(claim.serial_group, []).append(claim)
        for group in groups.values():
            try:
                targets = immediate_batch.AccountSequence(service, self._context.fetched, group, claimed)
                upstreams.choose_executor(service, group[0].share).enter_for(group[0].share, targets.start)
            except RuntimeError:  # the server stops: the jobs become due when their leases expire
                log.exception("an immediate batch could not be started; it is retried within a minute")
                for claim in group:
                    if claim.key in claimed:
                        self._jobs.groups.leave(claim.serial_group)
                    self._jobs.drop(claim)

    def _build_handler(self, kind: JobKind) -> Callable[[Claim], None]:
        service = self._context.service

        def handle(claim: Claim) -> None:
            is_late = claim.due_at is not None and service.now_ms - claim.due_at > LATE_MS
            pause = kind.late_spacing(service.runtime.settings) if is_late else 0.0
            kind.run(self._context, claim, lambda sent: self._release(claim, pause if sent else 0.0))

        return handle

    def _release(self, claim: Claim, pause: float) -> None:
        """Release a finished job; its serial group pauses for so many seconds."""
        self._jobs.leave(claim, pause)
        self._jobs.drop(claim)

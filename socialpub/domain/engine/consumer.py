"""The workers: due jobs go to a thread each, as many of a kind as it has places; and what is published at once.

One thread of the queue's consumer claims whatever is due, and hands it on. Those that answer are of the service's crew:
they come with the work and go after it, so that a place costs nothing while nobody needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from socialpub.base.crew import Starts
from socialpub.base.fair import working_for
from socialpub.domain.core import upstreams
from socialpub.domain.core.service import BEGIN_AT_ONCE, BEGIN_SECONDS
from socialpub.domain.engine.kinds import KINDS, Bench, Kind
from socialpub.domain.publishing import immediate
from socialpub.domain.publishing.run import Went
from socialpub.store.queue import Claim, EmbeddedConsumer

log = logging.getLogger("socialpub.jobs")


class Workers:
    """The threads that answer doorbells, from a start to a stop."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._jobs = bench, bench.service.jobs
        self._consumer: EmbeddedConsumer | None = None
        self._starts = Starts(BEGIN_AT_ONCE, BEGIN_SECONDS)

    def start(self) -> None:
        settings = self._bench.service.runtime.settings
        for kind in KINDS:
            self._jobs.register(kind.name, self._handing(kind), kind.places(settings), kind.due)
        self._consumer = EmbeddedConsumer(self._jobs, workers=1, periodic=False)
        self._consumer.start()

    def stop(self, seconds: float) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way."""
        clock = self._bench.service.runtime.clock
        deadline = clock.monotonic() + seconds
        if self._consumer:
            self._consumer.shutdown_timeout = seconds
            self._consumer.stop(graceful=True)
        self._jobs.until_none_held(deadline - clock.monotonic())

    def publish_now(self, claims: Sequence[Claim], taken: immediate.Taken) -> None:
        """Run the targets of an immediate batch in the I/O pool: all at once, but one after the other on an account."""
        service = self._bench.service
        lanes: dict[str, list[Claim]] = {}
        for claim in claims:
            lanes.setdefault(claim.lane, []).append(claim)
        for lane in lanes.values():
            try:
                threads = upstreams.threads(service, lane[0].share)
                threads.submit_for(lane[0].share, immediate.run_lane, service, self._bench.fetched, lane, taken)
            except RuntimeError:  # no thread to be had: the leases run out and the jobs ring
                log.exception("an immediate batch could not be started; it follows within a minute")
                for claim in lane:
                    if claim.key in taken:
                        self._jobs.lanes.leave(claim.lane)
                    self._jobs.drop(claim)

    def _handing(self, kind: Kind) -> Callable[[Claim], None]:
        """A kind's function for the consumer: a thread of the crew answers."""
        crew = self._bench.service.crew

        def hand(claim: Claim) -> None:
            try:
                self._starts.run(crew, lambda: self._answer(kind, claim))
            except RuntimeError:  # no thread to be had
                log.exception("job %s could not be begun; it rings again", claim.key)
                self._again(kind, claim)
                self._jobs.leave(claim)
                self._jobs.drop(claim)

        return hand

    def _answer(self, kind: Kind, claim: Claim) -> None:
        """Its lane is left whatever happens, and a failure rings again."""
        service, went = self._bench.service, Went()
        rest = kind.rest(service.runtime.settings) if kind.is_late(service, claim) else 0.0
        working_for.set(claim.share)
        try:
            went = kind.run(self._bench, claim, lambda: self._over(claim, rest))
        except Exception:  # noqa: BLE001 - the job rings again
            log.exception("job %s failed", claim.key)
            self._again(kind, claim)
        finally:
            if went.is_over:
                self._over(claim, rest if went.sent else 0.0)

    def _over(self, claim: Claim, rest: float) -> None:
        """Nothing of a job is left to do: its lane may rest."""
        self._jobs.leave(claim, rest)
        self._jobs.drop(claim)

    def _again(self, kind: Kind, claim: Claim) -> None:
        at = self._bench.service.now_ms + kind.again_ms
        self._bench.service.write(lambda tx: self._jobs.again(tx, claim, at))

"""The workers: due jobs are begun, as many of a kind as it has places; and what is published at once.

One thread of the queue's consumer claims whatever is due, and has it begun. Those that answer are threads
of the service's crew: they come with the work and go after it, so that a place costs nothing while nobody needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from socialpub.domain.core import upstreams
from socialpub.domain.engine.kinds import KINDS, Bench, Kind
from socialpub.domain.publishing import immediate, sending
from socialpub.store.queue import Claim, EmbeddedConsumer

log = logging.getLogger("socialpub.jobs")


class Workers:
    """The threads that answer doorbells, from a start to a stop."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._jobs = bench, bench.service.jobs
        self._consumer: EmbeddedConsumer | None = None

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
        """Publish the targets of an immediate batch: all at once, but one after the other on an account."""
        service = self._bench.service
        lanes: dict[str, list[Claim]] = {}
        for claim in claims:
            lanes.setdefault(claim.lane, []).append(claim)
        for lane in lanes.values():
            try:
                targets = immediate.Targets(service, self._bench.fetched, lane, taken)
                upstreams.threads(service, lane[0].share).enter_for(lane[0].share, targets.begin)
            except RuntimeError:  # the server stops: the leases run out and the jobs ring
                log.exception("an immediate batch could not be started; it follows within a minute")
                for claim in lane:
                    if claim.key in taken:
                        self._jobs.lanes.leave(claim.lane)
                    self._jobs.drop(claim)

    def _handing(self, kind: Kind) -> Callable[[Claim], None]:
        """A kind's function for the consumer."""
        settings = self._bench.service.runtime.settings

        def hand(claim: Claim) -> None:
            rest = kind.rest(settings) if kind.is_late(self._bench.service, claim) else 0.0
            try:
                kind.begin(self._bench, claim, lambda sent: self._over(claim, rest if sent else 0.0))
            except RuntimeError:  # no thread to be had
                log.exception("job %s could not be begun; it rings again", claim.key)
                sending.ring_again(self._bench.service, claim)
                self._over(claim)

        return hand

    def _over(self, claim: Claim, rest: float = 0.0) -> None:
        """Nothing of a job is left to do: its lane may rest."""
        self._jobs.leave(claim, rest)
        self._jobs.drop(claim)

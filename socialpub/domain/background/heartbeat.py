"""Scheduler round: follow commands, renew leases, follow the clock and pauses, beat."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from socialpub.base.errors import is_storage_unavailable
from socialpub.domain.background.publishing_gate import PublishingGate
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance

log = logging.getLogger("socialpub.jobs")


class Heartbeat:
    """Work of each scheduler round. `fenced`: called if another server took over."""

    def __init__(self, service: AppContext, gate: PublishingGate, fenced: Callable[[], None]) -> None:
        self._service, self._gate, self._fenced = service, gate, fenced
        self.last = service.runtime.clock.monotonic()  # when a round was last completed
        self.newest_event = 0  # number of the newest event in the last round

    def run_round(self) -> None:
        """Run one round; a failed step is retried in the next one."""
        service = self._service
        steps = (
            self._follow_commands,
            service.jobs.renew,
            self._gate.apply_clock_steps,
            self._gate.update,
            self._beat_after_change,
        )
        done = [try_step(step) for step in steps]
        if all(done):
            self.last = service.runtime.clock.monotonic()
        if service.db.fenced.is_set():
            self._fenced()

    def _follow_commands(self) -> None:
        """Begin a transaction, whose guard acts on what a command has written (`engine.py`)."""
        self._service.write(lambda tx: None).result()

    def beat(self) -> None:
        """Record a heartbeat in the database, with the time unless the clock is in doubt."""
        instance.advance_generation(self._service, seen=not self._gate.is_clock_doubtful)

    def _beat_after_change(self) -> None:
        """Record a heartbeat after each change, so that an older copy starts paused."""
        newest = self._service.read(instance.get_newest_event_number).result()
        if newest != self.newest_event:
            self.beat()
            self.newest_event = newest


def try_step(step: Callable[[], Any]) -> bool:
    """Run a step and return whether it succeeded. No exception may end the scheduler thread."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - retried in the next round
        if not is_storage_unavailable(error):
            log.exception("a step of the scheduler failed; it is retried in the next round")
        return False
    return True

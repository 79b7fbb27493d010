"""The round of the scheduler's thread: leases are renewed, the file and the pauses looked at, changes beaten."""

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
    """Work of each scheduler round that no worker may delay. `fenced` is called once another server has taken over."""

    def __init__(self, service: AppContext, pauses: PublishingGate, fenced: Callable[[], None]) -> None:
        self._service, self._pauses, self._fenced = service, pauses, fenced
        self.last = service.runtime.clock.monotonic()  # when all of a round was last done
        self.news = 0  # the number of the newest event, in the last round

    def round(self) -> None:
        """One round; what fails is tried again in the next one."""
        service = self._service
        steps = (service.db.look, service.jobs.renew, self._pauses.follow_clock, self._pauses.follow, self._beat)
        done = [try_step(step) for step in steps]
        if all(done):
            self.last = service.runtime.clock.monotonic()
        if service.db.fenced.is_set():
            self._fenced()

    def heard(self) -> None:
        """One beat; a sign of life too, unless the clock is in doubt."""
        instance.advance_generation(self._service, seen=not self._pauses.doubtful)

    def _beat(self) -> None:
        """A beat after each change: a copy of the database that is older than it starts paused."""
        news = self._service.read(instance.get_newest_event_number).result()
        if news != self.news:
            self.heard()
            self.news = news


def try_step(step: Callable[[], Any]) -> bool:
    """Whether a step was done; a full disk must not end what goes on for ever."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - it is tried again in the next round
        if not is_storage_unavailable(error):
            log.exception("the scheduler could not do its round")
        return False
    return True

"""Everything that runs beside the requests, with or without a web server: its start and its stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from socialpub.base.errors import ApiError
from socialpub.domain.core import instance
from socialpub.domain.core.service import Service
from socialpub.domain.engine import recovery
from socialpub.domain.engine.consumer import Workers
from socialpub.domain.engine.keeper import Keeper
from socialpub.domain.engine.kinds import Bench
from socialpub.domain.engine.wholeness import Wholeness
from socialpub.domain.media import library
from socialpub.domain.notifications import outbox
from socialpub.domain.outbox.deliverer import Deliverer
from socialpub.domain.people import signin
from socialpub.domain.posts import unheard
from socialpub.domain.webhooks import deliver

HEARTBEAT_SECONDS = 60.0  # a scheduler that was silent for longer does not answer
STOP_SECONDS = 20.0
DELIVERING_SECONDS = 2.0  # what a stop cuts off goes out after the next start


class Engine:
    """Workers and keeper over an open service; stopped before the process ends."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.started_at = service.now_ms
        self.fetched = library.Fetched(service)
        self.throttle = signin.Throttle(service.runtime.clock)
        self.on_fenced: Callable[[], None] = lambda: None  # another server has taken over
        self.keeper = Keeper(service, self.fetched, lambda: self.on_fenced())
        self.wholeness = Wholeness(service)
        self._workers = Workers(Bench(service, self.fetched, self.keeper.stopping.is_set))
        self.publish_now = self._workers.publish_now
        self._deliverer = Deliverer(
            service, (deliver.Webhooks(), outbox.Notifications()), lambda: self.paused is not None
        )

    @property
    def heartbeat(self) -> float:
        """When the keeper has last done all of its round."""
        return self.keeper.heartbeat

    @property
    def paused(self) -> str | None:
        """Why nothing is published now."""
        return self.keeper.pauses.reason

    def start(self) -> None:
        """Own the database, recover what the run before left, and begin to answer doorbells."""
        service, jobs, keeper = self.service, self.service.jobs, self.keeper
        row = service.write(lambda tx: instance.take_over(service, tx)).result()
        jobs.epoch = row["epoch"]
        service.db.guard = lambda: instance.fence(service)
        recovery.went_back(service, recovery.behind(service, row["seen_at"]))
        keeper.pauses.begin(row["paused"], row["seen_at"])
        keeper.heard()
        keeper.pauses.ask()
        recovery.recover(service)
        self.fetched.adopt()
        keeper.pauses.file_is_doubted = lambda: self.wholeness.holds
        self.wholeness.on_known = keeper.pauses.look_again
        jobs.paused = keeper.pauses.held_kinds
        self._workers.start()
        self._deliverer.start()
        keeper.start()
        self.wholeness.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way; the rest is taken up by the next start."""
        self.keeper.stopping.set()
        self._workers.stop(seconds)
        self._deliverer.stop(DELIVERING_SECONDS)
        self.wholeness.stop()
        self.service.stopping.set()
        self.service.hub.close()  # what is not settled now will not be in this process: who waits is told so
        self.keeper.stop()
        if forgotten := unheard.forget(self.service):
            with contextlib.suppress(ApiError):  # nothing can be written: it has a time of its own, and ends by itself
                forgotten.result()
        self.fetched.close()

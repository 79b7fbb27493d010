"""Everything that runs beside the requests, with or without a web server: its start and its stop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from socialpub.base.errors import ApiError
from socialpub.domain.access import lost_responses
from socialpub.domain.accounts import tokens
from socialpub.domain.background import recovery
from socialpub.domain.background.heartbeat import Heartbeat, try_step
from socialpub.domain.background.integrity_check import BackgroundIntegrityCheck
from socialpub.domain.background.job_kinds import JobContext
from socialpub.domain.background.job_runner import JobRunner
from socialpub.domain.background.periodic_tasks import PeriodicTasks
from socialpub.domain.background.publishing_gate import PublishingGate
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.notifications import notification_outbox
from socialpub.domain.delivery.outbox_worker import OutboxWorker
from socialpub.domain.delivery.webhooks import webhook_outbox
from socialpub.domain.identity import signin
from socialpub.domain.media import library
from socialpub.domain.server import instance

HEARTBEAT_SECONDS = 60.0  # a scheduler that was silent for longer does not answer
STOP_SECONDS = 20.0
DELIVERY_STOP_SECONDS = 2.0  # what a stop cuts off goes out after the next start


class BackgroundEngine:
    """Workers, timers and deliveries over an open service; stopped before the process ends."""

    def __init__(self, service: AppContext) -> None:
        self.service = service
        self.started_at = service.now_ms
        self.fetched = library.BatchMediaCache(service)
        self.throttle = signin.LoginThrottle(service.runtime.clock)
        self.on_fenced: Callable[[], None] = lambda: None  # another server has taken over
        self.pauses = PublishingGate(service)
        self._beats = Heartbeat(service, self.pauses, lambda: self.on_fenced())
        self._stopping = threading.Event()
        self.periodic = PeriodicTasks(service, self.fetched, self.pauses, self._beats, self._stopping)
        self.wholeness = BackgroundIntegrityCheck(service)
        self._workers = JobRunner(JobContext(service, self.fetched, self._stopping.is_set))
        self.publish_now = self._workers.publish_now
        self._deliverer = OutboxWorker(
            service,
            (webhook_outbox.WebhookOutbox(), notification_outbox.NotificationOutbox()),
            lambda: self.paused is not None,
        )

    @property
    def heartbeat(self) -> float:
        """When all of a round of the scheduler's thread was last done."""
        return self._beats.last

    @property
    def paused(self) -> str | None:
        """Why nothing is published now."""
        return self.pauses.reason

    def start(self) -> None:
        """Own the database, recover what the run before left, and begin to answer doorbells."""
        service, jobs, pauses = self.service, self.service.jobs, self.pauses
        row = service.write(lambda tx: instance.take_over(service, tx)).result()
        jobs.epoch = row["epoch"]
        service.db.guard = lambda: instance.check_fence(service)
        recovery.shorten_delays(service, recovery.measure_clock_lag(service, row["seen_at"]))
        pauses.begin(row["paused"], row["seen_at"])
        self._beats.heard()
        pauses.ask()
        recovery.recover(service)
        self.fetched.adopt()
        pauses.file_is_doubted = lambda: self.wholeness.holds
        self.wholeness.on_known = pauses.look_again
        jobs.paused, jobs.round = pauses.held_kinds, self._beats.round
        self.periodic.register()
        pauses.start()
        self._workers.start()
        self._deliverer.start()
        self.wholeness.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way; the rest is taken up by the next start."""
        self._stopping.set()
        self._workers.stop(seconds)
        self._deliverer.stop(DELIVERY_STOP_SECONDS)
        self.wholeness.stop()
        self.service.process.stopping.set()
        self.service.hub.close()  # what is not settled now will not be in this process: who waits is told so
        try_step(lambda: tokens.save_unsaved(self.service))
        if not self.service.db.fenced.is_set():
            try_step(self._beats.heard)  # the last one: the threads that beat have ended
        if forgotten := lost_responses.delete_delivered(self.service):
            with contextlib.suppress(ApiError):  # nothing can be written: it has a time of its own, and ends by itself
                forgotten.result()
        self.fetched.close()

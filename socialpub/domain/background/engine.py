"""Start and stop of all background work, with or without a web server."""

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

HEARTBEAT_SECONDS = 60.0  # a scheduler that has been silent for longer counts as unresponsive
STOP_SECONDS = 20.0
DELIVERY_STOP_SECONDS = 2.0  # interrupted deliveries are repeated after the next start


class BackgroundEngine:
    """Workers, timers and deliveries over an open context; stop it before the process ends."""

    def __init__(self, service: AppContext) -> None:
        self.service = service
        self.started_at = service.now_ms
        self.fetched = library.BatchMediaCache(service)
        self.throttle = signin.LoginThrottle(service.runtime.clock)
        self.on_fenced: Callable[[], None] = lambda: None  # another server has taken over
        self.gate = PublishingGate(service)
        self._foreign_version = 0  # in the last transaction
        self._heartbeat = Heartbeat(service, self.gate, lambda: self.on_fenced())
        self._stopping = threading.Event()
        self.periodic = PeriodicTasks(service, self.fetched, self.gate, self._heartbeat, self._stopping)
        self.integrity_check = BackgroundIntegrityCheck(service)
        self._workers = JobRunner(JobContext(service, self.fetched, self._stopping.is_set))
        self.publish_now = self._workers.publish_now
        self._deliverer = OutboxWorker(
            service,
            (webhook_outbox.WebhookOutbox(), notification_outbox.NotificationOutbox()),
            lambda: self.paused is not None,
        )

    @property
    def heartbeat(self) -> float:
        """Monotonic time in seconds at which the scheduler thread last completed a round."""
        return self._heartbeat.last

    @property
    def paused(self) -> str | None:
        """Reason why publishing is paused, or None."""
        return self.gate.reason

    def start(self) -> None:
        """Take over the database and recover from the previous run. `start_jobs` follows."""
        service, jobs, gate = self.service, self.service.jobs, self.gate
        row = service.write(lambda tx: instance.take_over(service, tx)).result()
        jobs.epoch = row["epoch"]
        service.db.guard_writes(self._guard_write)
        recovery.shorten_delays(service, recovery.measure_clock_lag(service, row["seen_at"]))
        recovery.skip_downtime(service, row["seen_at"])
        gate.load(row["paused"], row["seen_at"])
        self._heartbeat.beat()
        gate.check_clock_at_start()
        recovery.recover(service)
        self.fetched.adopt()
        gate.is_file_doubtful = lambda: self.integrity_check.holds
        self.integrity_check.on_result = gate.update_now
        jobs.paused, jobs.on_round = gate.list_held_kinds, self._heartbeat.run_round
        self.periodic.register()
        self._workers.register()
        gate.start()
        self._deliverer.start()
        self.integrity_check.start()

    def start_jobs(self) -> None:
        """Start due jobs, once the port is open: platforms fetch media from it."""
        self._workers.start()

    def _guard_write(self) -> None:
        """Check at the start of each transaction that this process may write.

        If a command has written since the last one: no callback of its transaction runs in this process, so what is
        known of posts is read again, and deliveries and waiting requests look for what they wait for.
        """
        version = instance.check_fence(self.service)
        if version != self._foreign_version:
            self._foreign_version = version
            self.service.recent_posts.forget_all()
            self._deliverer.wake_all()
            self.service.waiting.notify_all()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop claiming jobs and wait at most `seconds` for running ones; a start resumes the rest."""
        self._stopping.set()
        self._workers.stop(seconds)
        self._deliverer.stop(DELIVERY_STOP_SECONDS)
        self.integrity_check.stop()
        self.service.process.stopping.set()
        self.service.waiting.close()  # no post will finish in this process any more
        try_step(lambda: tokens.save_unsaved(self.service))
        if not self.service.db.fenced.is_set():
            try_step(self._heartbeat.beat)  # last: the threads that beat have ended
        if deletion := lost_responses.delete_delivered(self.service):
            with contextlib.suppress(ApiError):  # if the disk is full: the rows expire anyway
                deletion.result()
        self.fetched.close()

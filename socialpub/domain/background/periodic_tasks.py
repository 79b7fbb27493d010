"""Periodic tasks, run by Huey. A failed task is logged, counted and retried."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from socialpub.base import http as outbound
from socialpub.base.observability import metrics
from socialpub.base.system import malloc
from socialpub.domain.access import audit_log, idempotency, lost_responses
from socialpub.domain.accounts import api_versions, connect, token_refresh, tokens, version_checks
from socialpub.domain.background import recovery
from socialpub.domain.background.heartbeat import Heartbeat
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.background.publishing_gate import PublishingGate
from socialpub.domain.background.retention import HistoryRetention
from socialpub.domain.backups.scheduled_backups import BACKUP_RETRY_SECONDS, ScheduledBackups
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import key_expiry, oauth_grants
from socialpub.domain.media import library
from socialpub.domain.posts import batches, plan_tokens
from socialpub.domain.server import instance
from socialpub.store import search
from socialpub.store.jobs.job_queue import IntervalSchedule, retry_without_storage

log = logging.getLogger("socialpub.jobs")

RETRIES, RETRY_SECONDS = 3, 10.0
SWEEP_SECONDS = 60.0
RETENTION_SECONDS = 3600.0  # after a complete pass
FIRST_SECONDS = 5.0  # after a start
INDEX_BATCHES = 100  # of posts per run
BUSY_POSTS = 1000  # new posts since the previous run from which indexing waits
INDEX_BACKLOG_MAX = 5000  # unindexed posts, which a search reads as rows


class PeriodicTasks:
    """Periodic tasks of one server. `stopping`: set when long tasks are to give up."""

    def __init__(
        self,
        service: AppContext,
        fetched: library.BatchMediaCache,
        gate: PublishingGate,
        heartbeat: Heartbeat,
        stopping: threading.Event,
    ) -> None:
        self._service, self._fetched, self._gate, self._stopping = service, fetched, gate, stopping
        self._heartbeat = heartbeat
        self.token_refresher = token_refresh.TokenRefresher(service)
        self.retention = HistoryRetention(service)
        self.backups = ScheduledBackups(service, stopping.is_set)
        self._newest: int | None = None  # number of the newest post in the previous run
        self._indexed: int | None = None  # newest event when all posts were indexed

    def register(self) -> None:
        """Register the tasks with Huey."""
        service, add, every, unless_paused = self._service, self._add, IntervalSchedule, self._unless_paused
        service.jobs.post_execute(name="count failures")(_count_failure)
        add("index_posts", lambda now: self._indexed != self._heartbeat.newest_event, self.index_posts)
        add("save_tokens", lambda now: tokens.has_unsaved(service), lambda: tokens.save_unsaved(service))
        retry_responses = functools.partial(recovery.retry_unstored_responses, service)
        add("store_responses", lambda now: bool(service.lost.unstored), retry_responses)
        add("sweep", every(SWEEP_SECONDS, SWEEP_SECONDS), self._sweep)
        add("fail_overdue_in_outage", every(SWEEP_SECONDS, SWEEP_SECONDS), self._fail_overdue)
        hourly, on = every(RETENTION_SECONDS, SWEEP_SECONDS), every(SWEEP_SECONDS, SWEEP_SECONDS)
        add("delete_expired", lambda now: hourly(now) or (on(now) and not self.retention.is_done), self.delete_expired)
        add("free_resources", every(SWEEP_SECONDS, FIRST_SECONDS), self._free_resources)
        add("refresh_tokens", unless_paused(every(SWEEP_SECONDS, FIRST_SECONDS)), self.token_refresher.run)
        version_notices = every(api_versions.CHECK_SECONDS, FIRST_SECONDS)
        add("notify_versions", self._by_right_clock(version_notices), lambda: api_versions.notify_due(service))
        key_notices = every(key_expiry.CHECK_SECONDS, FIRST_SECONDS)
        add("notify_keys", self._by_right_clock(key_notices), lambda: key_expiry.notify_due(service))
        if service.runtime.settings.publishing.version_checks:
            checks = every(version_checks.CHECK_SECONDS, version_checks.FIRST_CHECK_SECONDS)
            check_versions = functools.partial(version_checks.check_due, service, self._stopping.is_set)
            add("check_versions", unless_paused(checks), check_versions)
        add("back_up", every(SWEEP_SECONDS, FIRST_SECONDS), self.backups.run_due, BACKUP_RETRY_SECONDS)
        add("beat", every(instance.GENERATION_SECONDS, instance.GENERATION_SECONDS), self._heartbeat.beat)

    def _add(
        self,
        name: str,
        is_due: Callable[[datetime], bool],
        run: Callable[[], Any],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        task = self._service.jobs.periodic_task(is_due, name=name, retries=RETRIES, retry_delay=retry_seconds)
        task(retry_without_storage(run))

    def index_posts(self) -> None:
        """Add new posts to the search index, at most INDEX_BATCHES batches.

        While many posts arrive, indexing waits until INDEX_BACKLOG_MAX: new posts get the disk first.
        """
        newest_event = self._heartbeat.newest_event
        progress = self._service.read(search.get_progress).result()
        added, self._newest = progress.newest - (self._newest or progress.newest), progress.newest
        if added >= BUSY_POSTS and progress.behind < INDEX_BACKLOG_MAX:
            return
        for _ in range(INDEX_BATCHES):
            if progress.is_whole:
                self._indexed = newest_event
            if progress.is_whole or self._stopping.is_set():
                return
            self._service.write(lambda tx: search.index_batch()).result()
            progress = self._service.read(search.get_progress).result()

    def delete_expired(self) -> None:
        """Delete expired history, unless publishing is paused or the clock is in doubt."""
        now_ms = self._service.now_ms  # read first: the clock may be set after the check
        if not self._gate.reason and not self._gate.is_clock_doubtful:
            self.retention.run(now_ms)

    def _sweep(self) -> None:
        sweep(self._service, self._fetched, lambda: self._gate.is_clock_doubtful)

    def _fail_overdue(self) -> None:
        """Fail overdue posts of an upstream that does not respond, without waiting until it does."""
        if self._service.upstream.breakers.open() and not self._gate.held_back:
            recovery.fail_overdue(self._service)

    def _free_resources(self) -> None:
        outbound.close_idle()
        malloc.trim()
        connect.purge(self._service)

    def _unless_paused(self, interval: IntervalSchedule) -> Callable[[datetime], bool]:
        """Postpone a task during a pause: a copy must not use up the original's tokens."""
        return lambda now: not self._gate.reason and interval(now)

    def _by_right_clock(self, interval: IntervalSchedule) -> Callable[[datetime], bool]:
        """Postpone a notice while the clock is in doubt: each is sent once."""
        is_due = self._unless_paused(interval)
        return lambda now: not self._gate.is_clock_doubtful and is_due(now)


def _count_failure(task: Any, value: object, error: Exception | None) -> None:
    if error is not None:
        metrics.TASK_FAILURES.labels(task.name).inc()


def sweep(
    service: AppContext, fetched: library.BatchMediaCache, is_clock_doubtful: Callable[[], bool] = lambda: False
) -> None:
    """Enqueue lost jobs, and delete expired records and media; no records by a doubtful clock."""
    for kind in JOB_KINDS:
        if kind.sweep:
            kind.sweep(service)
    now_ms = service.now_ms  # read first: the clock may be set after the check
    if not is_clock_doubtful():
        _delete_expired_records(service, now_ms)
    fetched.adopt()
    for batch in fetched.list_batches():
        if service.read(functools.partial(batches.is_finished, batch)).result():
            fetched.drop(batch)
    # A restored database may be the wrong one: keep its media until `socialpub resume`.
    if service.read(instance.get_pause_reason).result() is None:
        fetched.clean_up_hourly()


def _delete_expired_records(service: AppContext, now_ms: int) -> None:
    while service.write(lambda tx: idempotency.purge(tx, now_ms)).result() == idempotency.PURGE_BATCH:
        log.info("deleted %d expired stored responses; more follow", idempotency.PURGE_BATCH)
    while service.write(lambda tx: plan_tokens.purge(service, tx)).result() == plan_tokens.PURGE_BATCH:
        log.info("deleted %d expired plans; more follow", plan_tokens.PURGE_BATCH)
    while service.write(lambda tx: audit_log.purge(service, tx)).result() == audit_log.PURGE_BATCH:
        log.info("deleted %d expired audit log entries; more follow", audit_log.PURGE_BATCH)
    service.write(lambda tx: oauth_grants.purge(service, tx)).result()
    service.write(lambda tx: lost_responses.delete_expired(service, tx)).result()

"""What runs on a timer, as periodic tasks of Huey: a task that fails is logged, counted, and tried again."""

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
from socialpub.domain.media import library
from socialpub.domain.posts import batches
from socialpub.domain.server import instance
from socialpub.store import search
from socialpub.store.jobs.job_queue import IntervalSchedule, retry_without_storage

log = logging.getLogger("socialpub.jobs")

RETRIES, RETRY_SECONDS = 3, 10.0
SWEEP_SECONDS = 60.0
RETENTION_SECONDS = 3600.0  # once all was looked at
FIRST_SECONDS = 5.0  # after a start
INDEX_BATCHES = 100  # of posts that are filed in one run
ANALYZE_POSTS = 1000  # posts since the run before
INDEX_BACKLOG_MAX = 5000  # posts that are not filed, which a search reads as rows


class PeriodicTasks:
    """The tasks of one server. `stopping`: long ones give up."""

    def __init__(
        self,
        service: AppContext,
        fetched: library.BatchMediaCache,
        pauses: PublishingGate,
        heartbeat: Heartbeat,
        stopping: threading.Event,
    ) -> None:
        self._service, self._fetched, self._pauses, self._stopping = service, fetched, pauses, stopping
        self._heartbeat = heartbeat
        self.upkeep = token_refresh.TokenRefresher(service)
        self.retention = HistoryRetention(service)
        self.backups = ScheduledBackups(service, stopping.is_set)
        self._newest: int | None = None  # the number of the newest post, in the run before
        self._filed: int | None = None  # the newest event when all posts were filed last

    def register(self) -> None:
        """Hand all of it to Huey."""
        service, jobs = self._service, self._service.jobs
        jobs.post_execute(name="count failures")(_count_failure)
        add = functools.partial(_add_task, service)
        add("file_posts", lambda now: self._filed != self._heartbeat.news, self.file_posts)
        add("save_tokens", lambda now: tokens.has_unsaved(service), lambda: tokens.save_unsaved(service))
        add("keep_answers", lambda now: bool(service.lost.unkept), lambda: recovery.retry_unstored_responses(service))
        add("sweep", IntervalSchedule(SWEEP_SECONDS, SWEEP_SECONDS), lambda: sweep(service, self._fetched))
        add("end_overdue", IntervalSchedule(SWEEP_SECONDS, SWEEP_SECONDS), self._end_overdue)
        hourly, on = IntervalSchedule(RETENTION_SECONDS, SWEEP_SECONDS), IntervalSchedule(SWEEP_SECONDS, SWEEP_SECONDS)
        add("forget", lambda now: hourly(now) or (on(now) and not self.retention.is_done), self.forget)
        add("tidy", IntervalSchedule(SWEEP_SECONDS, FIRST_SECONDS), self._tidy)
        add("renew_tokens", self._unless_paused(IntervalSchedule(SWEEP_SECONDS, FIRST_SECONDS)), self.upkeep.look)
        told = IntervalSchedule(api_versions.CHECK_SECONDS, FIRST_SECONDS)
        add("tell_versions", self._unless_paused(told), lambda: api_versions.notify_due(service))
        if service.runtime.settings.publishing.version_checks:
            asked = IntervalSchedule(version_checks.CHECK_SECONDS, version_checks.FIRST_CHECK_SECONDS)
            add(
                "ask_versions",
                self._unless_paused(asked),
                lambda: version_checks.check_due(service, self._stopping.is_set),
            )
        add(
            "back_up",
            IntervalSchedule(SWEEP_SECONDS, FIRST_SECONDS),
            self.backups.look,
            retry_seconds=BACKUP_RETRY_SECONDS,
        )
        add("beat", IntervalSchedule(instance.GENERATION_SECONDS, instance.GENERATION_SECONDS), self._heartbeat.heard)

    def file_posts(self) -> None:
        """Put what was accepted into the indexes of the search; as much as a run allows.

        While many posts come it waits for a later run, as long as a search has few unindexed rows to read: new posts
        have the disk first.
        """
        news = self._heartbeat.news
        filed = self._service.read(search.get_progress).result()
        came, self._newest = filed.newest - (self._newest or filed.newest), filed.newest
        if came >= ANALYZE_POSTS and filed.behind < INDEX_BACKLOG_MAX:
            return
        for _ in range(INDEX_BATCHES):
            if filed.is_whole:
                self._filed = news
            if filed.is_whole or self._stopping.is_set():
                return
            self._service.write(lambda tx: search.index_batch()).result()
            filed = self._service.read(search.get_progress).result()

    def forget(self) -> None:
        """History past its time, as long as the clock that tells it is trusted."""
        if not self._pauses.reason and not self._pauses.doubtful:
            self.retention.look(self._service.now_ms)

    def _end_overdue(self) -> None:
        """Fail posts that a silent upstream holds back once they are overdue, not only once it responds again."""
        if self._service.upstream.breakers.open() and not self._pauses.held_back:
            recovery.fail_overdue(self._service)

    def _tidy(self) -> None:
        outbound.close_idle()
        malloc.trim()
        connect.purge(self._service)

    def _unless_paused(self, interval: IntervalSchedule) -> Callable[[datetime], bool]:
        """What is due while publishing is paused is done after it: a copy must not use up the original's tokens."""
        return lambda now: not self._pauses.reason and interval(now)


def _add_task(
    service: AppContext,
    name: str,
    is_due: Callable[[datetime], bool],
    run: Callable[[], Any],
    retry_seconds: float = RETRY_SECONDS,
) -> None:
    service.jobs.periodic_task(is_due, name=name, retries=RETRIES, retry_delay=retry_seconds)(
        retry_without_storage(run)
    )


def _count_failure(task: Any, value: object, error: Exception | None) -> None:
    if error is not None:
        metrics.TASK_FAILURES.labels(task.name).inc()


def sweep(service: AppContext, fetched: library.BatchMediaCache) -> None:
    """Ring again for what has lost its job, and forget what is past its time."""
    for kind in JOB_KINDS:
        if kind.sweep:
            kind.sweep(service)
    while service.write(lambda tx: idempotency.purge(tx, service.now_ms)).result() == idempotency.PURGE_BATCH:
        log.info("answers past their time are being forgotten")
    while service.write(lambda tx: audit_log.purge(service, tx)).result() == audit_log.PURGE_BATCH:
        log.info("acts past their time are being forgotten")
    service.write(lambda tx: lost_responses.delete_expired(service, tx)).result()
    fetched.adopt()
    for batch in fetched.list_batches():
        if service.read(functools.partial(batches.is_finished, batch)).result():
            fetched.drop(batch)
    # A database that was put back may be the wrong one: its media are kept until `socialpub resume`.
    if service.read(instance.get_pause_reason).result() is None:
        fetched.clean_up_hourly()

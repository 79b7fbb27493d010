"""The job queue: Huey's queue, scheduler and consumer on the application's database.

Stock Huey deletes a job before it runs and loses it in a crash, so a durable job is a leased row, which is also its
schedule (`leases.py`). Periodic tasks wait in memory: a start restarts their timers.

Workers do not poll: one of them sleeps until the next due time, is woken by commits of jobs that are due sooner, and
claims all due jobs with a free slot in one transaction.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from huey.api import Huey, PeriodicTask, Task, TaskWrapper
from huey.consumer import Consumer, Scheduler
from huey.exceptions import RetryTask as RetryTask
from huey.storage import BaseStorage

from socialpub.base.concurrency.fair_executor import FairShareLimiter
from socialpub.base.errors import ApiError, is_storage_unavailable
from socialpub.base.runtime import Clock
from socialpub.store.database import Database
from socialpub.store.jobs.leases import DEFAULT_SLOTS, Claim, DueTimesReader, JobLeases

RETRY_SECONDS = 30.0  # delay of the next try after a job failed
CLAIMS_MAX = 250  # in one transaction
SCHEDULER_SECONDS = 5.0  # interval of the scheduler; well below LEASE_MS
MEMORY_TASKS_MAX = 4  # concurrent tasks in memory: a backup, the version checks, and two short ones
STORAGE_WAIT_SECONDS = 1.0

_HUEY_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Huey's times have no zone


class JobQueue(JobLeases, Huey):  # type: ignore[misc]
    """The job queue.

    The scheduler's thread calls `on_round` before it checks the timers; it must not raise.
    """

    def __init__(self, database: Database, clock: Clock, shares: FairShareLimiter | None = None) -> None:
        JobLeases.__init__(self, database, clock, shares)
        self.on_round: Callable[[], None] = lambda: None
        self._handlers: dict[str, TaskWrapper] = {}
        Huey.__init__(self, "socialpub", results=False, storage_class=_JobStorage, jobs=self)

    def register(
        self, kind: str, run: Callable[[Claim], None], slots: int = DEFAULT_SLOTS, times: DueTimesReader | None = None
    ) -> None:
        """Run `run` for the jobs of a kind, with at most `slots` at once."""
        self.reserve(kind, slots, times)
        self._handlers[kind] = self.task(name=kind, retries=1, retry_delay=RETRY_SECONDS)(retry_without_storage(run))

    def create_consumer(self, **options: Any) -> Any:
        return _JobConsumer(self, **options)

    def serialize_task(self, task: Task) -> Task:
        """Return the task itself: it waits in memory."""
        task.id = task.name  # in the log
        return task

    def deserialize_task(self, data: Task | Claim) -> Task:
        if isinstance(data, Task):
            return data
        return self._handlers[data.kind].task_class(args=(data,), id=data.key)

    def execute(self, task: Task, timestamp: datetime | None = None) -> Any:
        try:
            return super().execute(task, timestamp)
        finally:
            self.storage.mark_ended(task)

    def add_schedule(self, task: Task) -> None:
        """Schedule the next try of a task: of a leased job in its row."""
        if not task.args:
            super().add_schedule(task)
            return
        (claim,), at_ms = task.args, self.clock.now_ms() + int(task.retry_delay * 1000)
        self.database.write(lambda tx: self.reschedule(tx, claim, at_ms))

    def is_revoked(self, task: Task, timestamp: datetime | None = None, peek: bool = True) -> bool:
        return False  # a removed job is not in the table

    def delete(self, key: str) -> bool:
        return False  # no revocation marks are kept

    def stop_waiting(self) -> None:
        self.storage.is_stopping = True
        self.wakeup.wake()

    def _get_timestamp(self) -> datetime:
        """Return the time of this program's clock, which tests control.

        It is monotonic, so that a changed system time does not affect waits. Huey 3.5 has no public way to set the
        clock.
        """
        return _HUEY_EPOCH + timedelta(seconds=self.clock.monotonic())


def retry_without_storage(run: Callable[..., Any]) -> Callable[..., None]:
    """Return `run` as a task that is retried while the database is unavailable.

    The store has logged the cause.
    """

    @functools.wraps(run)
    def task(*arguments: Any) -> None:
        try:
            run(*arguments)
        except ApiError as error:
            if is_storage_unavailable(error):
                raise RetryTask from error
            raise

    return task


class IntervalSchedule:
    """A schedule: `first` seconds after the first call, then every `seconds`."""

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self._step, self._first = timedelta(seconds=seconds), timedelta(seconds=first)
        self._due: datetime | None = None

    def __call__(self, now: datetime) -> bool:
        if self._due is None:
            self._due = now + self._first
        if now < self._due:
            return False
        self._due = now + self._step
        return True


class _JobStorage(BaseStorage):  # type: ignore[misc]
    """Takes leased jobs from their table, and other tasks from memory.

    One worker at a time waits, and claims jobs for all.
    """

    blocking = True

    def __init__(self, name: str, jobs: JobQueue) -> None:
        super().__init__(name)
        self.jobs, self.is_stopping = jobs, False
        self._leader, self._lock = threading.Lock(), threading.Lock()
        self._ready: deque[Claim] = deque()
        self._tasks: list[Task] = []
        self._later: list[tuple[datetime, Task]] = []  # with the time at which it is tried again
        self._running: list[Task] = []

    def enqueue(self, data: Task, priority: float | None = None) -> None:
        """Queue a task in memory; skip a periodic one that is queued, running or to be retried."""
        with self._lock:
            busy_names = {task.name for task in [*self._tasks, *self._running, *(task for _, task in self._later)]}
            if isinstance(data, PeriodicTask) and data.name in busy_names:
                return
            self._tasks.append(data)
        self.jobs.wakeup.wake()

    def add_to_schedule(self, data: Task, ts: datetime) -> None:
        with self._lock:
            self._later.append((ts, data))

    def read_schedule(self, ts: datetime) -> list[Task]:
        with self._lock:
            due = [task for at, task in self._later if at <= ts]
            self._later = [each for each in self._later if each[0] > ts]
        return due

    def mark_ended(self, task: Task) -> None:
        """Free the slot of a finished task."""
        with self._lock:
            self._running = [each for each in self._running if each is not task]
            is_waiting = bool(self._tasks)
        if is_waiting:
            self.jobs.wakeup.wake()

    def dequeue(self) -> Task | Claim | None:
        """Return the next claimed job or task in memory; None if the consumer stops."""
        with self._leader:
            while not self.is_stopping:
                if self._ready:
                    return self._ready.popleft()
                if (task := self._next_task()) is not None:
                    return task
                self._refill()
            while self._ready:  # claimed but not started: the next start frees their leases
                claim = self._ready.pop()
                self.jobs.leave(claim)
                self.jobs.drop(claim)
            return None

    def _next_task(self) -> Task | None:
        with self._lock:
            if not self._tasks or len(self._running) >= MEMORY_TASKS_MAX:
                return None
            task = self._tasks.pop(0)
            self._running.append(task)
            return task

    def _refill(self) -> None:
        try:
            self._claim_due()
        except ApiError:  # already logged; if it were raised, the worker would log it again and again
            self.jobs.wakeup.wait(STORAGE_WAIT_SECONDS)

    def _claim_due(self) -> None:
        wanted, wait = self.jobs.due(CLAIMS_MAX)
        if not wanted:
            self.jobs.wait(wait)
            return
        self._ready.extend(self.jobs.claim(wanted))
        if not self._ready:
            self.jobs.wakeup.wait(0.05)  # another process was faster, or the database cannot be written


class _JobScheduler(Scheduler):  # type: ignore[misc]
    """Huey's scheduler on this program's clock.

    Stock Huey checks periodic tasks once a minute of real time.
    """

    def loop(self, now: datetime | None = None) -> None:
        self.huey.on_round()
        for task in self.huey.read_schedule(now):
            self.huey.enqueue(task)
        if self.periodic:
            self.enqueue_periodic_tasks(now)
        self.stop_flag.wait(SCHEDULER_SECONDS)


class _JobConsumer(Consumer):  # type: ignore[misc]
    """Huey's consumer as threads of this process."""

    scheduler_class = _JobScheduler

    def start(self) -> None:
        """Start the threads without signal handlers: the web server handles signals."""
        self.scheduler.start()
        for _, thread in self.worker_threads:
            thread.start()

    def stop(self, graceful: bool = False) -> None:
        self.stop_flag.set()
        self.huey.stop_waiting()
        super().stop(graceful)

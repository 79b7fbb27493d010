"""Huey on the application's own database: queue, scheduler and consumer.

Stock Huey deletes a job before it runs and loses it in a crash, so a job that must not be lost is a lease, and its row
is its schedule (`leases.py`). What runs on a timer waits in memory: a start begins all timers again.

Due jobs are waited for, not polled: one worker sleeps until the next due time, is woken by commits of what is due
sooner, and claims all that is due and has a place in one transaction.
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

RETRY_SECONDS = 30.0  # a job whose function failed rings again
CLAIMS_MAX = 250  # in one transaction
SCHEDULER_SECONDS = 5.0  # of the scheduler; well below a lease
MEMORY_TASKS_MAX = 4  # of those in memory: a backup, the questions about versions, and two that are short
STORAGE_WAIT_SECONDS = 1.0

_HUEY_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Huey's times have no zone
_ClaimedJob = tuple[str, Claim]  # its kind, and what was claimed


class JobQueue(JobLeases, Huey):  # type: ignore[misc]
    """The queue. `round` is called by the scheduler's thread before it looks at what is on a timer; never raises."""

    def __init__(self, database: Database, clock: Clock, shares: FairShareLimiter | None = None) -> None:
        JobLeases.__init__(self, database, clock, shares)
        self.round: Callable[[], None] = lambda: None
        self._answers: dict[str, TaskWrapper] = {}
        Huey.__init__(self, "socialpub", results=False, storage_class=_JobStorage, jobs=self)

    def register(
        self, kind: str, run: Callable[[Claim], None], places: int = DEFAULT_SLOTS, times: DueTimesReader | None = None
    ) -> None:
        """Name the function that answers the doorbell of `kind`, and how many of it may be at work at once."""
        self.reserve(kind, places, times)
        self._answers[kind] = self.task(name=kind, retries=1, retry_delay=RETRY_SECONDS)(retry_without_storage(run))

    def create_consumer(self, **options: Any) -> Any:
        return _JobConsumer(self, **options)

    def serialize_task(self, task: Task) -> Task:
        """The task itself: it waits in memory."""
        task.id = task.name  # in the log
        return task

    def deserialize_task(self, data: Task | _ClaimedJob) -> Task:
        if isinstance(data, Task):
            return data
        kind, claim = data
        return self._answers[kind].task_class(args=(claim,), id=claim.key)

    def execute(self, task: Task, timestamp: datetime | None = None) -> Any:
        try:
            return super().execute(task, timestamp)
        finally:
            self.storage.ended(task)

    def add_schedule(self, task: Task) -> None:
        """Try a task again after its delay: a leased job by its row."""
        if not task.args:
            super().add_schedule(task)
            return
        (claim,), at_ms = task.args, self.clock.now_ms() + int(task.retry_delay * 1000)
        self.database.write(lambda tx: self.again(tx, claim, at_ms))

    def is_revoked(self, task: Task, timestamp: datetime | None = None, peek: bool = True) -> bool:
        return False  # a removed job is not in the table

    def delete(self, key: str) -> bool:
        return False  # no revocation marks are kept

    def stop_waiting(self) -> None:
        self.storage.stopping = True
        self.bell.ring()

    def _get_timestamp(self) -> datetime:
        """The clock of this program, which tests move; Huey (3.5) has no public way to be given one.

        By monotonic time: what only waits for a while goes on waiting that while, also where the clock was set.
        """
        return _HUEY_EPOCH + timedelta(seconds=self.clock.monotonic())


def retry_without_storage(run: Callable[..., Any]) -> Callable[..., None]:
    """`run` as a task that is tried again until something can be written, without a word: the store has said it."""

    @functools.wraps(run)
    def task(*given: Any) -> None:
        try:
            run(*given)
        except ApiError as error:
            if is_storage_unavailable(error):
                raise RetryTask from error
            raise

    return task


class IntervalSchedule:
    """When a periodic task is due, as Huey asks: `first` seconds after it is first asked, and then every `seconds`."""

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
    """Leased jobs from their table, other tasks from memory. One worker at a time waits, and claims for all."""

    blocking = True

    def __init__(self, name: str, jobs: JobQueue) -> None:
        super().__init__(name)
        self.jobs, self.stopping = jobs, False
        self._leader, self._lock = threading.Lock(), threading.Lock()
        self._ready: deque[_ClaimedJob] = deque()
        self._tasks: list[Task] = []
        self._later: list[tuple[datetime, Task]] = []  # with the time at which it is tried again
        self._running: list[Task] = []

    def enqueue(self, data: Task, priority: float | None = None) -> None:
        """Take a task of the scheduler's; a periodic one that has not ended, or is tried again, is not put twice."""
        with self._lock:
            there = {task.name for task in [*self._tasks, *self._running, *(task for _, task in self._later)]}
            if isinstance(data, PeriodicTask) and data.name in there:
                return
            self._tasks.append(data)
        self.jobs.bell.ring()

    def add_to_schedule(self, data: Task, ts: datetime) -> None:
        with self._lock:
            self._later.append((ts, data))

    def read_schedule(self, ts: datetime) -> list[Task]:
        with self._lock:
            due = [task for at, task in self._later if at <= ts]
            self._later = [each for each in self._later if each[0] > ts]
        return due

    def ended(self, task: Task) -> None:
        """Let the next task begin in place of this one."""
        with self._lock:
            self._running = [each for each in self._running if each is not task]
            is_waiting = bool(self._tasks)
        if is_waiting:
            self.jobs.bell.ring()

    def dequeue(self) -> Task | _ClaimedJob | None:
        """The next claimed job, or the next task in memory; None when the consumer stops."""
        with self._leader:
            while not self.stopping:
                if self._ready:
                    return self._ready.popleft()
                if (task := self._next_task()) is not None:
                    return task
                self._fill()
            while self._ready:  # claimed and never begun: the next start frees their leases
                _, claim = self._ready.pop()
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

    def _fill(self) -> None:
        try:
            self._look()
        except ApiError:  # the log has it; a worker that ended here would write it down again and again
            self.jobs.bell.wait(STORAGE_WAIT_SECONDS)

    def _look(self) -> None:
        wanted, wait = self.jobs.due(CLAIMS_MAX)
        if not wanted:
            self.jobs.wait(wait)
            return
        self._ready.extend(self.jobs.claim(wanted))
        if not self._ready:
            self.jobs.bell.wait(0.05)  # somebody else was faster, or nothing can be written


class _JobScheduler(Scheduler):  # type: ignore[misc]
    """Huey's scheduler by the clock of this program; stock Huey looks at periodic tasks once a minute of real time."""

    def loop(self, now: datetime | None = None) -> None:
        self.huey.round()
        for task in self.huey.read_schedule(now):
            self.huey.enqueue(task)
        if self.periodic:
            self.enqueue_periodic_tasks(now)
        self.stop_flag.wait(SCHEDULER_SECONDS)


class _JobConsumer(Consumer):  # type: ignore[misc]
    """Huey's consumer as threads of this process."""

    scheduler_class = _JobScheduler

    def start(self) -> None:
        """Start the threads, and leave signals alone: they are the web server's."""
        self.scheduler.start()
        for _, thread in self.worker_threads:
            thread.start()

    def stop(self, graceful: bool = False) -> None:
        self.stop_flag.set()
        self.huey.stop_waiting()
        super().stop(graceful)

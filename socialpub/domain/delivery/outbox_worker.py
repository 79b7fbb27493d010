"""Delivery of due tasks to each receiver, several at once, with results recorded together.

The outbox is rows written together with the events they report, pending until an attempt ends them. Nothing is claimed
on disk: what is in progress is known in memory, in the one process that owns the database. After a crash the rest is
still pending and is sent again under the same id.
"""

from __future__ import annotations

import functools
import heapq
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY, ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import OutboundAttempt
from socialpub.store.database import Tx

log = logging.getLogger("socialpub.webhooks")

CALLS_PER_RECEIVER = 32  # at a time
GATHER_SECONDS, GATHER_COUNT = 0.010, 16  # collection window for writing results together; sufficient number
POLL_SECONDS = 5.0  # longest sleep, after which a changed clock is noticed


@dataclass(frozen=True)
class DeliveryTask:
    """Delivery task. Tasks with the same `serial_key` run one after the other."""

    number: int
    id: str
    serial_key: str | None
    call: Callable[[], OutboundAttempt]
    """Performs the call; never raises."""
    data: Any
    """Data that the outbox needs to record the result."""


@dataclass(frozen=True)
class DueTasks:
    """Due tasks of a receiver, and the time of the next ones."""

    share: ShareKey = NO_SHARE_KEY
    due: Sequence[DeliveryTask] = ()
    next_at: int | None = None


class Outbox(Protocol):
    """Kind of receivers with their pending tasks. The methods `find_...` run on a reader."""

    prefix: str
    """Prefix of its receivers' ids."""
    sends_during_pause: bool
    """Whether some tasks are sent during a pause; `find_due` then returns only those."""

    def find_next_due(self, service: AppContext) -> list[tuple[str, int]]:
        """List receivers with pending tasks, and when the first is due."""

    def find_due(
        self, service: AppContext, receiver: str, limit: int, excluded: Collection[int], *, is_paused: bool
    ) -> DueTasks:
        """Find up to `limit` due tasks except the `excluded`, in progress now; none if disabled."""

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[DeliveryTask, OutboundAttempt]]
    ) -> list[int | None]:
        """Record the results of calls; return when each is retried, or None."""


@dataclass(frozen=True)
class _FinishedTask:
    """Finished call."""

    receiver: str
    task: DeliveryTask
    attempt: OutboundAttempt


class OutboxWorker:
    """Deliverer: takes due tasks of woken or scheduled receivers and runs them in the pool.

    `is_paused` returns True while nothing may be sent.
    """

    def __init__(self, service: AppContext, outboxes: Sequence[Outbox], is_paused: Callable[[], bool]) -> None:
        self._service, self._is_paused = service, is_paused
        self._outboxes = {outbox.prefix: outbox for outbox in outboxes}
        self._changed = threading.Condition()
        self._woken: set[str] = set()
        self._deferred: set[str] = set()  # woken while sending was not allowed
        self._woken_during_calls: set[str] = set()  # queried again at their end: a query leaves out what is in progress
        self._timers: list[tuple[int, str]] = []  # (due, receiver)
        self._next: dict[str, int] = {}  # earliest of them, by receiver
        self._backlogged: set[str] = set()  # receivers with more due tasks than could start
        self._blocked: set[tuple[str, str]] = set()  # (receiver, serial key) with waiting tasks
        self._in_progress: dict[str, set[int]] = defaultdict(set)  # numbers of tasks in progress, by receiver
        self._busy_keys: set[tuple[str, str]] = set()  # (receiver, serial key) of tasks in progress
        self._unwritten: list[_FinishedTask] = []  # results for the next transaction
        self._is_batch_full = threading.Event()  # collected enough results: do not wait for more
        self._stopping = False
        self._is_scan_due = True  # of all receivers
        self._thread = threading.Thread(target=self._run, name="deliverer", daemon=True)

    def start(self) -> None:
        self._service.wake_deliveries = self.wake
        self._thread.start()

    def wake(self, woken: list[str]) -> None:
        """Wake the deliverer for these receivers."""
        with self._changed:
            self._woken.update(woken)
            self._woken_during_calls.update(receiver for receiver in woken if receiver in self._in_progress)
            self._changed.notify()

    def wake_all(self) -> None:
        """Look for the pending tasks of all receivers."""
        with self._changed:
            self._is_scan_due = True
            self._changed.notify()

    def stop(self, seconds: float) -> None:
        """Stop: wait for calls in progress; the rest is sent after the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            self._changed.wait_for(lambda: not self._in_progress, seconds)
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping:
            try:
                if self._is_scan_due:
                    self._schedule_all()
                receivers_due, is_paused = self._wait_for_receivers()
                for receiver in receivers_due:
                    self._start_due(receiver, is_paused)
            except ApiError as error:
                log.warning("deliveries are delayed, the database cannot be read: %s", error.message)
                self._scan_later()
            except Exception:  # noqa: BLE001 - the thread must live on
                log.exception("deliveries stopped with an error; they continue in %d s", POLL_SECONDS)
                self._scan_later()

    def _scan_later(self) -> None:
        with self._changed:
            self._is_scan_due = True
            if not self._stopping:
                self._changed.wait(POLL_SECONDS)

    def _schedule_all(self) -> None:
        self._is_scan_due = False
        for outbox in self._outboxes.values():
            found = self._service.read(functools.partial(outbox.find_next_due, self._service)).result()
            with self._changed:
                for receiver, due in found:
                    self._schedule(receiver, due)

    def _schedule(self, receiver: str, due: int) -> None:
        if due < self._next.get(receiver, due + 1):
            self._next[receiver] = due
            heapq.heappush(self._timers, (due, receiver))

    def _outbox(self, receiver: str) -> Outbox:
        return self._outboxes[receiver[: receiver.index("_") + 1]]

    def _wait_for_receivers(self) -> tuple[list[str], bool]:
        """Wait for receivers with due tasks; the flag is True during a pause."""
        with self._changed:
            soonest = (self._timers[0][0] - self._service.now_ms) / 1000 if self._timers else POLL_SECONDS
            if not self._woken and not self._is_scan_due and soonest > 0:
                self._changed.wait(min(soonest, POLL_SECONDS))
            is_paused = self._is_paused()
            if self._stopping:
                return [], is_paused
            self._wake_due()
            woken = self._select_sendable(is_paused)
            full = {receiver for receiver in woken if len(self._in_progress.get(receiver, ())) >= CALLS_PER_RECEIVER}
            self._backlogged |= full  # queried again once half of their calls have ended
            self._woken.clear()
            return list(woken - full), is_paused

    def _select_sendable(self, is_paused: bool) -> set[str]:
        """Return the woken receivers; during a pause defer those that must not be sent to."""
        if is_paused:
            self._deferred |= self._woken
            return {receiver for receiver in self._woken if self._outbox(receiver).sends_during_pause}
        woken = self._woken | self._deferred
        self._deferred.clear()
        return woken

    def _wake_due(self) -> None:
        now = self._service.now_ms
        while self._timers and self._timers[0][0] <= now:
            due, receiver = heapq.heappop(self._timers)
            self._woken.add(receiver)
            if self._next.get(receiver) == due:
                del self._next[receiver]

    def _start_due(self, receiver: str, is_paused: bool) -> None:
        service, outbox = self._service, self._outbox(receiver)
        with self._changed:
            in_progress = tuple(self._in_progress.get(receiver, ()))
        try:
            found = service.read(
                lambda: outbox.find_due(service, receiver, CALLS_PER_RECEIVER, in_progress, is_paused=is_paused)
            ).result()
        except ApiError:  # the database cannot be read
            raise
        except Exception:  # noqa: BLE001 - one receiver, perhaps with a damaged secret, must not block the others
            log.exception("the due deliveries of %s cannot be read; next try in %d s", receiver, POLL_SECONDS)
            found = DueTasks(next_at=self._next_poll_ms())
        with self._changed:
            if found.next_at is not None:
                self._schedule(receiver, found.next_at)
            self._backlogged.discard(receiver)
            self._blocked = {each for each in self._blocked if each[0] != receiver}
            chosen = [task for task in found.due if self._try_start(receiver, task)]
            if len(found.due) == CALLS_PER_RECEIVER:
                self._backlogged.add(receiver)
        for task in chosen:
            self._submit(receiver, found.share, task)

    def _try_start(self, receiver: str, task: DeliveryTask) -> bool:
        """Return whether a task may start: a call is free, and its serial key."""
        if self._stopping or len(self._in_progress.get(receiver, ())) >= CALLS_PER_RECEIVER:
            self._backlogged.add(receiver)
            return False
        if task.serial_key is not None:
            if (receiver, task.serial_key) in self._busy_keys:
                self._blocked.add((receiver, task.serial_key))
                return False
            self._busy_keys.add((receiver, task.serial_key))
        self._in_progress[receiver].add(task.number)
        return True

    def _submit(self, receiver: str, share: ShareKey, task: DeliveryTask) -> None:
        try:
            self._service.executors.delivering.submit_for(share, self._deliver, receiver, task)
        except RuntimeError:  # the pool is closed: the server stops
            self._release(receiver, task, None)

    def _deliver(self, receiver: str, task: DeliveryTask) -> None:
        """Perform the call in the pool. The first thread to finish writes for the others too."""
        try:
            attempt = task.call()
        except Exception:  # noqa: BLE001 - no caller reads the future; the task stays pending
            log.exception("delivery %s stopped with an error; it is sent again", task.id)
            self._release(receiver, task, self._next_poll_ms())
            return
        with self._changed:
            self._unwritten.append(_FinishedTask(receiver, task, attempt))
            waiting = len(self._unwritten)
            if waiting >= GATHER_COUNT or waiting == sum(map(len, self._in_progress.values())):
                self._is_batch_full.set()
        if waiting == 1:
            self._is_batch_full.wait(GATHER_SECONDS)
            self._write_results()

    def _write_results(self) -> None:
        """Record all finished results in one transaction."""
        batch: list[_FinishedTask] = []

        def record(tx: Tx) -> list[int | None]:
            batch.extend(self._take_unwritten())
            return self._record(tx, batch)

        try:
            retry_times = self._service.write(record).result()
        except ApiError as error:  # they stay pending and are sent again
            log.warning("the results of deliveries were not stored, they are sent again: %s", error.message)
            batch = batch or self._take_unwritten()  # the writer may not have reached it
            retry_times = [self._next_poll_ms()] * len(batch)
        except Exception:  # noqa: BLE001 - one bad result must not block the others
            log.exception("the results of %d deliveries were not stored together; each is stored alone", len(batch))
            retry_times = [self._write_alone(finished) for finished in batch]
        with self._changed:
            for finished, retry_at in zip(batch, retry_times, strict=True):
                self._finish(finished.receiver, finished.task, retry_at)
            self._changed.notify_all()

    def _record(self, tx: Tx, batch: Sequence[_FinishedTask]) -> list[int | None]:
        """Record the results by receiver, in the order in which they ended."""
        receivers: dict[str, list[_FinishedTask]] = defaultdict(list)
        for finished in batch:
            receivers[finished.receiver].append(finished)
        retry_times: dict[tuple[str, int], int | None] = {}
        for receiver, of_receiver in receivers.items():
            calls = [(finished.task, finished.attempt) for finished in of_receiver]
            found = self._outbox(receiver).record(self._service, tx, receiver, calls)
            retry_times |= {(receiver, task.number): at for (task, _), at in zip(calls, found, strict=True)}
        return [retry_times[finished.receiver, finished.task.number] for finished in batch]

    def _take_unwritten(self) -> list[_FinishedTask]:
        with self._changed:
            taken, self._unwritten = self._unwritten, []
            self._is_batch_full.clear()
            return taken

    def _write_alone(self, finished: _FinishedTask) -> int | None:
        try:
            return self._service.write(lambda tx: self._record(tx, [finished])).result()[0]
        except Exception:  # noqa: BLE001 - no caller reads the future; the task stays pending
            log.exception("the result of delivery %s was not stored; it is sent again", finished.task.id)
            return self._next_poll_ms()

    def _next_poll_ms(self) -> int:
        return self._service.now_ms + int(POLL_SECONDS * 1000)

    def _release(self, receiver: str, task: DeliveryTask, retry_at: int | None) -> None:
        """Release a task whose call was not made or not finished."""
        with self._changed:
            self._finish(receiver, task, retry_at)
            self._changed.notify_all()

    def _finish(self, receiver: str, task: DeliveryTask, retry_at: int | None) -> None:
        calls = self._in_progress[receiver]
        calls.discard(task.number)
        if task.serial_key is not None:
            self._busy_keys.discard((receiver, task.serial_key))
        if retry_at is not None:
            self._schedule(receiver, retry_at)
        has_blocked = (receiver, task.serial_key) in self._blocked
        if has_blocked or (receiver in self._backlogged and len(calls) <= CALLS_PER_RECEIVER // 2):
            self._woken.add(receiver)
        if not calls:
            del self._in_progress[receiver]
            if receiver in self._woken_during_calls:
                self._woken_during_calls.discard(receiver)
                self._woken.add(receiver)

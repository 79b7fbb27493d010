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
from dataclasses import dataclass, field
from typing import Any, Protocol

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import OutboundAttempt
from socialpub.store.database import Tx

log = logging.getLogger("socialpub.webhooks")

CALLS_PER_RECEIVER = 32  # calls per receiver
GATHER_SECONDS, GATHER_COUNT = 0.010, 16  # collection window for writing results together; sufficient number
POLL_SECONDS = 5.0  # longest sleep, after which a changed clock or a command's changes are noticed


@dataclass(frozen=True)
class DeliveryTask:
    """Delivery task. Tasks with the same `after` run one after the other."""

    number: int
    id: str
    after: str | None
    call: Callable[[], OutboundAttempt]
    """Performs the call; never raises."""
    what: Any
    """Data that the outbox needs to record the result."""


@dataclass(frozen=True)
class DueTasks:
    """Due tasks of a receiver, and the time of the next ones."""

    share: ShareKey = field(default_factory=lambda: ShareKey("", ""))
    due: Sequence[DeliveryTask] = ()
    next_at: int | None = None


class Outbox(Protocol):
    """Kind of receivers with their pending tasks. The first two methods run on a reader."""

    @property
    def prefix(self) -> str:
        """Prefix of its receivers' ids."""

    @property
    def goes_on(self) -> bool:
        """True if some tasks are sent during a pause; `look` then returns only those."""

    def soonest(self, service: AppContext) -> list[tuple[str, int]]:
        """List receivers with pending tasks, and when the first is due."""

    def look(self, service: AppContext, receiver: str, most: int, but: Collection[int], *, held_back: bool) -> DueTasks:
        """Find up to `most` due tasks except those in progress (`but`); none if disabled."""

    @property
    def record(
        self,
    ) -> Callable[[AppContext, Tx, str, Sequence[tuple[DeliveryTask, OutboundAttempt]]], list[int | None]]:
        """Record the results of calls; return when each is retried, or None."""


@dataclass(frozen=True)
class _FinishedTask:
    """Finished call."""

    receiver: str
    errand: DeliveryTask
    attempt: OutboundAttempt


class OutboxWorker:
    """Deliverer: takes due tasks of woken or scheduled receivers and runs them in the pool.

    `held_back` returns True while nothing may be sent.
    """

    def __init__(self, service: AppContext, outboxes: Sequence[Outbox], held_back: Callable[[], bool]) -> None:
        self._service, self._held_back = service, held_back
        self._outboxes = {outbox.prefix: outbox for outbox in outboxes}
        self._changed = threading.Condition()
        self._rung: set[str] = set()
        self._put_off: set[str] = set()  # woken while sending was not allowed
        self._timers: list[tuple[int, str]] = []  # (due, receiver)
        self._next: dict[str, int] = {}  # earliest of them, by receiver
        self._more: set[str] = set()  # receivers with more due tasks than could start
        self._behind: set[tuple[str, str]] = set()  # (receiver, order) with tasks waiting for others of their order
        self._calls: dict[str, set[int]] = defaultdict(set)  # numbers of tasks in progress, by receiver
        self._orders: set[tuple[str, str]] = set()  # (receiver, order) of tasks in progress
        self._unwritten: list[_FinishedTask] = []  # results for the next transaction
        self._enough = threading.Event()  # collected enough results: do not wait for more
        self._ended: set[int] = set()  # ended since the current query began, which may have seen them pending
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="deliverer", daemon=True)

    def start(self) -> None:
        self._service.ring_receivers = self.ring
        self._thread.start()

    def ring(self, rung: list[str]) -> None:
        """Wake the deliverer for these receivers."""
        with self._changed:
            self._rung.update(rung)
            self._changed.notify()

    def stop(self, seconds: float) -> None:
        """Stop: wait for calls in progress; the rest is sent after the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            self._changed.wait_for(lambda: not self._calls, seconds)
        self._thread.join(1.0)

    def _run(self) -> None:
        self._look_at_all()
        while not self._stopping:
            try:
                wanted, held_back = self._wanted()
                for receiver in wanted:
                    self._take(receiver, held_back)
            except ApiError as error:  # nothing can be read now
                log.warning("deliveries wait: %s", error.message)
                with self._changed:
                    self._changed.wait(POLL_SECONDS)
                self._look_at_all()
            except Exception:  # noqa: BLE001 - the thread must live on
                log.exception("deliveries stopped for a moment")
                with self._changed:
                    self._changed.wait(POLL_SECONDS)

    def _look_at_all(self) -> None:
        for outbox in self._outboxes.values():
            try:
                found = self._service.read(functools.partial(outbox.soonest, self._service)).result()
            except ApiError as error:
                log.warning("deliveries wait: %s", error.message)
                return
            with self._changed:
                for receiver, due in found:
                    self._time(receiver, due)

    def _time(self, receiver: str, due: int) -> None:
        if due < self._next.get(receiver, due + 1):
            self._next[receiver] = due
            heapq.heappush(self._timers, (due, receiver))

    def _outbox(self, receiver: str) -> Outbox:
        return self._outboxes[receiver[: receiver.index("_") + 1]]

    def _wanted(self) -> tuple[list[str], bool]:
        """Wait for receivers with due tasks; the flag is True during a pause."""
        with self._changed:
            soonest = (self._timers[0][0] - self._service.now_ms) / 1000 if self._timers else POLL_SECONDS
            if not self._rung and soonest > 0:
                self._changed.wait(min(soonest, POLL_SECONDS))
            held_back = self._held_back()
            if self._stopping:
                return [], held_back
            self._ring_timers()
            rung = self._may_leave(held_back)
            full = {receiver for receiver in rung if len(self._calls.get(receiver, ())) >= CALLS_PER_RECEIVER}
            self._more |= full  # queried again once half of their calls have ended
            self._rung.clear()
            return list(rung - full), held_back

    def _may_leave(self, held_back: bool) -> set[str]:
        """Split woken receivers during a pause: return those allowed, keep the others for later."""
        if held_back:
            self._put_off |= self._rung
            return {receiver for receiver in self._rung if self._outbox(receiver).goes_on}
        rung = self._rung | self._put_off
        self._put_off.clear()
        return rung

    def _ring_timers(self) -> None:
        now = self._service.now_ms
        while self._timers and self._timers[0][0] <= now:
            due, receiver = heapq.heappop(self._timers)
            self._rung.add(receiver)
            if self._next.get(receiver) == due:
                del self._next[receiver]

    def _take(self, receiver: str, held_back: bool) -> None:
        service, outbox = self._service, self._outbox(receiver)
        with self._changed:
            under_way = tuple(self._calls.get(receiver, ()))
            self._ended.clear()
        found = service.read(
            lambda: outbox.look(service, receiver, CALLS_PER_RECEIVER, under_way, held_back=held_back)
        ).result()
        with self._changed:
            if found.next_at is not None:
                self._time(receiver, found.next_at)
            self._more.discard(receiver)
            self._behind = {each for each in self._behind if each[0] != receiver}
            chosen = [errand for errand in found.due if self._enter(receiver, errand)]
            if len(found.due) == CALLS_PER_RECEIVER:
                self._more.add(receiver)
        for errand in chosen:
            self._begin(receiver, found.share, errand)

    def _enter(self, receiver: str, errand: DeliveryTask) -> bool:
        """Return whether a task may start: not in progress, not just ended, its order is free."""
        calls = self._calls[receiver]
        if errand.number in calls or errand.number in self._ended:
            return False
        if self._stopping or len(calls) >= CALLS_PER_RECEIVER:
            self._more.add(receiver)
            return False
        if errand.after is not None:
            if (receiver, errand.after) in self._orders:
                self._behind.add((receiver, errand.after))
                return False
            self._orders.add((receiver, errand.after))
        calls.add(errand.number)
        return True

    def _begin(self, receiver: str, share: ShareKey, errand: DeliveryTask) -> None:
        try:
            self._service.executors.delivering.submit_for(share, self._deliver, receiver, errand)
        except RuntimeError:  # the pool is closed: the server stops
            self._give_back(receiver, errand, None)

    def _deliver(self, receiver: str, errand: DeliveryTask) -> None:
        """Perform the call in the pool. The first thread to finish writes for the others too."""
        try:
            attempt = errand.call()
        except Exception:  # noqa: BLE001 - no caller reads the future; the task stays pending
            log.exception("delivery %s stopped", errand.id)
            self._give_back(receiver, errand, self._soon())
            return
        with self._changed:
            self._unwritten.append(_FinishedTask(receiver, errand, attempt))
            waiting, others = len(self._unwritten), self._under_way() - len(self._unwritten)
            if waiting >= GATHER_COUNT or not others:
                self._enough.set()
        if waiting == 1:
            self._enough.wait(GATHER_SECONDS)
            self._write_down()

    def _write_down(self) -> None:
        """Record all finished results in one transaction."""
        batch: list[_FinishedTask] = []

        def record(tx: Tx) -> list[int | None]:
            batch.extend(self._take_unwritten())
            return self._record(tx, batch)

        try:
            again = self._service.write(record).result()
        except ApiError as error:  # they stay pending and are sent again
            log.warning("the ends of deliveries could not be written: %s", error.message)
            batch = batch or self._take_unwritten()  # the writer may not have reached it
            again = [self._soon()] * len(batch)
        except Exception:  # noqa: BLE001 - one bad result must not block the others
            log.exception("the ends of %d deliveries could not be written together", len(batch))
            again = [self._written_alone(ended) for ended in batch]
        with self._changed:
            for ended, again_at in zip(batch, again, strict=True):
                self._end(ended.receiver, ended.errand, again_at)
            self._changed.notify_all()

    def _record(self, tx: Tx, batch: Sequence[_FinishedTask]) -> list[int | None]:
        """Record the results by receiver, in the order in which they ended."""
        receivers: dict[str, list[_FinishedTask]] = defaultdict(list)
        for ended in batch:
            receivers[ended.receiver].append(ended)
        again: dict[tuple[str, int], int | None] = {}
        for receiver, mine in receivers.items():
            calls = [(ended.errand, ended.attempt) for ended in mine]
            found = self._outbox(receiver).record(self._service, tx, receiver, calls)
            again |= {(receiver, errand.number): at for (errand, _), at in zip(calls, found, strict=True)}
        return [again[ended.receiver, ended.errand.number] for ended in batch]

    def _take_unwritten(self) -> list[_FinishedTask]:
        with self._changed:
            taken, self._unwritten = self._unwritten, []
            self._enough.clear()
            return taken

    def _under_way(self) -> int:
        return sum(map(len, self._calls.values()))

    def _written_alone(self, ended: _FinishedTask) -> int | None:
        try:
            return self._service.write(lambda tx: self._record(tx, [ended])).result()[0]
        except Exception:  # noqa: BLE001 - no caller reads the future; the task stays pending
            log.exception("the end of delivery %s could not be written", ended.errand.id)
            return self._soon()

    def _soon(self) -> int:
        return self._service.now_ms + int(POLL_SECONDS * 1000)

    def _give_back(self, receiver: str, errand: DeliveryTask, again_at: int | None) -> None:
        """Release a task whose call was not made or not finished."""
        with self._changed:
            self._end(receiver, errand, again_at)
            self._changed.notify_all()

    def _end(self, receiver: str, errand: DeliveryTask, again_at: int | None) -> None:
        calls = self._calls[receiver]
        calls.discard(errand.number)
        self._ended.add(errand.number)
        if errand.after is not None:
            self._orders.discard((receiver, errand.after))
        if again_at is not None:
            self._time(receiver, again_at)
        waited_for = (receiver, errand.after) in self._behind
        if waited_for or (receiver in self._more and len(calls) <= CALLS_PER_RECEIVER // 2):
            self._rung.add(receiver)
        if not calls:
            del self._calls[receiver]

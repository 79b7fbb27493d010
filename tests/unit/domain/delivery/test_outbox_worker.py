"""Deliverer of two outboxes whose tasks have the same numbers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from socialpub.base.security.crypto import SealError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import OutboundAttempt
from socialpub.domain.delivery.outbox_worker import (
    CALLS_PER_RECEIVER,
    POLL_SECONDS,
    DeliveryTask,
    DueTasks,
    OutboxWorker,
)
from socialpub.store.database import Tx
from tests.support.app_server import AppServer
from tests.support.soak.soak_world import wait_for


@dataclass
class NumberedOutbox:
    """Outbox of one receiver with the tasks 1 to `count`; `before_due` runs inside each query, after its read.

    Tasks are queried in groups of `limit`, as by the outboxes of the program. Those of one `serial_key` run one after
    the other.
    """

    prefix: str
    count: int = 1
    before_due: Callable[[], object] = lambda: None
    call: Callable[[], object] = lambda: None
    after_record: Callable[[], object] = lambda: None
    serial_key: str | None = None
    recorded: list[int] = field(default_factory=list)
    sends_during_pause: bool = False

    @property
    def receiver(self) -> str:
        return f"{self.prefix}receiver"

    def find_next_due(self, service: AppContext) -> list[tuple[str, int]]:
        return []

    def find_due(
        self, service: AppContext, receiver: str, limit: int, excluded: Collection[int], *, is_paused: bool
    ) -> DueTasks:
        pending = [number for number in range(1, self.count + 1) if number not in (*excluded, *self.recorded)]
        self.before_due()
        return DueTasks(
            due=[DeliveryTask(number, str(number), self.serial_key, self._attempt, None) for number in pending[:limit]]
        )

    def _attempt(self) -> OutboundAttempt:
        self.call()
        return OutboundAttempt(id="1", started_at=0, duration_ms=0, status=204)

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[DeliveryTask, OutboundAttempt]]
    ) -> list[int | None]:
        self.recorded += [task.number for task, _ in calls]
        self.after_record()
        return [None] * len(calls)


@contextlib.contextmanager
def running_worker(server: AppServer, *outboxes: NumberedOutbox) -> Iterator[OutboxWorker]:
    """A deliverer of these outboxes in place of the server's own."""
    worker, wake = OutboxWorker(server.service, outboxes, lambda: False), server.service.wake_deliveries
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(60)
        server.service.wake_deliveries = wake


@pytest.mark.parametrize("count", [1, 3])
def test_a_task_is_sent_though_one_of_its_number_has_just_ended(server: AppServer, count: int) -> None:
    """Webhook deliveries and notifications are numbered each for themselves."""
    delivering, over = server.service.executors.delivering, threading.Event()
    first = NumberedOutbox("first_", count, call=lambda: over.wait(60))

    def end_first() -> None:
        over.set()
        assert wait_for(lambda: len(first.recorded) == count and not delivering.is_busy, 60)

    second = NumberedOutbox("second_", count, before_due=end_first)
    with running_worker(server, first, second) as worker:
        worker.wake([first.receiver])
        assert wait_for(lambda: delivering.is_busy, 60)
        worker.wake([second.receiver])
        assert wait_for(lambda: sorted(second.recorded) == list(range(1, count + 1)), 60)


def test_a_task_that_ended_while_its_receiver_was_queried_is_sent_once(server: AppServer) -> None:
    """The query leaves out the tasks that were in progress when it began."""
    delivering, over, queried = server.service.executors.delivering, threading.Event(), threading.Event()
    sent: list[str] = []

    def call() -> None:
        over.wait(60)
        sent.append("")

    def end_call() -> None:
        over.set()
        assert wait_for(lambda: outbox.recorded and not delivering.is_busy, 60)
        queried.set()

    outbox = NumberedOutbox("only_", call=call)
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert wait_for(lambda: delivering.is_busy, 60)
        outbox.before_due, outbox.count = end_call, 2
        worker.wake([outbox.receiver])
        assert queried.wait(60)
        assert wait_for(lambda: sorted(outbox.recorded) == [1, 2], 60)
        assert len(sent) == 2


def test_a_task_that_is_due_again_as_its_call_ends_is_sent_again(server: AppServer) -> None:
    """As a delivery is that is queued again between its result's commit and its release."""
    queried, sent = threading.Event(), list[str]()
    outbox = NumberedOutbox("only_", call=lambda: sent.append(""))

    def queue_again() -> None:
        if len(sent) == 1:
            outbox.recorded.clear()
            outbox.before_due = queried.set
            worker.wake([outbox.receiver])
            assert queried.wait(60)

    outbox.after_record = queue_again
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert wait_for(lambda: outbox.recorded == [1] and len(sent) == 2, 60)


def test_a_receiver_that_cannot_be_read_delays_no_other(server: AppServer) -> None:
    """A damaged secret stops its own deliveries; they are tried again, and sent once it is mended."""
    is_damaged = True

    def fail() -> None:
        if is_damaged:
            raise SealError("an encrypted value does not belong to its row, or was changed")

    damaged, others = NumberedOutbox("damaged_", before_due=fail), [NumberedOutbox(f"o{each}_") for each in range(20)]
    with running_worker(server, damaged, *others) as worker:
        worker.wake([outbox.receiver for outbox in (damaged, *others)])
        assert wait_for(lambda: all(outbox.recorded for outbox in others), 60)
        assert not damaged.recorded
        is_damaged = False
        server.skip(POLL_SECONDS)
        assert wait_for(lambda: damaged.recorded, 60)


def test_tasks_with_one_serial_key_are_sent_one_after_another(server: AppServer) -> None:
    """The end of each starts the next: nothing else wakes their receiver."""
    in_progress: list[str] = []
    most: list[int] = []

    def call() -> None:
        in_progress.append("")
        most.append(len(in_progress))
        in_progress.pop()

    outbox = NumberedOutbox("serial_", 5, call=call, serial_key="post")
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert wait_for(lambda: len(outbox.recorded) == 5, 60)
    assert outbox.recorded == [1, 2, 3, 4, 5]
    assert most == [1] * 5


def test_more_tasks_than_may_be_called_at_once_are_all_sent(server: AppServer) -> None:
    """The ends of some start the others: nothing else wakes their receiver."""
    count, lock = 3 * CALLS_PER_RECEIVER + 1, threading.Lock()
    in_progress = most = 0

    def call() -> None:
        nonlocal in_progress, most
        with lock:
            in_progress += 1
            most = max(most, in_progress)
        with lock:
            in_progress -= 1

    outbox = NumberedOutbox("many_", count, call=call)
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert wait_for(lambda: len(outbox.recorded) >= count, 60)
    assert sorted(outbox.recorded) == list(range(1, count + 1))
    assert most <= CALLS_PER_RECEIVER


def test_a_receiver_that_has_nothing_due_is_not_queried_again(server: AppServer) -> None:
    """Otherwise the worker's thread queries the receiver in an endless loop."""
    outbox = NumberedOutbox("a_")
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert wait_for(lambda: outbox.recorded == [1], 60)
        assert wait_for(lambda: not worker._woken, 60)


def test_a_stop_waits_for_the_call_in_progress_and_its_record(server: AppServer) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        stopped.wait(0.2)

    outbox = NumberedOutbox("a_", call=call)
    with running_worker(server, outbox) as worker:
        worker.wake([outbox.receiver])
        assert begun.wait(60)
        worker.stop(60)
        recorded = list(outbox.recorded)
        stopped.set()
    assert recorded == [1]

"""Fair executors: shares of the slots, turns, limits of the queue."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from socialpub.base.concurrency.fair_executor import (
    ANONYMOUS_KEY,
    FairExecutor,
    FairShareLimiter,
    QueueLimits,
    ReleaseCallback,
    ShareKey,
    current_share_key,
)
from socialpub.base.errors import ApiError
from tests.support.soak.soak_world import wait_for

A, B, C = (ShareKey(host=name) for name in "ABC")


class HeldTasks:
    """Tasks of an executor that run until they are released; `started` has their shares in order."""

    def __init__(self, executor: FairExecutor) -> None:
        self.executor, self.started = executor, list[ShareKey]()
        self._ends: dict[ShareKey, list[threading.Event]] = {}

    def submit(self, *shares: ShareKey) -> list[Future[None]]:
        return [self.executor.submit_for(share, self._run) for share in shares]

    def _run(self) -> None:
        end, share = threading.Event(), current_share_key.get()
        self._ends.setdefault(share, []).append(end)
        self.started.append(share)
        assert end.wait(60)

    def wait_started(self, count: int) -> None:
        assert wait_for(lambda: len(self.started) >= count, 60, 0.002)

    def release(self, share: ShareKey) -> None:
        self._ends[share].pop(0).set()

    def release_all(self) -> None:
        """Whatever has started or starts, until nothing waits or runs."""

        def is_over() -> bool:
            for ends in list(self._ends.values()):
                for end in list(ends):
                    end.set()
            return not self.executor.is_busy and not self.executor.waiting_count

        assert wait_for(is_over, 60, 0.002)


@pytest.fixture
def executors() -> Iterator[list[HeldTasks]]:
    made: list[HeldTasks] = []
    yield made
    for tasks in made:
        tasks.release_all()
        tasks.executor.shutdown()


def _make(executors: list[HeldTasks], slots: int, limits: QueueLimits | None = None) -> HeldTasks:
    executors.append(HeldTasks(FairExecutor(slots, "tested", limits)))
    return executors[-1]


# --- Shares ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "share", "most"),
    [
        (1, A, 1),
        (2, A, 1),
        (3, A, 2),
        (6, A, 4),
        (9, A, 6),
        (64, A, 43),
        (64, ShareKey(owner="o"), 55),
        (7, ShareKey(owner="o"), 6),
        (64, ShareKey("A", "o"), 43),
        (64, ShareKey(), 10_000),
    ],
)
def test_a_share_takes_a_part_and_leaves_slots_to_others(slots: int, share: ShareKey, most: int) -> None:
    limiter = FairShareLimiter(slots)
    taken = 0
    while taken < most and limiter.try_enter(share):
        taken += 1
    assert taken == most
    if share != ShareKey():
        assert not limiter.try_enter(share)
        assert limiter.get_saturated() == (
            frozenset({share.host} if share.host else ()),
            frozenset({share.owner} if share.owner and not share.host else ()),
        )
        limiter.leave(share)
        assert limiter.try_enter(share)


def test_the_last_slot_is_for_who_has_none() -> None:
    limiter = FairShareLimiter(3)
    assert [limiter.try_enter(each) for each in (A, A, A, B, B)] == [True, True, False, True, False]


def test_a_host_that_may_hold_less_is_full_earlier() -> None:
    limiter = FairShareLimiter(64, lambda: {"A": 2, "gone": 0})
    assert [limiter.try_enter(A) for _ in range(3)] == [True, True, False]
    assert limiter.get_saturated().hosts == {"A", "gone"}
    assert limiter.try_enter(A, anyway=True)
    assert not limiter.try_enter(ShareKey("gone"))


# --- Turns -----------------------------------------------------------------------------------------------------------


def test_shares_take_turns_and_each_keeps_its_order(executors: list[HeldTasks]) -> None:
    tasks = _make(executors, 1)
    tasks.submit(A)
    tasks.wait_started(1)
    tasks.submit(B, B, B, C, A, A)
    for count in range(2, 8):
        tasks.release(tasks.started[-1])
        tasks.wait_started(count)
    assert tasks.started == [A, B, C, A, B, A, B]


def test_an_end_starts_all_that_has_room_by_it(executors: list[HeldTasks]) -> None:
    """Two upstreams wait at their bounds: when one of them ends a task, each gets one."""
    tasks = _make(executors, 10)
    tasks.submit(*[A] * 4, *[B] * 4)
    tasks.wait_started(8)
    tasks.submit(B, A)
    assert tasks.executor.waiting_count == 2
    tasks.release(A)
    tasks.wait_started(10)
    assert Counter(tasks.started) == {A: 5, B: 5}


def test_a_slot_given_back_starts_who_waits(executors: list[HeldTasks]) -> None:
    tasks, leaves = _make(executors, 1), list[ReleaseCallback]()
    tasks.executor.enter_for(A, leaves.append)
    assert len(leaves) == 1
    tasks.executor.enter_for(B, leaves.append)
    tasks.submit(C)
    assert (len(leaves), tasks.started) == (1, [])
    leaves[0]()
    assert wait_for(lambda: len(leaves) == 2, 60, 0.002)
    assert tasks.started == []
    leaves[1]()
    tasks.wait_started(1)


def test_a_task_withdrawn_never_starts(executors: list[HeldTasks]) -> None:
    tasks = _make(executors, 1)
    running, waiting, last = tasks.submit(A, B, B)
    tasks.wait_started(1)
    tasks.executor.withdraw(B, waiting)
    tasks.executor.withdraw(A, running)
    assert (waiting.cancelled(), running.cancelled(), tasks.executor.waiting_count) == (True, False, 1)
    tasks.release_all()
    assert (tasks.started, last.result(60)) == ([A, B], None)


@pytest.mark.parametrize(
    ("slots", "running", "count", "has_room"),
    [(4, 0, 2, True), (4, 0, 3, False), (4, 1, 1, True), (4, 1, 2, False), (5, 2, 1, False)],
)
def test_there_is_room_below_half_of_the_slots(
    executors: list[HeldTasks], slots: int, running: int, count: int, has_room: bool
) -> None:
    tasks = _make(executors, slots)
    tasks.submit(*[ShareKey()] * running)
    tasks.wait_started(running)
    assert tasks.executor.has_room(count) is has_room


# --- The queue -------------------------------------------------------------------------------------------------------


def test_the_queue_has_a_bound_for_each_organization_and_for_all(executors: list[HeldTasks]) -> None:
    tasks = _make(executors, 1, QueueLimits(owner=2, total=3))
    one, two = ShareKey(owner="one"), ShareKey(owner="two")
    tasks.submit(ANONYMOUS_KEY)
    tasks.wait_started(1)
    tasks.executor.admit(one, 2)
    with pytest.raises(ApiError) as refused:
        tasks.executor.admit(one, 3)
    assert (refused.value.rule, refused.value.retry_after) == ("http.busy", 5)
    tasks.submit(one, ShareKey("A", "one"))
    with pytest.raises(ApiError, match="overloaded"):
        tasks.executor.of(one).submit(lambda: None)
    tasks.executor.admit(two, 1)
    with pytest.raises(ApiError, match="overloaded"):
        tasks.executor.admit(two, 2)


def test_an_error_goes_to_its_caller_and_the_next_runs(executors: list[HeldTasks]) -> None:
    executor = _make(executors, 1).executor

    def fail() -> None:
        raise LookupError("no")

    failed, fine = executor.submit(fail), executor.submit(lambda: 7)
    with pytest.raises(LookupError, match="no"):
        failed.result(60)
    assert fine.result(60) == 7


@pytest.mark.parametrize("cancels", [False, True])
def test_a_closed_executor_ends_what_it_took(executors: list[HeldTasks], cancels: bool) -> None:
    tasks = _make(executors, 1)
    _, waiting = tasks.submit(A, B)
    tasks.wait_started(1)
    tasks.executor.shutdown(wait=False, cancel_futures=cancels)
    for late in (lambda: tasks.submit(C), lambda: tasks.executor.enter_for(C, lambda leave: leave())):
        with pytest.raises(RuntimeError, match="closed"):
            late()
    tasks.release_all()
    assert (waiting.cancelled(), tasks.started) == (cancels, [A] if cancels else [A, B])


@pytest.mark.parametrize("slots_given_back", [False, True])
def test_who_closes_it_waits_for_what_runs_and_what_waits(executors: list[HeldTasks], slots_given_back: bool) -> None:
    tasks, closed, leaves = _make(executors, 1), threading.Event(), list[ReleaseCallback]()
    tasks.submit(A, B)
    tasks.wait_started(1)
    if slots_given_back:
        tasks.executor.enter_for(C, leaves.append)
    closing = threading.Thread(target=lambda: (tasks.executor.shutdown(), closed.set()))
    closing.start()
    tasks.release(A)
    tasks.wait_started(2)
    assert not closed.is_set()
    tasks.release(B)
    if slots_given_back:
        assert wait_for(lambda: leaves, 60, 0.002)
        assert not closed.is_set()
        leaves[0]()
    closing.join(60)
    assert closed.is_set()


def test_a_task_for_which_there_is_no_thread_is_refused(
    executors: list[HeldTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = _make(executors, 1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            tasks.submit(A)
    assert (tasks.executor.waiting_count, tasks.executor.is_busy) == (0, False)
    tasks.submit(B)
    tasks.wait_started(1)
    assert tasks.started == [B]

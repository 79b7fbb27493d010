"""Slots of job kinds, and the event that wakes the worker."""

from __future__ import annotations

import threading

import pytest

from socialpub.store.jobs.worker_slots import WakeupEvent, WorkerSlots
from tests.support.soak.soak_world import wait_for


def test_a_kind_takes_no_more_than_its_slots_and_none_of_another() -> None:
    slots = WorkerSlots()
    slots.reserve("a", 2)
    slots.reserve("b", 1)
    assert [slots.try_enter("a") for _ in range(3)] == [True, True, False]
    assert (slots.free("a"), slots.free("b")) == (0, 1)
    assert slots.try_enter("b")
    slots.leave("a")
    assert (slots.free("a"), slots.free("b")) == (1, 0)
    assert slots.try_enter("a")


@pytest.mark.parametrize("waker", ["wake", "a job due before it wakes up"])
def test_a_waiting_worker_is_woken(waker: str) -> None:
    event = WakeupEvent()
    worker = threading.Thread(target=event.wait, args=(60, 1_000), daemon=True)
    worker.start()

    def has_ended() -> bool:
        if waker == "wake":
            event.wake()
        else:
            event.wake_for(999)
        return not worker.is_alive()

    assert wait_for(has_ended, 30)


@pytest.mark.parametrize("at_ms", [1, 10**15])
def test_a_job_put_while_no_worker_waits_is_not_missed(at_ms: int) -> None:
    event = WakeupEvent()
    event.wait(0, 500)
    event.wake_for(at_ms)
    worker = threading.Thread(target=event.wait, args=(60, 500), daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive()

"""Fair admission of requests by owner: order, limits, cancellation, no starvation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from socialpub.base.concurrency.admission import PACED_MAX, AdmissionController, Pacer, Permit

NEVER = 3600.0  # seconds after which a permit counts no longer: not in these tests
Admitted = list[Permit]


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 30))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def ask(admission: AdmissionController, owner: str, count: int, admitted: Admitted) -> list[asyncio.Task[None]]:
    async def enter() -> None:
        admitted.append(await admission.enter(owner))

    tasks = [asyncio.create_task(enter()) for _ in range(count)]
    await settled()
    return tasks


async def release_all(admitted: Admitted) -> None:
    for permit in admitted:  # the list grows meanwhile
        permit.release()
        await settled()


def test_of_300_requests_a_neighbours_is_behind_none_that_has_not_begun() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(16, 2, counted=NEVER), Admitted()
        tasks = await ask(admission, "many", 300, admitted)
        assert (len(admitted), admission.waiting("many")) == (16, 284)
        tasks += await ask(admission, "one", 1, admitted)
        assert admitted[-1].owner == "one"
        for permit in admitted[:14]:  # while another owner is present, two are enough
            permit.release()
        await settled()
        assert len(admitted) == 17
        admitted[14].release()
        await settled()
        assert len(admitted) == 18
        admitted[16].release()
        await settled()
        assert (len(admitted), admission.waiting("many")) == (18 + 14, 269)
        await release_all(admitted)
        await asyncio.gather(*tasks)
        assert (len(admitted), admission.waiting("many")) == (301, 0)

    run(scene())


def test_there_is_room_for_an_owner_that_was_present_recently() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(16, 2, counted=NEVER, recent=NEVER), Admitted()
        tasks = await ask(admission, "one", 1, admitted)
        admitted[0].release()
        tasks += await ask(admission, "many", 30, admitted)
        assert (len(admitted), admission.waiting("many")) == (3, 28)
        admission.recent = 0.0
        while len(admitted) == 3:
            await asyncio.sleep(0.001)
        assert (len(admitted), admission.waiting("many")) == (17, 14)
        await release_all(admitted)
        await asyncio.gather(*tasks)

    run(scene())


def test_the_owners_do_not_wait_for_each_other() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(1), Admitted()
        tasks = [*await ask(admission, "a", 4, admitted), *await ask(admission, "b", 4, admitted)]
        assert [permit.owner for permit in admitted] == ["a", "b"]
        await release_all(admitted)
        await asyncio.gather(*tasks)
        assert [permit.owner for permit in admitted] == ["a", "b"] * 4

    run(scene())


def test_a_request_that_rests_makes_room_once() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(1, counted=NEVER), Admitted()
        tasks = await ask(admission, "a", 3, admitted)
        for end in (admitted[0].rest, admitted[0].rest, admitted[0].release, admitted[0].release):
            end()
            await settled()
            assert len(admitted) == 2
        admitted[1].release()
        await asyncio.gather(*tasks)

    run(scene())


def test_a_permit_that_is_held_for_long_stops_counting() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(1, counted=0.001), Admitted()
        await asyncio.gather(*await ask(admission, "a", 20, admitted))
        assert len(admitted) == 20
        await release_all(admitted)  # which are not counted out again
        await asyncio.gather(*await ask(admission, "a", 1, admitted))
        assert not admission.waiting("a")

    run(scene())


def test_a_canceled_request_keeps_no_permit() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(1), Admitted()
        first, canceled, canceled_when_admitted, last = await ask(admission, "a", 4, admitted)
        canceled.cancel()
        await settled()
        assert admission.waiting("a") == 2
        admitted[0].release()
        canceled_when_admitted.cancel()
        await settled()
        assert len(admitted) == 2
        await asyncio.gather(first, last)
        assert admission.waiting("a") == 0

    run(scene())


def test_the_last_canceled_request_leaves_nothing() -> None:
    async def scene() -> None:
        admission, admitted = AdmissionController(1), Admitted()
        _, canceled = await ask(admission, "a", 2, admitted)
        admitted[0].release()
        canceled.cancel()
        await settled()
        with await admission.enter("a"):
            assert admission.waiting("a") == 0

    run(scene())


# --- Pace ---


def test_each_owner_has_a_turn_in_so_many_seconds() -> None:
    pacer = Pacer(0.5)
    assert [pacer.wait("a", 10.0) for _ in range(3)] == [0.0, 0.5, 1.0]
    assert pacer.wait("b", 10.0) == 0.0
    assert pacer.wait("a", 11.25) == pytest.approx(0.25)
    assert pacer.wait("a", 20.0) == 0.0


def test_a_turn_may_be_a_long_one() -> None:
    pacer = Pacer(0.01)
    assert [pacer.wait("", now, size) for now, size in ((0, 50), (0, 50), (0.5, 100), (10, 25))] == [0, 0.5, 0.5, 0]


def test_no_owner_waits_very_long_and_not_all_are_remembered() -> None:
    pacer = Pacer(0.5, longest=1.0)
    assert max(pacer.wait("a", 10.0) for _ in range(100)) == 1.0
    for number in range(5 * PACED_MAX):
        assert pacer.wait(f"owner {number}", 100.0 + number) == 0.0
    assert len(pacer._next) <= PACED_MAX

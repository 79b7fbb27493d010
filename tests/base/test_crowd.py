"""A crowd: whoever has little under way goes on before those who have much, and nobody is kept for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from socialpub.base.crowd import LOOK_SECONDS, Crowd, Place

NEVER = 3600.0  # seconds after which a request counts no longer: not in these tests


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 30))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def asked(crowd: Crowd, owner: str, count: int, came: list[tuple[str, Place]]) -> list[asyncio.Task[None]]:
    """So many requests of somebody, each of which says in `came` that it was let in."""

    async def ask() -> None:
        came.append((owner, await crowd.enter(owner)))

    tasks = [asyncio.create_task(ask()) for _ in range(count)]
    await settled()
    return tasks


def test_of_300_requests_a_neighbours_is_behind_none_that_has_not_begun() -> None:
    async def scene() -> None:
        crowd, came = Crowd(2, 16, NEVER), list[tuple[str, Place]]()
        tasks = await asked(crowd, "many", 300, came)
        assert (len(came), crowd.waiting("many")) == (16, 284)
        tasks += await asked(crowd, "one", 1, came)
        assert came[-1][0] == "one"
        assert crowd.is_shared
        for _, place in came[:14]:  # while somebody else is there, two of theirs are enough
            crowd.leave(place)
        await settled()
        assert len(came) == 17
        crowd.leave(came[14][1])
        await settled()
        assert len(came) == 18
        crowd.leave(came[16][1])
        await settled()
        assert (len(came), crowd.waiting("many")) == (18 + 14, 269)
        assert not crowd.is_shared
        for _, place in came:  # the list grows while it is gone through
            crowd.leave(place)
            await settled()
        await asyncio.gather(*tasks)
        assert (len(came), crowd.waiting("many")) == (301, 0)

    run(scene())


def test_there_is_room_for_who_was_there_lately() -> None:
    async def scene() -> None:
        crowd, came = Crowd(2, 16, NEVER, NEVER), list[tuple[str, Place]]()
        tasks = await asked(crowd, "one", 1, came)
        crowd.leave(came[0][1])
        assert not crowd.is_shared
        tasks += await asked(crowd, "many", 30, came)
        assert (len(came), crowd.waiting("many")) == (3, 28)
        assert crowd.is_shared
        crowd.lately = 0.0
        crowd.leave(came[1][1])
        await settled()
        assert (len(came), crowd.waiting("many")) == (18, 13)  # sixteen of them, and one has left
        assert not crowd.is_shared
        for _, place in came[2:]:
            crowd.leave(place)
            await settled()
        await asyncio.gather(*tasks)

    run(scene())


def test_lines_are_served_in_turn() -> None:
    async def scene() -> None:
        crowd, came = Crowd(1, 1, NEVER), list[tuple[str, Place]]()
        tasks = [*await asked(crowd, "a", 4, came), *await asked(crowd, "b", 4, came)]
        assert [owner for owner, _ in came] == ["a", "b"]
        for _, place in came:
            crowd.leave(place)
            await settled()
        await asyncio.gather(*tasks)
        assert [owner for owner, _ in came] == ["a", "b"] * 4

    run(scene())


def test_what_rests_leaves_its_place_to_the_next_and_leaves_once() -> None:
    async def scene() -> None:
        crowd, came = Crowd(1, 1, NEVER), list[tuple[str, Place]]()
        tasks = await asked(crowd, "a", 3, came)
        crowd.rest(came[0][1])
        crowd.rest(came[0][1])
        await settled()
        assert len(came) == 2
        crowd.leave(came[0][1])
        crowd.leave(came[0][1])
        await settled()
        assert len(came) == 2
        crowd.leave(came[1][1])
        await asyncio.gather(*tasks)

    run(scene())


def test_what_was_there_for_long_keeps_nobody() -> None:
    async def scene() -> None:
        crowd, came = Crowd(1, 1, 0.001), list[tuple[str, Place]]()
        await asyncio.gather(*await asked(crowd, "a", 20, came))
        assert len(came) == 20
        for _, place in came:  # who was counted out is not counted out again
            crowd.leave(place)
        await asyncio.gather(*await asked(crowd, "a", 1, came))
        assert not crowd.waiting("a")

    run(scene())


def test_who_goes_away_from_the_line_keeps_nobody() -> None:
    async def scene() -> None:
        crowd, came = Crowd(1, 1, NEVER), list[tuple[str, Place]]()
        first, gone, at_its_turn, last = await asked(crowd, "a", 4, came)
        gone.cancel()
        await settled()
        crowd.leave(came[0][1])
        at_its_turn.cancel()
        await settled()
        assert len(came) == 2
        await asyncio.gather(first, last)
        assert crowd.waiting("a") == 0

    run(scene())


def test_more_go_on_while_one_wait_for_the_disk_lasts() -> None:
    async def scene() -> None:
        pauses = iter([0, 1, 2, 2])
        crowd, came = Crowd(2, 16, NEVER, pause=lambda: next(pauses, 0)), list[tuple[str, Place]]()
        tasks = await asked(crowd, "one", 1, came)
        tasks += await asked(crowd, "many", 30, came)
        seen = []
        while crowd.waiting("many") == 28:  # there are no pauses, then a short one
            seen.append(len(came))
            await asyncio.sleep(LOOK_SECONDS)
        assert set(seen) == {3}
        assert next(pauses, None) is None
        await asyncio.sleep(LOOK_SECONDS * 5)
        assert (len(came), crowd.waiting("many")) == (17, 14)  # sixteen of them, until they leave
        for _, place in came[1:15]:
            crowd.leave(place)
        await settled()
        assert len(came) == 17
        for _, place in came[15:]:
            crowd.leave(place)
        crowd.leave(came[0][1])
        for _, place in came[17:]:
            crowd.leave(place)
            await settled()
        await asyncio.gather(*tasks)

    run(scene())

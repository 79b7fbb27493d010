"""Turns: so many of one owner at once, in the order in which they came, and nobody waits for another owner's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from socialpub.base.turns import Turns


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 30))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Visitors:
    """Those who take turns; each stays until it is let go."""

    def __init__(self, at_once: int) -> None:
        self.turns, self.inside = Turns(at_once), list[str]()
        self._go: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, owner: str, *names: str) -> None:
        for name in names:
            self._go[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._stay(owner, name))
        await settled()

    async def _stay(self, owner: str, name: str) -> None:
        async with self.turns.of(owner):
            self.inside.append(name)
            await self._go[name].wait()

    async def leave(self, name: str) -> None:
        self._go[name].set()
        await self._tasks[name]
        await settled()

    async def give_up(self, name: str) -> None:
        self._tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[name]
        await settled()


def test_so_many_of_one_owner_go_on_and_the_next_as_they_leave() -> None:
    async def scene() -> None:
        here = Visitors(2)
        await here.come("a", "a1", "a2", "a3", "a4")
        await here.come("b", "b1")
        assert (here.inside, here.turns.waiting("a"), here.turns.waiting("b")) == (["a1", "a2", "b1"], 2, 0)
        await here.leave("a2")
        assert here.inside[3:] == ["a3"]
        for name in ("a1", "a3", "a4", "b1"):
            await here.leave(name)
        assert (here.inside[4:], here.turns.waiting("a"), here.turns._lines) == (["a4"], 0, {})

    run(scene())


def test_who_gives_up_takes_no_turn_and_keeps_none() -> None:
    async def scene() -> None:
        here = Visitors(1)
        await here.come("a", "a1", "a2", "a3")
        await here.give_up("a2")
        assert here.turns.waiting("a") == 1
        await here.give_up("a1")
        assert here.inside == ["a1", "a3"]
        await here.leave("a3")
        assert here.turns._lines == {}

    run(scene())


def test_a_place_that_is_handed_to_who_goes_at_that_moment_is_the_next_ones() -> None:
    async def scene() -> None:
        here = Visitors(1)
        await here.come("a", "a1", "a2", "a3")
        here._go["a1"].set()
        while here.turns.waiting("a") == 2:
            await asyncio.sleep(0)
        await here.give_up("a2")  # which has its place by now, and has not come to know of it
        assert here.inside == ["a1", "a3"]
        await here.leave("a3")
        assert here.turns._lines == {}

    run(scene())


def test_of_the_last_who_goes_as_the_place_is_handed_over_nothing_is_left() -> None:
    async def scene() -> None:
        here = Visitors(1)
        await here.come("a", "a1", "a2")
        here._go["a1"].set()
        while here.turns.waiting("a"):
            await asyncio.sleep(0)
        await here.give_up("a2")
        assert (here.inside, here.turns._lines) == (["a1"], {})

    run(scene())


def test_who_went_before_his_turn_is_passed_over() -> None:
    async def scene() -> None:
        here = Visitors(1)
        await here.come("a", "a1", "a2", "a3", "a4")
        here._tasks["a2"].cancel()
        here._tasks["a3"].cancel()
        await here.leave("a1")  # before either has come to know that it is to go
        assert (here.inside, here.turns.waiting("a")) == (["a1", "a4"], 0)
        await here.leave("a4")
        assert here.turns._lines == {}

    run(scene())


def test_nobody_never_waits() -> None:
    async def scene() -> None:
        here = Visitors(1)
        await here.come("", "one", "two", "three")
        assert here.inside == ["one", "two", "three"]
        for name in list(here.inside):
            await here.leave(name)

    run(scene())

"""Waiting requests: their places, their shares, and what wakes them."""

from __future__ import annotations

import asyncio

from socialpub.domain.context.waiting_requests import WaitingRequests

SECONDS = 30.0


class Shelf:
    """What is waited for, and how often it was looked at."""

    def __init__(self) -> None:
        self.full, self.looks = False, 0

    async def read(self) -> bool:
        self.looks += 1
        return self.full


def wait(places: WaitingRequests, shelf: Shelf, owner: str = "a", name: str = "x") -> asyncio.Task[bool]:
    return asyncio.create_task(places.wait_until(owner, name, shelf.read, bool, SECONDS))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_nothing_is_read_until_something_happens() -> None:
    async def run() -> None:
        places, shelf, other = WaitingRequests(), Shelf(), Shelf()
        waiting, elsewhere = wait(places, shelf), wait(places, other, name="y")
        await settle()
        places.notify("x")
        await settle()
        assert (shelf.looks, other.looks, places.count) == (2, 1, 2)
        shelf.full = True
        places.notify("x")
        assert await waiting is True
        places.close()
        assert await elsewhere is False
        assert (shelf.looks, other.looks, places.count) == (3, 2, 0)

    asyncio.run(run())


def test_what_happens_while_it_is_read_is_not_missed() -> None:
    async def run() -> None:
        places, shelf = WaitingRequests(), Shelf()

        async def read() -> bool:
            before = shelf.full
            if not before:
                shelf.full = True
                await asyncio.to_thread(places.notify, "x")
            return before

        assert await asyncio.wait_for(places.wait_until("a", "x", read, bool, SECONDS), 60) is True

    asyncio.run(run())


def test_the_more_wait_the_smaller_is_the_share_of_each() -> None:
    async def run() -> None:
        places, shelf = WaitingRequests(most=12, owner_most=8), Shelf()
        alone = [wait(places, shelf, "a") for _ in range(20)]
        await settle()
        assert (places.count, sum(task.done() for task in alone)) == (8, 12)
        others = [wait(places, shelf, "b") for _ in range(20)]
        await settle()
        assert places.count == 12, "another one finds places"
        assert not await wait(places, shelf, "c"), "without a place, the answer comes at once"
        shelf.full = True
        places.notify("x")
        await asyncio.gather(*alone, *others)
        assert places.count == 0

    asyncio.run(run())


def test_a_canceled_request_leaves_its_place() -> None:
    async def run() -> None:
        places, shelf = WaitingRequests(), Shelf()
        waiting = wait(places, shelf)
        await settle()
        waiting.cancel()
        await settle()
        assert (places.count, places._waiting) == (0, {})

    asyncio.run(run())

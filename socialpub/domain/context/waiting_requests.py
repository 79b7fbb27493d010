"""Requests that wait for something to happen: each costs a future, but no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
WAITERS_MAX = 4000
OWNER_WAITERS_MAX = 1500


class WaitingRequests:
    """Waiting requests by what they wait for, with a share for each organization.

    Used in the event loop, except for `notify` and `close`.
    """

    def __init__(self, most: int = WAITERS_MAX, owner_most: int = OWNER_WAITERS_MAX) -> None:
        self._most, self._owner_most = most, owner_most
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._counts: dict[str, int] = {}  # by owner
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False  # the server stops: no request waits any more

    @property
    def count(self) -> int:
        """Number of requests that occupy a place."""
        return sum(self._counts.values())

    async def wait_until(
        self,
        owner: str,
        name: str,
        read: Callable[[], Awaitable[T]],
        is_ready: Callable[[T], bool],
        seconds: float,
    ) -> T:
        """Repeat `read` as `wait_without_place`; without a free place for the owner, call it once."""
        if not self._has_place(owner):
            return await read()
        self._counts[owner] = self._counts.get(owner, 0) + 1
        try:
            return await self.wait_without_place(name, read, is_ready, seconds)
        finally:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]

    async def wait_without_place(
        self, name: str, read: Callable[[], Awaitable[T]], is_ready: Callable[[T], bool], seconds: float
    ) -> T:
        """Repeat `read` at each notification until it is ready; return what was read last.

        It ends after `seconds` at the latest, and when the server stops.
        """
        loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            happened: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(name, set()).add(happened)  # before reading, so that nothing is missed
            try:
                found = await read()
                left = deadline - loop.time()
                if is_ready(found) or left <= 0 or self.is_closed:
                    return found
                await asyncio.wait((happened,), timeout=left)
            finally:
                self._remove(name, happened)

    def _has_place(self, owner: str) -> bool:
        """Return whether the owner may wait: the more owners wait, the fewer requests of each."""
        own, owners = self._counts.get(owner, 0), len(self._counts.keys() | {owner})
        return self.count < self._most and own < min(self._owner_most, self._most // owners)

    def _remove(self, name: str, happened: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.discard(happened)
            if not waiting:
                del self._waiting[name]

    def notify(self, name: str) -> None:
        """Wake the requests that wait for `name`, from any thread, after the commit."""
        if self._loop is not None and name in self._waiting:
            self._loop.call_soon_threadsafe(self._wake, name)

    def notify_all(self) -> None:
        """Wake all requests, from any thread."""
        for name in list(self._waiting):
            self.notify(name)

    def _wake(self, name: str) -> None:
        for happened in self._waiting.pop(name, ()):
            happened.set_result(None)

    def close(self) -> None:
        """Release all requests, from any thread: the server stops."""
        self.is_closed = True
        self.notify_all()

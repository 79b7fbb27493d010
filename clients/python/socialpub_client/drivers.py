"""Drivers: they perform the engine's steps, with blocking calls or in an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from socialpub_client.messages import AsyncTransport, HashFile, Request, Sleep, Step, Steps, Transport, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


class SyncDriver:
    """Performs steps one after another in the calling thread."""

    def __init__(self, transport: Transport | None, sleep: Callable[[float], None] | None) -> None:
        if transport is None:
            from socialpub_client.http_transport import HttpTransport  # imports httpx: not needed to import this

            transport = HttpTransport()
        self.transport, self._sleep = transport, sleep or time.sleep

    def run(self, steps: Steps[T]) -> T:
        """Return what the steps return."""
        try:
            step = next(steps)
            while True:
                try:
                    result = self._perform(step)
                except (TransportError, OSError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned

    def _perform(self, step: Step) -> Any:
        match step:
            case Request():
                return self.transport.send(step)
            case Sleep():
                return self._sleep(step.seconds)
            case HashFile():
                return step.perform()


class AsyncDriver:
    """Performs steps one after another in the calling task."""

    def __init__(self, transport: AsyncTransport | None, sleep: Callable[[float], Awaitable[None]] | None) -> None:
        if transport is None:
            from socialpub_client.http_transport import AsyncHttpTransport  # imports httpx: not needed to import this

            transport = AsyncHttpTransport()
        self.transport, self._sleep = transport, sleep

    async def run(self, steps: Steps[T]) -> T:
        """Return what the steps return."""
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._perform(step)
                except (TransportError, OSError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned

    async def _perform(self, step: Step) -> Any:
        import asyncio  # takes a third of the time to import this package, and blocking callers do not need it

        match step:
            case Request():
                return await self.transport.send(step)
            case Sleep():
                return await (self._sleep or asyncio.sleep)(step.seconds)
            case HashFile():
                return await asyncio.to_thread(step.perform)

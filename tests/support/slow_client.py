"""HTTP client that sends its request one byte at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class DripResult:
    """What came back until the server hung up, and after how long it did."""

    answer: bytes
    seconds: float

    @property
    def status(self) -> int:
        return int(self.answer.split(b" ", 2)[1])


async def drip(
    port: int,
    head: bytes,
    byte: bytes,
    *,
    every: float,
    times: int = 100,
    begun: Callable[[], None] = lambda: None,
) -> DripResult:
    """Send `head`, and then a byte `every` so many seconds until the server hangs up, or (after `times`) we do."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began, answer = loop.time(), bytearray()
    writer.write(head)
    begun()
    try:
        while times:
            try:
                async with asyncio.timeout(every):
                    while piece := await reader.read(65536):
                        answer += piece
                break
            except TimeoutError:
                times -= 1
                writer.write(byte)
            except ConnectionError:  # it hung up before it had read all of ours
                break
        return DripResult(bytes(answer), loop.time() - began)
    finally:
        writer.close()

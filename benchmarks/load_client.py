"""Load client: a fixed number of posts over a fixed number of kept connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from benchmarks.processes import BenchError
from benchmarks.servers import BenchmarkAccounts


def post_all(port: int, people: BenchmarkAccounts, bodies: Iterable[dict[str, Any]], connections: int) -> float:
    """The seconds in which all of them were accepted; BenchError where one was not."""
    waiting = deque(_request(people, body) for body in bodies)
    count = len(waiting)
    began = time.monotonic()
    seen = asyncio.run(_all(port, waiting, connections))
    took = time.monotonic() - began
    if seen != {202: count}:
        raise BenchError(f"Of {count} posts not all were accepted: {dict(seen)}")
    return took


def _request(people: BenchmarkAccounts, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/posts HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {people.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _all(port: int, waiting: deque[bytes], connections: int) -> Counter[int]:
    seen: Counter[int] = Counter()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while waiting:
            writer.write(waiting.popleft())
            head = await reader.readuntil(b"\r\n\r\n")
            seen[int(head[9:12])] += 1
            await reader.readexactly(_length(head))
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return seen


def _length(head: bytes) -> int:
    lines = head.decode("latin-1").lower().splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))

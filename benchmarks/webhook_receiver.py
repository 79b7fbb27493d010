"""Webhook receiver of the benchmarks: `python -m benchmarks.webhook_receiver PORT`.

It answers 204, at once or, under /slow, after 100 ms. GET /count is how many calls it has answered since its start. It
parses nothing but where a request ends, so that it is not what is measured.
"""

from __future__ import annotations

import asyncio
import sys

SLOW_SECONDS = 0.1
TAKEN = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


class ReceiverProtocol(asyncio.Protocol):
    """One connection; its calls come one after another."""

    answered = 0

    def __init__(self) -> None:
        self._held = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport), "it is a socket"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = bytes(self._held[:end]).lower()
        size = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if len(self._held) < end + int(size or 0):
            return
        self._held.clear()
        self._answer(head)

    def _answer(self, head: bytes) -> None:
        if head.startswith(b"get "):
            told = str(ReceiverProtocol.answered).encode()
            self._write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
        elif head.startswith(b"post /slow"):
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._take)
        else:
            self._take()

    def _take(self) -> None:
        ReceiverProtocol.answered += 1
        self._write(TAKEN)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(ReceiverProtocol, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

"""How a body comes in: piece by piece, bounded in size, in time and in what is here at once; looked through on its way
where it is JSON."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sanic import Request
from sanic.http import Http

from socialpub.base.errors import ApiError, refuse
from socialpub.web.scan import INLINE, PLAIN_MAX, Scan
from socialpub.web.wire import Stream

T = TypeVar("T")
MIB = 1024 * 1024
INLINE_MAX = 48 * MIB
BODY_MAX = 8 * MIB  # of JSON, beside inline files
SMALL_MAX = 64 * 1024
LIGHT_MAX = PLAIN_MAX  # is looked through and parsed on the loop: a few milliseconds, whatever it holds
FORM_MAX = 16 * 1024
UNREAD_MAX = 64 * MIB
BODY_SECONDS = 15.0
SLOWEST = 32 * 1024  # bytes a second: what is sent faster gets the time it takes
BLOCK = 256 * 1024
BUSY_RETRY_SECONDS = 5
CODINGS_SHOWN = 40  # characters of a Content-Encoding in the refusal
_INLINE = INLINE.encode()


# --- Bytes on their way ------------------------------------------------------------------------------------------


class Budget:
    """Bytes of requests that are here at once, of all and of one organization. A request of few is not counted."""

    def __init__(self, most: int, share: int) -> None:
        self._most, self._share = most, share
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used.total()

    def take(self, whose: str, count: int) -> None:
        """ApiError `http.busy`, 503 or for a share that is used up 429."""
        with self._lock:
            if self._used[whose] + count > self._share:
                message = "Too many bytes of this organization's requests are on their way."
                raise ApiError("rate_limited", message, retry_after=BUSY_RETRY_SECONDS)
            if self.used + count > self._most:
                raise refuse("http.busy", retry_after=BUSY_RETRY_SECONDS)
            self._used[whose] += count

    def give(self, whose: str, count: int) -> None:
        with self._lock:
            self._used[whose] -= count
            if not self._used[whose]:
                del self._used[whose]


@dataclass
class Budgets:
    """What bodies may take up before their requests are answered: memory, and room on the disk."""

    memory: Budget = field(default_factory=lambda: Budget(64 * MIB, 16 * MIB))
    disk: Budget = field(default_factory=lambda: Budget(1024 * MIB, 256 * MIB))


@dataclass
class Arrived:
    """A JSON body that has come whole, with its files on the disk, until `close`."""

    scan: Scan
    whose: str
    budgets: Budgets
    print: Any  # a hash over the query and the body as it was sent; None where nobody asks for one
    memory: int = 0
    disk: int = 0

    @property
    def size(self) -> int:
        return len(self.scan.kept)

    def count(self) -> None:
        """Take from the budgets what has come since the last time."""
        kept, aside = len(self.scan.kept), self.scan.aside
        if kept + aside <= SMALL_MAX:
            return
        self.budgets.memory.take(self.whose, kept - self.memory)
        self.memory = kept
        self.budgets.disk.take(self.whose, aside - self.disk)
        self.disk = aside

    def close(self) -> None:
        """Drop the files that nobody kept."""
        self.scan.close()
        if self.memory or self.disk:
            self.budgets.memory.give(self.whose, self.memory)
            self.budgets.disk.give(self.whose, self.disk)
            self.memory = self.disk = 0


def at_hand(request: Request, most: int) -> bytes | None:
    """A light body that came whole with its head, taken, or one that there is not; None: it is to be read."""
    stream: object = request.stream
    if not isinstance(stream, Stream):
        return None
    return stream.body_at_hand(min(most, LIGHT_MAX)) if stream.request_body else b""


async def arrive(request: Request, most: int, arrived: Arrived, pool: Executor, whole: bytes | None = None) -> Arrived:
    """Take the whole body in, or `whole`, which was `at_hand`; what is more than light is looked through in `pool`.

    ApiError `http.body_size`, `http.timeout`, `http.busy`, and those of `Scan`.
    """
    if whole is not None:
        await _take(arrived, whole, len(whole), pool)
        return arrived
    size = 0
    async for block in _blocks(request, most):
        size += len(block)
        await _take(arrived, block, size, pool)
        if size - arrived.scan.aside > BODY_MAX:
            raise too_large(most)
    return arrived


async def _take(arrived: Arrived, block: bytes, size: int, pool: Executor) -> None:
    """Look through the next block, with which `size` bytes have come."""
    if arrived.print is not None:
        arrived.print.update(block)
    if size <= LIGHT_MAX and _INLINE not in block:
        if size > len(block) or not arrived.scan.take_plain(block):
            arrived.scan.feed(block)
    else:
        await aside(pool, arrived.scan.feed, block)
    arrived.count()


async def aside(pool: Executor, run: Callable[..., T], *arguments: Any) -> T:
    """The result of `run`, in a thread; who stops waiting does not leave it running behind his back."""
    work = asyncio.get_running_loop().run_in_executor(pool, run, *arguments)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def check_coding(request: Request) -> None:
    """ApiError `http.content_encoding` for a body that is packed; `identity`, which says nothing, is taken."""
    named = ",".join(request.headers.getall("content-encoding", []))
    codings = {coding.strip().lower() for coding in named.split(",")} - {"", "identity"}
    stream: Any = request.stream
    if codings and stream.request_body and request.headers.get("content-length") != "0":
        told = ascii(", ".join(sorted(codings)))[1:-1][:CODINGS_SHOWN]
        message = f"The body has the Content-Encoding {told}, and this server unpacks none."
        raise refuse("http.content_encoding", message, headers={"Accept-Encoding": "identity"})


# --- Reading -----------------------------------------------------------------------------------------------------


async def read_body(request: Request, most: int) -> bytes:
    """The whole body, at most `most` bytes; ApiError `http.body_size`, `http.timeout`."""
    return b"".join([piece async for piece in pieces(request, most)])


async def ignore_body(request: Request) -> None:
    """Let a body pass that no reader asked for, none of it kept; ApiError `http.body_size` for a large one."""
    async for _ in pieces(request, FORM_MAX):
        continue


async def _blocks(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body in pieces of some size, the first one small."""
    block, least = bytearray(), LIGHT_MAX
    async for piece in pieces(request, most):
        block += piece
        if len(block) >= least:
            yield bytes(block)
            block, least = bytearray(), BLOCK
    if block:
        yield bytes(block)


async def pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body as it comes; one that says that it is too large is not listened to."""
    if int(request.headers.get("content-length") or 0) > most:
        raise too_large(most)
    began, size, stream = asyncio.get_running_loop().time(), 0, request.stream
    while isinstance(stream, Http) and stream.request_body:
        piece = await _piece(request, stream, began + BODY_SECONDS + size / SLOWEST)
        size += len(piece)
        if size > most:
            raise too_large(most)
        yield piece


async def _piece(request: Request, stream: Http, ends: float) -> bytes:
    how: object = stream.request_body
    if how != "chunked" and len(stream.recv_buffer) >= (stream.request_bytes_left or 0):
        return await stream.read() or b""  # the rest is here: nobody waits for anything
    try:
        async with asyncio.timeout_at(ends):
            return await stream.read() or b""
    except TimeoutError:
        hang_up(request)
        raise refuse("http.timeout") from None


def too_large(most: int) -> ApiError:
    """ApiError `http.body_size`, which names what is taken."""
    taken = (
        f"{_size(most)}, of which {_size(BODY_MAX)} may be JSON beside `{INLINE}`" if most > BODY_MAX else _size(most)
    )
    return refuse("http.body_size", f"The body is larger than this address accepts: {taken}.")


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"


# --- Bodies that nobody reads --------------------------------------------------------------------------------------


def hang_up(request: Request) -> None:
    """Close the connection after the answer, and do not wait for the rest of the body."""
    if isinstance(request.stream, Http):
        request.stream.keep_alive = False
        request.stream.request_body = None


def bound_rest(request: Request) -> None:
    """Of a body that nobody will read, Sanic takes at most this much before it closes the connection."""
    if isinstance(request.stream, Http):
        request.stream.request_max_size = min(request.stream.request_max_size, UNREAD_MAX)

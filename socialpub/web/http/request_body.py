"""Request bodies: chunked reading within limits of size, time and memory; JSON parsing."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from sanic import Request
from sanic.http import Http

from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import idempotency
from socialpub.domain.media import inline_files
from socialpub.domain.media.files import IncomingFile
from socialpub.domain.schemas import bounded_json, validation
from socialpub.domain.schemas.drafts import DraftChange
from socialpub.domain.schemas.posts import BatchEditRequest, BatchRequest, PostEditRequest

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
MIB = 1024 * 1024
BODY_MAX = 16 * MIB  # of a publish request with inline files
SMALL_BODY_MAX = 64 * 1024
INLINE_PARSE_MAX = 8 * 1024  # up to this size, parsed on the event loop: a few milliseconds at worst
FORM_MAX = 16 * 1024
UNREAD_MAX = 64 * MIB
BODY_SECONDS = 15.0
MIN_BYTES_PER_SECOND = 32 * 1024  # a sender that is faster never times out
ENCODINGS_SHOWN_MAX = 40  # characters of a Content-Encoding in the error message


# --- Budgets -----------------------------------------------------------------------------------------------------


class ByteBudget:
    """A limit on the bytes of concurrent requests: in total, and for each organization."""

    def __init__(self, most: int, share: int) -> None:
        self._most, self._share = most, share
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used.total()

    def take(self, organization: str, count: int) -> None:
        """Reserve bytes.

        Raises ApiError `http.busy` (503), or `rate_limited` (429) for the organization's limit.
        """
        with self._lock:
            if self._used[organization] + count > self._share:
                message = "This organization has too many large requests in progress."
                raise ApiError("rate_limited", message, retry_after=BUSY_RETRY_SECONDS)
            if self.used + count > self._most:
                raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS)
            self._used[organization] += count

    def release(self, organization: str, count: int) -> None:
        if count:
            with self._lock:
                self._used[organization] -= count
                if not self._used[organization]:
                    del self._used[organization]


@dataclass
class BodyBudgets:
    """The memory and disk space that unanswered requests may use."""

    memory: ByteBudget = field(default_factory=lambda: ByteBudget(64 * MIB, 16 * MIB))
    disk: ByteBudget = field(default_factory=lambda: ByteBudget(1024 * MIB, 256 * MIB))


class JsonBody:
    """A JSON body and the files inside it, counted in the budgets until `close`.

    `files`: by the hash that replaces a file in the parsed request. `media_max`: the longest file in bytes.
    """

    def __init__(self, owner: str, budgets: BodyBudgets, pool: Executor, folder: Path, media_max: int) -> None:
        self.files: dict[str, IncomingFile] = {}
        self._owner, self._budgets, self._pool = owner, budgets, pool
        self._folder, self._media_max = folder, media_max
        self._memory = self._disk = 0

    async def read(self, request: Request, most: int) -> bytes:
        """Read the whole body. Raises ApiError `http.body_size`, `http.timeout`, `http.busy`."""
        parts, size, remedy = [], 0, None
        if most == BODY_MAX:
            file_max = _format_size(self._media_max)
            remedy = f"Upload larger files with POST /v1/media (up to {file_max} each), and refer to them by `mediaId`."
        async for piece in read_chunks(request, most, remedy):
            parts.append(piece)
            size += len(piece)
            if size > SMALL_BODY_MAX:
                self._budgets.memory.take(self._owner, size - self._memory)
                self._memory = size
        return b"".join(parts)

    async def fingerprint(self, query: str, body: bytes) -> str:
        """Return the hash of the query and the body as sent, which an Idempotency-Key is bound to."""
        hashed = idempotency.start_fingerprint(query)
        await self._run(len(body), hashed.update, body)
        return str(hashed.hexdigest())

    async def parse(self, model: type[M], body: bytes) -> M:
        """Return the request, its files written to disk.

        Raises as `validation.parse_body`, and `http.busy`.
        """
        parsed: M
        value, parsed = await self._run(len(body), _parse, model, body)
        holder = value.get("content", {}) if issubclass(model, DraftChange) else value
        if issubclass(model, _FILE_CARRIERS) and (carriers := inline_files.find_items(holder)):
            size = inline_files.max_size(carriers)
            self._budgets.disk.take(self._owner, size)
            self._disk = size
            await run_in_thread(self._pool, inline_files.extract, carriers, self._open_file, self.files)
            parsed = validation.parse_value(model, value)
        return parsed

    def release(self) -> None:
        """Release the body's memory budget: the bytes are no longer in memory."""
        self._budgets.memory.release(self._owner, self._memory)
        self._memory = 0

    def close(self) -> None:
        """Delete the files that were not stored, and release the budgets."""
        self.release()
        for arriving in self.files.values():
            arriving.close()
        self._budgets.disk.release(self._owner, self._disk)
        self._disk = 0

    def _open_file(self) -> IncomingFile:
        return IncomingFile(self._folder, self._media_max)

    async def _run(self, size: int, run: Callable[..., T], *arguments: Any) -> T:
        return run(*arguments) if size <= INLINE_PARSE_MAX else await run_in_thread(self._pool, run, *arguments)


_FILE_CARRIERS = (BatchRequest, PostEditRequest, BatchEditRequest, DraftChange)  # their media may be inline


def _parse(model: type[M], body: bytes) -> tuple[Any, M]:
    value = bounded_json.load(body)
    return value, validation.parse_value(model, value)


async def run_in_thread(pool: Executor, run: Callable[..., T], *arguments: Any) -> T:
    """Return the result of `run` in a thread.

    A cancelled caller waits until the thread has finished.
    """
    work = asyncio.get_running_loop().run_in_executor(pool, run, *arguments)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def check_content_encoding(request: Request) -> None:
    """Raise `http.content_encoding` for a compressed body. `identity` is accepted."""
    named = ",".join(request.headers.getall("content-encoding", []))
    codings = {coding.strip().lower() for coding in named.split(",")} - {"", "identity"}
    stream: Any = request.stream
    if codings and stream.request_body and request.headers.get("content-length") != "0":
        codings_text = ascii(", ".join(sorted(codings)))[1:-1][:ENCODINGS_SHOWN_MAX]
        message = f"The body has the Content-Encoding {codings_text}, but this server decompresses no bodies."
        raise rule_error("http.content_encoding", message, headers={"Accept-Encoding": "identity"})


# --- Reading -----------------------------------------------------------------------------------------------------


async def read_body(request: Request, most: int) -> bytes:
    """Return the whole body.

    Raises ApiError `http.body_size` above `most` bytes, `http.timeout`.
    """
    return b"".join([piece async for piece in read_chunks(request, most)])


async def read_start(request: Request, least: int) -> bytes:
    """Return the first bytes of the body, at least so many, or all of it; the rest is not read."""
    start = bytearray()
    async for piece in read_chunks(request, sys.maxsize):
        start += piece
        if len(start) >= least:
            break
    return bytes(start)


async def discard_body(request: Request) -> None:
    """Read and drop a body that the route does not use. Raises `http.body_size` if it is large."""
    async for _ in read_chunks(request, FORM_MAX):
        continue


async def read_chunks(request: Request, most: int, remedy: str | None = None) -> AsyncIterator[bytes]:
    """Yield the body in chunks. A declared size above `most` is refused without reading.

    `remedy`: the error's remediation.
    """
    if int(request.headers.get("content-length") or 0) > most:
        raise make_size_error(most, remedy)
    began, size, stream = asyncio.get_running_loop().time(), 0, request.stream
    while isinstance(stream, Http) and stream.request_body:
        piece = await _read_chunk(request, stream, began + BODY_SECONDS + size / MIN_BYTES_PER_SECOND)
        size += len(piece)
        if size > most:
            raise make_size_error(most, remedy)
        yield piece


async def _read_chunk(request: Request, stream: Http, ends: float) -> bytes:
    framing: object = stream.request_body
    if framing != "chunked" and len(stream.recv_buffer) >= (stream.request_bytes_left or 0):
        return await stream.read() or b""  # already received: no timeout is needed
    try:
        async with asyncio.timeout_at(ends):
            return await stream.read() or b""
    except TimeoutError:
        close_after_response(request)
        raise rule_error("http.timeout") from None


def make_size_error(most: int, remedy: str | None = None) -> ApiError:
    """Return ApiError `http.body_size`, with the limit in its message."""
    message = f"The body is larger than this address accepts: {_format_size(most)}."
    return rule_error("http.body_size", message, remediation=remedy)


def _format_size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"


# --- Unread bodies -------------------------------------------------------------------------------------------------


def close_after_response(request: Request) -> None:
    """Close the connection after the response, without reading the rest of the body."""
    if isinstance(request.stream, Http):
        request.stream.keep_alive = False
        request.stream.request_body = None


def limit_unread_body(request: Request) -> None:
    """Limit how much of an unread body Sanic reads before it closes the connection."""
    if isinstance(request.stream, Http):
        request.stream.request_max_size = min(request.stream.request_max_size, UNREAD_MAX)

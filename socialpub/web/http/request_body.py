"""How a body comes in: piece by piece, bounded in size, in time and in what is here at once; how JSON is parsed."""

from __future__ import annotations

import asyncio
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

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import idempotency
from socialpub.domain.media import inline_files
from socialpub.domain.media.files import IncomingFile
from socialpub.domain.schemas import bounded_json, validation
from socialpub.domain.schemas.posts import PublishRequest

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
MIB = 1024 * 1024
BODY_MAX = 16 * MIB  # of a publish request, with the files that it carries
SMALL_BODY_MAX = 64 * 1024
INLINE_PARSE_MAX = 8 * 1024  # is parsed on the loop: a few milliseconds, whatever it holds
FORM_MAX = 16 * 1024
UNREAD_MAX = 64 * MIB
BODY_SECONDS = 15.0
MIN_BYTES_PER_SECOND = 32 * 1024  # bytes a second: what is sent faster gets the time it takes
BUSY_RETRY_SECONDS = 5
ENCODINGS_SHOWN_MAX = 40  # characters of a Content-Encoding in the refusal


# --- Bytes on their way ------------------------------------------------------------------------------------------


class ByteBudget:
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
                raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS)
            self._used[whose] += count

    def give(self, whose: str, count: int) -> None:
        if count:
            with self._lock:
                self._used[whose] -= count
                if not self._used[whose]:
                    del self._used[whose]


@dataclass
class BodyBudgets:
    """What bodies may take up before their requests are answered: memory, and room on the disk."""

    memory: ByteBudget = field(default_factory=lambda: ByteBudget(64 * MIB, 16 * MIB))
    disk: ByteBudget = field(default_factory=lambda: ByteBudget(1024 * MIB, 256 * MIB))


class JsonBody:
    """The JSON body of a request, counted in budgets, and the files that it carries, until `close`.

    `files`: by the hash that stands in the request in the place of their text. `media_max`: the bytes of one.
    """

    def __init__(self, owner: str, budgets: BodyBudgets, pool: Executor, folder: Path, media_max: int) -> None:
        self.files: dict[str, IncomingFile] = {}
        self._owner, self._budgets, self._pool = owner, budgets, pool
        self._folder, self._media_max = folder, media_max
        self._memory = self._disk = 0

    async def read(self, request: Request, most: int) -> bytes:
        """Read the whole body; ApiError `http.body_size`, `http.timeout`, `http.busy`."""
        parts, size, remedy = [], 0, None
        if most == BODY_MAX:
            most_of_file = _format_size(self._media_max)
            remedy = f"Upload larger files with POST /v1/media (up to {most_of_file} each), and name them by `mediaId`."
        async for piece in read_chunks(request, most, remedy):
            parts.append(piece)
            size += len(piece)
            if size > SMALL_BODY_MAX:
                self._budgets.memory.take(self._owner, size - self._memory)
                self._memory = size
        return b"".join(parts)

    async def fingerprint(self, query: str, body: bytes) -> str:
        """Return the hash of what a key of this request is sent for: its query and its body, as they were sent."""
        hashed = idempotency.start_fingerprint(query)
        await self._run(len(body), hashed.update, body)
        return str(hashed.hexdigest())

    async def parse(self, model: type[M], body: bytes) -> M:
        """Return the request, its files written to the disk; ApiError as of `validation.parse_body`, `http.busy`."""
        parsed: M
        value, parsed = await self._run(len(body), _parse, model, body)
        if issubclass(model, PublishRequest) and (carriers := inline_files.find_items(value)):
            size = inline_files.max_size(carriers)
            self._budgets.disk.take(self._owner, size)
            self._disk = size
            await run_in_thread(self._pool, inline_files.extract, carriers, self._open_file, self.files)
            parsed = validation.parse_value(model, value)
        return parsed

    def forget(self) -> None:
        """Count its bytes no longer: they are not held any more."""
        self._budgets.memory.give(self._owner, self._memory)
        self._memory = 0

    def close(self) -> None:
        """Drop the files that were not kept."""
        self.forget()
        for arriving in self.files.values():
            arriving.close()
        self._budgets.disk.give(self._owner, self._disk)
        self._disk = 0

    def _open_file(self) -> IncomingFile:
        return IncomingFile(self._folder, self._media_max)

    async def _run(self, size: int, run: Callable[..., T], *arguments: Any) -> T:
        return run(*arguments) if size <= INLINE_PARSE_MAX else await run_in_thread(self._pool, run, *arguments)


def _parse(model: type[M], body: bytes) -> tuple[Any, M]:
    value = bounded_json.load(body)
    return value, validation.parse_value(model, value)


async def run_in_thread(pool: Executor, run: Callable[..., T], *arguments: Any) -> T:
    """The result of `run`, in a thread; who stops waiting does not leave it running behind his back."""
    work = asyncio.get_running_loop().run_in_executor(pool, run, *arguments)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def check_content_encoding(request: Request) -> None:
    """ApiError `http.content_encoding` for a body that is packed; `identity`, which says nothing, is taken."""
    named = ",".join(request.headers.getall("content-encoding", []))
    codings = {coding.strip().lower() for coding in named.split(",")} - {"", "identity"}
    stream: Any = request.stream
    if codings and stream.request_body and request.headers.get("content-length") != "0":
        told = ascii(", ".join(sorted(codings)))[1:-1][:ENCODINGS_SHOWN_MAX]
        message = f"The body has the Content-Encoding {told}, and this server unpacks none."
        raise rule_error("http.content_encoding", message, headers={"Accept-Encoding": "identity"})


# --- Reading -----------------------------------------------------------------------------------------------------


async def read_body(request: Request, most: int) -> bytes:
    """The whole body, at most `most` bytes; ApiError `http.body_size`, `http.timeout`."""
    return b"".join([piece async for piece in read_chunks(request, most)])


async def discard_body(request: Request) -> None:
    """Let a body pass that no reader asked for, none of it kept; ApiError `http.body_size` for a large one."""
    async for _ in read_chunks(request, FORM_MAX):
        continue


async def read_chunks(request: Request, most: int, remedy: str | None = None) -> AsyncIterator[bytes]:
    """The body as it comes; one that says that it is too large is not listened to. `remedy`: what is told then."""
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
    how: object = stream.request_body
    if how != "chunked" and len(stream.recv_buffer) >= (stream.request_bytes_left or 0):
        return await stream.read() or b""  # the rest is here: nobody waits for anything
    try:
        async with asyncio.timeout_at(ends):
            return await stream.read() or b""
    except TimeoutError:
        close_after_response(request)
        raise rule_error("http.timeout") from None


def make_size_error(most: int, remedy: str | None = None) -> ApiError:
    """ApiError `http.body_size`, which names what is taken."""
    message = f"The body is larger than this address accepts: {_format_size(most)}."
    return rule_error("http.body_size", message, remediation=remedy)


def _format_size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"


# --- Bodies that nobody reads --------------------------------------------------------------------------------------


def close_after_response(request: Request) -> None:
    """Close the connection after the answer, and do not wait for the rest of the body."""
    if isinstance(request.stream, Http):
        request.stream.keep_alive = False
        request.stream.request_body = None


def limit_unread_body(request: Request) -> None:
    """Of a body that nobody will read, Sanic takes at most this much before it closes the connection."""
    if isinstance(request.stream, Http):
        request.stream.request_max_size = min(request.stream.request_max_size, UNREAD_MAX)

"""Files as answers: sent in pieces from the disk, whole or in part (RFC 9110, section 14)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanic.http import Http, Stage

from socialpub.web.http.sanic_overrides import ServerResponse

CHUNK_BYTES = 256 * 1024
_DIGITS = re.compile(r"[0-9]{0,18}")


@dataclass(frozen=True)
class ByteRange:
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class FileRangeBody:
    """The body of an answer: a span of a file."""

    path: Path
    span: ByteRange

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read the span; OSError where the file ends before it."""
        with self.path.open("rb") as file:
            at = self.span.start
            while at < self.span.end:
                piece = await asyncio.to_thread(os.pread, file.fileno(), min(CHUNK_BYTES, self.span.end - at), at)
                if not piece:
                    raise OSError(f"{self.path.name} is shorter than its record says")
                yield piece
                at += len(piece)

    def response(self, status: int, headers: Mapping[str, str], content_type: str) -> ServerResponse:
        """Return the response that sends it, piece by piece."""
        return _FileResponse(self, status, headers, content_type)


class _FileResponse(ServerResponse):
    """A response whose body is read from the disk while it is sent; HEAD gets none of it."""

    __slots__ = ("_part",)

    def __init__(self, part: FileRangeBody, status: int, headers: Mapping[str, str], content_type: str) -> None:
        super().__init__(b"", status, {**headers, "Content-Length": str(part.span.length)}, content_type)
        self._part = part

    async def send(self, data: Any = None, end_stream: bool | None = None) -> None:
        """Send the file, then the end of the response. Sanic calls it once, and again after an error in the midst."""
        stream = self.stream
        if isinstance(stream, Http) and stream.stage is Stage.HANDLER and not stream.head_only:
            async for piece in self._part.pieces():
                await super().send(piece, False)
        await super().send(data, end_stream)


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """The part of `size` bytes that a Range header asks for, an empty one when it lies beyond the end.

    None, which stands for the whole: without the header, for several parts, for other units, for what cannot be read.
    """
    unit, _, asked = (header or "").partition("=")
    first, dash, last = (part.strip() for part in asked.partition("-"))
    if unit != "bytes" or not dash or not (first or last) or not all(map(_DIGITS.fullmatch, (first, last))):
        return None
    if not first:  # the last N bytes
        return ByteRange(max(0, size - int(last)), size)
    start = int(first)
    if last and int(last) < start:
        return None
    return ByteRange(min(start, size), min(size, int(last) + 1) if last else size)


def has_matching_tag(header: str, tag: str) -> bool:
    """Whether an If-None-Match header names the tag, weakly compared."""
    return any(part.strip().removeprefix("W/") in ("*", tag) for part in header.split(","))

"""File responses: streamed from disk, whole or one byte range (RFC 9110, section 14)."""

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
    """A response body: one byte range of a file."""

    path: Path
    span: ByteRange

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the range in chunks. Raises OSError if the file is shorter."""
        with self.path.open("rb") as file:
            at = self.span.start
            while at < self.span.end:
                piece = await asyncio.to_thread(os.pread, file.fileno(), min(CHUNK_BYTES, self.span.end - at), at)
                if not piece:
                    raise OSError(f"The file {self.path.name} is shorter than its database row says")
                yield piece
                at += len(piece)


class FileResponse(ServerResponse):
    """A response whose body is read from disk while it is sent. HEAD sends no body."""

    __slots__ = ("_part",)

    def __init__(self, part: FileRangeBody, status: int, headers: Mapping[str, str], content_type: str) -> None:
        super().__init__(b"", status, {**headers, "Content-Length": str(part.span.length)}, content_type)
        self._part = part

    async def send(self, data: Any = None, end_stream: bool | None = None) -> None:
        """Send the file, then the end of the response.

        Sanic calls it once, and again after an error during sending.
        """
        stream = self.stream
        if isinstance(stream, Http) and stream.stage is Stage.HANDLER and not stream.head_only:
            async for piece in self._part.pieces():
                await super().send(piece, False)
        await super().send(data, end_stream)


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the range of a file of `size` bytes that a Range header selects.

    It is empty if it starts beyond the end. None, which means the whole file, without the header, for several ranges,
    other units, and invalid headers.
    """
    unit, _, value = (header or "").partition("=")
    first, dash, last = (part.strip() for part in value.partition("-"))
    if unit != "bytes" or not dash or not (first or last) or not all(map(_DIGITS.fullmatch, (first, last))):
        return None
    if not first:  # `-N`: the last N bytes
        return ByteRange(max(0, size - int(last)), size)
    start = int(first)
    if last and int(last) < start:
        return None
    return ByteRange(min(start, size), min(size, int(last) + 1) if last else size)


def has_matching_tag(header: str, tag: str) -> bool:
    """Return whether an If-None-Match header names the tag (weak comparison)."""
    return any(part.strip().removeprefix("W/") in ("*", tag) for part in header.split(","))

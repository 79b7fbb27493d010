"""Files as answers: sent in pieces from the disk, whole or in part (RFC 9110, section 14)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sanic.response import HTTPResponse, ResponseStream

PIECE = 256 * 1024
_DIGITS = re.compile(r"[0-9]{0,18}")


@dataclass(frozen=True)
class Span:
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class FilePart:
    """The body of an answer: a span of a file."""

    path: Path
    span: Span

    def response(self, status: int, headers: Mapping[str, str], content_type: str) -> HTTPResponse:
        """The answer that sends it, piece by piece; HEAD gets none of them."""
        sized = dict(headers) | {"Content-Length": str(self.span.length)}
        # Sanic takes one from a handler, though its annotations do not say so.
        return cast(HTTPResponse, ResponseStream(self._send, status, sized, content_type))

    async def _send(self, stream: Any) -> None:
        if stream.request.method == "HEAD":
            return
        with self.path.open("rb") as file:
            at = self.span.start
            while at < self.span.end:
                piece = await asyncio.to_thread(os.pread, file.fileno(), min(PIECE, self.span.end - at), at)
                if not piece:
                    raise OSError(f"{self.path.name} is shorter than its record says")
                await stream.write(piece)
                at += len(piece)


def asked_span(header: str | None, size: int) -> Span | None:
    """The part of `size` bytes that a Range header asks for, an empty one when it lies beyond the end.

    None, which stands for the whole: without the header, for several parts, for other units, for what cannot be read.
    """
    unit, _, asked = (header or "").partition("=")
    first, dash, last = (part.strip() for part in asked.partition("-"))
    if unit != "bytes" or not dash or not (first or last) or not all(map(_DIGITS.fullmatch, (first, last))):
        return None
    if not first:  # the last N bytes
        return Span(max(0, size - int(last)), size)
    start = int(first)
    if last and int(last) < start:
        return None
    return Span(min(start, size), min(size, int(last) + 1) if last else size)


def names_tag(header: str, tag: str) -> bool:
    """Whether an If-None-Match header names the tag, weakly compared."""
    return any(part.strip().removeprefix("W/") in ("*", tag) for part in header.split(","))

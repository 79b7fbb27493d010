"""Responses of upstreams: httpx's, with limits and without errors from unreadable bodies."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import httpx

from socialpub.base import json_codec
from socialpub.base.http import retry_after
from socialpub.base.http.network import CHUNK_BYTES

BODY_MAX = 1024 * 1024


class UnreadReason(StrEnum):
    """Why the body of a response is missing or incomplete, as the end of a sentence about it."""

    LATE = "did not arrive in time"
    BROKEN = "was cut short or malformed"
    UNDECODABLE = "could not be decoded"
    TOO_LARGE = "is too large"


class UpstreamResponse(httpx.Response):
    """A response with complete status and headers, whose body may be incomplete.

    Reading the body never fails: `unread` says why it is missing or incomplete, and `content` is then the part that was
    read (of an unknown encoding the raw bytes). `received_ms` is when the response arrived, by the wall clock.
    """

    def __init__(
        self,
        status_code: int,
        headers: Any = None,
        content: Any = None,
        *,
        unread: UnreadReason | None = None,
        received_ms: int | None = None,
        **more: Any,
    ) -> None:
        self.body, self.unread, self.received_ms = b"", unread, received_ms
        super().__init__(status_code, headers=headers, content=content, **more)

    @property
    def has_redirect_location(self) -> bool:
        """Always False: httpx would build the next request, and raise if the Location is no URL."""
        return False

    @property
    def redirect(self) -> str | None:
        """The Location of a redirect, as received; None for other responses."""
        return self.headers.get("location") if self.status_code in (301, 302, 303, 307, 308) else None

    @property
    def content(self) -> bytes:
        return self.body

    def read(self) -> bytes:
        """Read and return the decoded body, at most `max_bytes` (a request extension) of it."""
        if not self.is_closed:
            body = bytearray()
            self.write_to(body.extend, self.extensions.get("max_bytes", BODY_MAX))
            self.body = bytes(body)
        return self.body

    def write_to(self, write: Callable[[bytes], object], max_bytes: int) -> None:
        """Pass at most `max_bytes` of the decoded body to `write`, then close.

        Set `unread` if that is not the whole body.
        """
        left = max_bytes
        try:
            for piece in self._decoded():
                write(piece[:left])
                left -= len(piece)
                if left < 0:
                    self.unread = UnreadReason.TOO_LARGE
                    return
        except httpx.TimeoutException:
            self.unread = UnreadReason.LATE
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            self.unread = UnreadReason.BROKEN
        except _UndecodableError:
            self.unread = UnreadReason.UNDECODABLE
        finally:
            self.close()

    def announces_more(self, max_bytes: int) -> bool:
        """Return whether the Content-Length exceeds `max_bytes`."""
        announced = self.headers.get("content-length", "")
        return announced.isascii() and announced.isdigit() and len(announced) < 19 and int(announced) > max_bytes

    def _decoded(self) -> Iterator[bytes]:
        """Return the decoded body in small pieces; of an unknown encoding the raw bytes.

        httpx's own decoders decompress 64 KiB at once, which may become 64 MiB.
        """
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return self.iter_raw()
        return (_inflate if encoding in ("gzip", "x-gzip", "deflate") else _pass_undecoded)(self.iter_raw())

    # --- Accessors ---

    @property
    def lacks_record(self) -> bool:
        """True if the body is incomplete and what was read is no JSON object."""
        return self.unread is not None and not self.record()

    def with_content(self, content: bytes) -> UpstreamResponse:
        """Return a copy with another body."""
        copied = copy.copy(self)
        copied.body = content
        return copied

    def json(self, **_: Any) -> Any:
        """Return the parsed body; None if it is not JSON (proxies answer in HTML)."""
        try:
            return json_codec.loads(self.content)
        except ValueError:
            return None

    def record(self) -> dict[str, Any]:
        """Return the JSON object in the body, or an empty one."""
        value = self.json()
        return value if isinstance(value, dict) else {}

    def shown(self) -> Any:
        """Return the parsed body, or the beginning of one that is not JSON, as text."""
        value = self.json()
        return self.content[:2048].decode("utf-8", "replace") if value is None else value

    @property
    def retry_after(self) -> int | None:
        """Whole seconds from now in the Retry-After header; None if absent or malformed."""
        return retry_after.parse_seconds(self.headers.get("retry-after", ""), self.server_ms)

    @property
    def server_ms(self) -> int | None:
        """When the upstream responded, by its own clock (`Date`) or else ours; None if unknown."""
        dated = retry_after.parse_date_ms(self.headers.get("date", ""))
        return self.received_ms if dated is None else dated


def _pass_undecoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield every piece unchanged; raise _UndecodableError after the last, if there was one."""
    empty = True
    for piece in pieces:
        empty = False
        yield piece
    if not empty:
        raise _UndecodableError


def _inflate(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the decompressed body in pieces of at most CHUNK_BYTES.

    An empty body is accepted, although gzip would have a header.
    """
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # takes gzip's header and zlib's
    empty = True
    for piece in packed:
        while piece and not inflater.eof:
            empty = False
            try:
                yield inflater.decompress(piece, CHUNK_BYTES)
            except zlib.error as error:
                raise _UndecodableError from error
            piece = inflater.unconsumed_tail
    if not (inflater.eof or empty):
        raise _UndecodableError


class _UndecodableError(Exception):
    """A body that contradicts its Content-Encoding, or has an unknown one."""

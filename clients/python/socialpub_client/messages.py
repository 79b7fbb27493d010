"""Requests, responses, waits: steps of the engine, and the transports that perform them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, TypeVar, cast

from socialpub_client.errors import InvalidArgument

PIECE_BYTES = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True)
class Timeout:
    """Seconds to wait.

    For a connection, for the server to take data, for its answer to begin, and for the rest of it.
    """

    connect: float = 5
    write: float = 30
    read: float = 70


DEFAULT_TIMEOUT = Timeout()


@dataclass(frozen=True)
class Request:
    """HTTP request. Its headers hold the key, so they are not shown."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | FileUpload = field(default=b"", repr=False)
    timeout: Timeout = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class Response:
    """HTTP response; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class TransportError(Exception):
    """No response. `sent`: whether the server may have received the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Transport(Protocol):
    """Sends requests for `Socialpub`, from any thread; follows no redirect."""

    def send(self, request: Request) -> Response:
        """Return the response. Raises TransportError without one."""
        ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Sends requests for `AsyncSocialpub`; follows no redirect."""

    async def send(self, request: Request) -> Response:
        """Return the response. Raises TransportError without one."""
        ...

    async def close(self) -> None: ...


# --- Steps of the engine -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sleep:
    """Wait for a time."""

    seconds: float


@dataclass(frozen=True)
class HashFile:
    """Read a file and compute its SHA-256."""

    path: Path

    def perform(self) -> str:
        """Return the hash in hexadecimal."""
        import hashlib

        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


Step: TypeAlias = Request | Sleep | HashFile
Steps: TypeAlias = Generator[Step, Any, T]
"""Work without I/O: yields what to do, is sent what came of it, returns the result."""


# --- Uploads -------------------------------------------------------------------------------------------------------

Source: TypeAlias = str | os.PathLike[str] | bytes | BinaryIO | Iterator[bytes]
Progress: TypeAlias = Callable[[int, int | None], None]


class FileUpload:
    """Multipart body with one file, read in pieces of 1 MiB, by each try from its beginning.

    `source`: a path, bytes, an open file or an iterator of pieces. An iterator, and a file that cannot seek, is sent
    once. `length`: the bytes of the body; None where they are not known before it is sent.
    """

    def __init__(self, source: Source, name: str, boundary: str, progress: Progress | None = None) -> None:
        self._source, self._progress, self.name = source, progress, name
        quoted = name.replace("\\", "_").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode(errors="replace")  # a name on the disk may be no Unicode
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self._start = 0
        self._size = self._measure()
        self.length = None if self._size is None else len(self._head) + self._size + len(self._tail)

    @property
    def can_repeat(self) -> bool:
        """Return whether `pieces` may be called again."""
        return self._size is not None

    def _measure(self) -> int | None:
        """Return the size of the source; None where it cannot be read twice."""
        source = self._source
        if isinstance(source, bytes):
            return len(source)
        if isinstance(source, str | os.PathLike):
            return os.stat(source).st_size
        file = _as_file(source)
        if file is None or not file.seekable():
            return None
        self._start = file.tell()
        size = file.seek(0, os.SEEK_END) - self._start
        file.seek(self._start)
        return size

    def pieces(self) -> Iterator[bytes]:
        """Yield the multipart body from its beginning, and report the file's bytes that were taken."""
        yield self._head
        sent = 0
        for piece in self._file_pieces():
            yield piece
            sent += len(piece)
            if self._progress is not None:
                self._progress(sent, self._size)
        yield self._tail

    def _file_pieces(self) -> Iterator[bytes]:
        source = self._source
        if isinstance(source, bytes):
            for at in range(0, len(source), PIECE_BYTES):
                yield source[at : at + PIECE_BYTES]
        elif isinstance(source, str | os.PathLike):
            with open(source, "rb") as file:
                yield from self._read_pieces(file)
        elif (opened := _as_file(source)) is not None:
            if self.can_repeat:
                opened.seek(self._start)
            yield from self._read_pieces(opened)
        else:
            yield from source

    def _read_pieces(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the file's pieces. Raises InvalidArgument if they are not of the announced size."""
        read = 0
        while piece := file.read(PIECE_BYTES):
            read += len(piece)
            if self._size is not None and read > self._size:
                break
            yield piece
        if self._size is not None and read != self._size:
            raise InvalidArgument(f"{self.name} changed while it was sent. Send it again.")


def _as_file(source: BinaryIO | Iterator[bytes]) -> BinaryIO | None:
    return cast(BinaryIO, source) if hasattr(source, "read") else None

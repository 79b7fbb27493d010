"""HTTP/1.1 over one connection: a request is written, its answer is read, and where that ends is never guessed.

h11 with httpcore does the same, and takes half a millisecond of the processor for each call, more than everything else
that sends a post. What goes out is checked to be one request; what comes back must be one answer, or it is an error of
httpcore's, as those of the sockets are.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import httpcore

from socialpub.base.sockets import CHUNK

HEAD_MAX = 100 * 1024  # bytes of an answer before its body, and of what follows the last chunk of one
_LINE_MAX = 4 * 1024  # bytes that say how long a chunk is
_PORTS = {"http": 80, "https": 443}

_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_REQUEST = re.compile(rb"%b [\x21-\x7e]+ HTTP/1\.1\r\n(?:%b: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)+\r\n" % (_TOKEN, _TOKEN))
_BLANK = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")  # a header that goes on in the next line, as it was once written
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\x00\r]*)?")
_HEADER = re.compile(rb"(%b):([^\x00\r]*)" % _TOKEN)  # the space around the value is stripped: linear in its length
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00\r]*)?")


class Origin(NamedTuple):
    """Who is connected to."""

    scheme: str
    host: str
    port: int


def origin(scheme: str, host: str, port: int | None) -> Origin:
    """Port None is the usual one; UnsupportedProtocol for another scheme than http and https."""
    if scheme not in _PORTS:
        raise httpcore.UnsupportedProtocol(f"{scheme} is not called")
    return Origin(scheme, host, port or _PORTS[scheme])


class Request(NamedTuple):
    """`head`: up to the empty line and with it. `length`: of the content; None where that goes out in chunks."""

    origin: Origin
    method: str
    head: bytes
    content: Iterable[bytes]
    length: int | None


def head_of(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request; LocalProtocolError where it would not be one, or more than one."""
    lines = [f"{name}: {value}\r\n" for name, value in headers]
    head = f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("ascii")
    if _REQUEST.fullmatch(head) is None or head.count(b"\n") != len(lines) + 2:
        raise httpcore.LocalProtocolError("the request cannot be written down")
    return head


class Connection:
    """A connection for one call at a time. `is_idle`: nothing of an answer is left on it, and it may be used again."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self.stream, self.is_idle = stream, True
        self._came, self._at = b"", 0  # what came, and how far it has been read

    def ask(self, request: Request) -> Answer:
        """Send a request; the beginning of its answer. The connection is to be closed after any error."""
        self.is_idle = False
        # The other side may have said why before it hung up: what it wrote is read.
        with contextlib.suppress(httpcore.WriteError):
            self._write(request)
        while True:
            version, status, headers = _parsed(self._until(_BLANK, HEAD_MAX))
            if status == 101:
                raise httpcore.RemoteProtocolError("another protocol was not asked for")
            if status >= 200:  # else the answer is still to come
                return Answer(self, request.method, version, status, headers)

    def close(self) -> None:
        self.is_idle = False
        self.stream.close()

    def _write(self, request: Request) -> None:
        self.stream.write(request.head)
        if request.length is None:
            for piece in filter(None, request.content):
                self.stream.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.stream.write(b"0\r\n\r\n")
            return
        left = request.length
        for piece in request.content:
            left -= len(piece)
            if left >= 0:
                self.stream.write(piece)
        if left:
            raise httpcore.LocalProtocolError("the content is not as long as was said")

    # --- Reading ---

    def _until(self, end: re.Pattern[bytes], most: int) -> bytes:
        """What stands before an end, which is at most so far away."""
        found = end.search(self._came, self._at)
        if found is None:
            came = bytearray(self._came[self._at :])  # grows in place, however small the pieces are
            while found is None:
                if len(came) > most:
                    raise httpcore.RemoteProtocolError("the answer has a head or a line without an end")
                looked = max(0, len(came) - 3)
                came += self._more()
                found = end.search(came, looked)
            self._came, self._at = bytes(came), 0
        before = self._came[self._at : found.start()]
        self._at = found.end()
        return before

    def _more(self) -> bytes:
        """What comes next; RemoteProtocolError where nothing does, for the other side has hung up."""
        if not (piece := self.stream.read(CHUNK)):
            raise httpcore.RemoteProtocolError("the answer is missing, or cut short")
        return piece

    def counted(self, left: int) -> Iterator[bytes]:
        """So many bytes."""
        while left:
            if self._at == len(self._came):
                self._came, self._at = self._more(), 0
            piece = self._came[self._at : self._at + left]
            self._at += len(piece)
            left -= len(piece)
            yield piece

    def chunked(self) -> Iterator[bytes]:
        """What comes in chunks; lines that follow the last one are passed over."""
        while size := self._chunk_size():
            yield from self.counted(size)
            if self._until(_LINE, 2):
                raise httpcore.RemoteProtocolError("a chunk of the answer is longer than was said")
        left = HEAD_MAX
        while line := self._until(_LINE, left):
            left -= len(line)

    def _chunk_size(self) -> int:
        found = _CHUNK.fullmatch(self._until(_LINE, _LINE_MAX))
        if found is None:
            raise httpcore.RemoteProtocolError("a chunk of the answer has no length")
        return int(found[1], 16)

    def to_the_end(self) -> Iterator[bytes]:
        """All that comes until the other side hangs up."""
        piece, self._at = self._came[self._at :], len(self._came)
        while piece := piece or self.stream.read(CHUNK):
            yield piece
            piece = b""

    def ended(self, *, keeps: bool) -> None:
        """An answer is over. More than it must not have come: that would be taken for the next one."""
        if keeps and self._at == len(self._came):
            self._came, self._at, self.is_idle = b"", 0, True
        else:
            self.close()


def _parsed(head: bytes) -> tuple[bytes, int, dict[str, str]]:
    """The minor version, the status and the headers by their names; what comes more than once stands in one line."""
    first, *lines = _LINE.split(_FOLD.sub(b" ", head))
    status = _STATUS.fullmatch(first)
    if status is None:
        raise httpcore.RemoteProtocolError("this is no answer")
    headers: dict[str, list[str]] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise httpcore.RemoteProtocolError("a header of the answer cannot be read")
        headers.setdefault(header[1].decode("ascii").lower(), []).append(_text(header[2].strip(b" \t")))
    return status[1], int(status[2]), {name: ", ".join(values) for name, values in headers.items()}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Answer:
    """An answer whose body is still to come: iterate once, then `close`."""

    def __init__(
        self, connection: Connection, method: str, version: bytes, status: int, headers: Mapping[str, str]
    ) -> None:
        self.status, self.headers = status, headers
        self._connection, self._is_over = connection, False
        tokens = [token.strip() for token in headers.get("connection", "").lower().split(",")]
        self._keeps = version == b"1" and "close" not in tokens
        self._body = self._framed(method)

    def _framed(self, method: str) -> Iterator[bytes]:
        """The body, by what says how long it is; RemoteProtocolError where two things say otherwise."""
        coding, lengths = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if method == "HEAD" or self.status in (204, 304):
            return iter(())
        if coding is not None:
            if coding.lower() != "chunked":
                raise httpcore.RemoteProtocolError(f"the answer comes as {coding}, which was not asked for")
            return self._connection.chunked()
        if lengths is not None:
            said = {length.strip() for length in lengths.split(",")}
            if len(said) > 1 or _LENGTH.fullmatch(length := said.pop()) is None:
                raise httpcore.RemoteProtocolError("the answer does not say how long it is")
            return self._connection.counted(int(length))
        self._keeps = False
        return self._connection.to_the_end()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._body
        self._is_over = True

    def close(self) -> None:
        """Nobody reads any more: the connection may be used again where the whole answer was read."""
        self._connection.ended(keeps=self._keeps and self._is_over)

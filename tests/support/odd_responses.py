"""Table of malformed or unusual 2xx responses that any test server can send.

A server passes the intended response to `OddResponse.say`. `OddResponse.delivers` is the part of the body that a
careful client can use.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tests.support.connection_server import ConnectionServer

End = Literal["close", "reset", "hang", "endless"]
Body = Callable[[bytes], tuple[dict[str, str], bytes]]
KIB, MIB = 1024, 1024 * 1024
HANG_SECONDS = 60.0


@dataclass(frozen=True)
class OddResponse:
    """One way to answer. `body`: the headers and the bytes that stand for a body. `status`: in place of what is meant.

    `delivers`: "whole" the body, "json" its JSON object although the body counts as unread, or "nothing".
    """

    name: str
    body: Body
    end: End = "close"
    delivers: Literal["whole", "json", "nothing"] = "whole"
    status: int | None = None
    version: str = "HTTP/1.1"
    before: bytes = b""
    newline: bytes = b"\r\n"
    extra: tuple[bytes, ...] = ()

    def say(self, connection: socket.socket, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer and end the connection."""
        framing, wire = self.body(body)
        # Said, so that no client uses the connection again while it is being closed.
        framing = {"Connection": "close", **framing}
        lines = [f"{name}: {text}".encode() for name, text in {**headers, **framing}.items()]
        first = f"{self.version} {self.status or status} Odd".encode()
        head = self.newline.join([first, *lines, *self.extra, b"", b""])
        with contextlib.suppress(OSError):  # the client may stop reading before the end
            connection.sendall(self.before + head + wire)
            self._ended(connection)
        connection.close()

    def _ended(self, connection: socket.socket) -> None:
        if self.end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.end == "hang":
            connection.settimeout(HANG_SECONDS)
            connection.recv(1)  # until the client hangs up
        elif self.end == "endless":
            while True:
                connection.sendall(b" " * 64 * KIB)


# --- Bodies --------------------------------------------------------------------------------------------------------


def plain(body: bytes) -> tuple[dict[str, str], bytes]:
    return {"Content-Length": str(len(body))}, body


def until_close(body: bytes) -> tuple[dict[str, str], bytes]:
    return {}, body


def _chunks(body: bytes, size: int) -> bytes:
    return b"".join(
        b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[at : at + size] for at in range(0, len(body), size))
    )


def chunked(size: int, last: bytes = b"0\r\n\r\n") -> Body:
    return lambda body: ({"Transfer-Encoding": "chunked"}, _chunks(body, size) + last)


def with_encoding(label: str, change: Callable[[bytes], bytes] = bytes, frame: Body = plain) -> Body:
    def made(body: bytes) -> tuple[dict[str, str], bytes]:
        headers, wire = frame(change(body))
        return headers | {"Content-Encoding": label}, wire

    return made


def with_body(change: Callable[[bytes], bytes], frame: Body = plain) -> Body:
    return lambda body: frame(change(body))


def with_longer_length(more: int, change: Callable[[bytes], bytes] = bytes) -> Body:
    """A Content-Length that is larger than what comes."""
    return lambda body: ({"Content-Length": str(len(body) + more)}, change(body))


def empty_body(_: bytes) -> bytes:
    return b""


def half_body(body: bytes) -> bytes:
    return body[: len(body) // 2]


def pad_body(size: int) -> Callable[[bytes], bytes]:
    return lambda body: body + b" " * size


def deflate(body: bytes) -> bytes:
    return zlib.compress(body)


def compression_bomb(body: bytes) -> bytes:
    return gzip.compress(body + b" " * 4 * MIB)


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": deflate}
FRAMES: dict[str, Body] = {"length": plain, "chunks": chunked(7), "close": until_close}
MISLEADING_RESPONSES = (
    "utf-8",
    "UTF-8",
    "none",
    "binary",
    "br",
    "zstd",
    "gzip, gzip",
    "aws-chunked",
)  # the body is plain

ODD_RESPONSES: list[OddResponse] = [
    OddResponse("as usual", plain),
    # Framing.
    OddResponse("until close", until_close),
    OddResponse("chunks of a byte", chunked(1)),
    OddResponse("one chunk", chunked(MIB)),
    OddResponse("chunks with extensions", chunked(9, b"0;a=b\r\n\r\n")),
    OddResponse("chunks with trailers", chunked(5, b"0\r\nX-Sum: 1\r\n\r\n")),
    OddResponse("HTTP/1.0", until_close, version="HTTP/1.0"),
    OddResponse("line feeds alone", plain, newline=b"\n"),
    OddResponse("100 first", plain, before=b"HTTP/1.1 100 Continue\r\n\r\n"),
    OddResponse("103 first", plain, before=b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    OddResponse("a header twice", plain, extra=(b"X-Odd: 1", b"X-Odd: 2")),
    OddResponse("header in Latin-1", plain, extra=(b"X-Odd: Gr\xfc\xdfe",)),
    OddResponse("header folded", plain, extra=(b"X-Odd: a", b"  b")),
    OddResponse("kept alive for no time", plain, extra=(b"Keep-Alive: timeout=0",)),
    # Packed as it says, in each framing.
    *(
        OddResponse(f"{label} in {name}", with_encoding(label, pack, frame))
        for label, pack in PACKED.items()
        for name, frame in FRAMES.items()
    ),
    OddResponse("labelled identity", with_encoding("identity")),
    OddResponse("labelled with nothing", with_encoding("")),
    # Labelled wrongly, or in an encoding that was not asked for.
    *(OddResponse(f"labelled {label}, plain", with_encoding(label), delivers="json") for label in MISLEADING_RESPONSES),
    *(
        OddResponse(f"labelled {label}, empty", with_encoding(label, empty_body), delivers="nothing")
        for label in (*PACKED, "br", "UTF-8")
    ),
    OddResponse("labelled gzip, plain", with_encoding("gzip"), delivers="nothing"),
    OddResponse("labelled deflate, plain", with_encoding("deflate"), delivers="nothing"),
    OddResponse(
        "labelled br, packed", with_encoding("br", lambda body: b"\x0b\x02\x80" + deflate(body)), delivers="nothing"
    ),
    OddResponse(
        "gzip cut short", with_encoding("gzip", lambda body: half_body(gzip.compress(body))), delivers="nothing"
    ),
    # Large.
    OddResponse("100 KB", with_body(pad_body(100_000))),
    OddResponse("2 MB", with_body(pad_body(2 * MIB)), delivers="json"),
    OddResponse("2 MB in chunks", with_body(pad_body(2 * MIB), chunked(64 * KIB)), delivers="json"),
    OddResponse("4 MB packed into 4 KB", with_encoding("gzip", compression_bomb), delivers="json"),
    OddResponse("without an end", until_close, end="endless", delivers="json"),
    # Cut short.
    OddResponse("half of its length", with_longer_length(0, half_body), delivers="nothing"),
    OddResponse("nothing of its length", with_longer_length(9, empty_body), delivers="nothing"),
    OddResponse("shorter than its length", with_longer_length(50), delivers="json"),
    OddResponse("no last chunk", chunked(9, b""), delivers="json"),
    OddResponse("half of its chunks", with_body(half_body, chunked(9, b"")), delivers="nothing"),
    OddResponse("reset after the head", with_longer_length(9, empty_body), end="reset", delivers="nothing"),
    OddResponse("reset within the body", with_longer_length(0, half_body), end="reset", delivers="nothing"),
    OddResponse("reset within a chunk", with_body(half_body, chunked(9, b"ff\r\nx")), end="reset", delivers="nothing"),
    # Malformed.
    OddResponse("a chunk without a size", with_body(empty_body, chunked(9, b"zz\r\n")), delivers="nothing"),
    OddResponse("a chunk of negative size", with_body(empty_body, chunked(9, b"-2\r\n{}\r\n")), delivers="nothing"),
    OddResponse(
        "a chunk longer than its size", with_body(empty_body, chunked(9, b"2\r\n{} \r\n0\r\n\r\n")), delivers="nothing"
    ),
    # Slow.
    OddResponse("silent after the head", with_longer_length(9, empty_body), end="hang", delivers="nothing"),
    OddResponse("silent within the body", with_longer_length(0, half_body), end="hang", delivers="nothing"),
    OddResponse("silent before the last chunk", chunked(9, b""), end="hang", delivers="json"),
    OddResponse("silent without a length", until_close, end="hang", delivers="json"),
    # Empty.
    OddResponse("empty", with_body(empty_body), delivers="nothing"),
    OddResponse("empty until close", with_body(empty_body, until_close), delivers="nothing"),
    OddResponse("empty in chunks", with_body(empty_body, chunked(9)), delivers="nothing"),
    *(
        OddResponse(f"{status}, empty", with_body(empty_body), delivers="nothing", status=status)
        for status in (202, 203, 205, 206, 226, 299)
    ),
    OddResponse("204", lambda _: ({}, b""), delivers="nothing", status=204),
    OddResponse("204 with a body", plain, delivers="nothing", status=204),
    # Other bodies.
    OddResponse("a page in HTML", with_body(lambda _: b"<!doctype html><title>OK</title>"), delivers="nothing"),
    OddResponse("bytes of no text", with_body(lambda _: bytes(range(256))), delivers="nothing"),
]


class OddServer:
    """A server on loopback that answers each request in the way that its path names (or `always`), as `meant` says."""

    def __init__(
        self, meant: Callable[[bytes], tuple[int, Mapping[str, str], bytes]], always: OddResponse | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self._meant, self._always = meant, always
        self._server = ConnectionServer(self._talk)
        self.port = self._server.port

    def url(self, odd: OddResponse) -> str:
        return f"http://127.0.0.1:{self.port}/{ODD_RESPONSES.index(odd)}"

    def close(self) -> None:
        self._server.close()

    def _talk(self, connection: socket.socket) -> None:
        request = read_request(connection)
        if not request:
            return
        self.requests.append(request)
        odd = self._always or ODD_RESPONSES[int(request.split()[1].rpartition(b"/")[2])]
        odd.say(connection, *self._meant(request))


def read_request(connection: socket.socket) -> bytes:
    """A whole request with a Content-Length; empty when the client hung up."""
    data = b""
    while (head := data.partition(b"\r\n\r\n"))[1] == b"" or len(head[2]) < _length(head[0]):
        piece = connection.recv(64 * KIB)
        if not piece:
            return b""
        data += piece
    return data


def _length(head: bytes) -> int:
    lines = (line.lower().partition(b":") for line in head.split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)

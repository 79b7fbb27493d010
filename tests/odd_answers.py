"""Responses that say 2xx in every odd way: one table, whatever server answers in them.

A server calls `Odd.say` with the response that it means; what of its body reaches a careful client is `Odd.delivers`.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

End = Literal["close", "reset", "hang", "endless"]
Body = Callable[[bytes], tuple[dict[str, str], bytes]]
KIB, MIB = 1024, 1024 * 1024
HANG_SECONDS = 60.0


@dataclass(frozen=True)
class Odd:
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


def labelled(label: str, change: Callable[[bytes], bytes] = bytes, frame: Body = plain) -> Body:
    def made(body: bytes) -> tuple[dict[str, str], bytes]:
        headers, wire = frame(change(body))
        return headers | {"Content-Encoding": label}, wire

    return made


def changed(change: Callable[[bytes], bytes], frame: Body = plain) -> Body:
    return lambda body: frame(change(body))


def announced(more: int, change: Callable[[bytes], bytes] = bytes) -> Body:
    """A Content-Length that is larger than what comes."""
    return lambda body: ({"Content-Length": str(len(body) + more)}, change(body))


def nothing(_: bytes) -> bytes:
    return b""


def half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def padded(size: int) -> Callable[[bytes], bytes]:
    return lambda body: body + b" " * size


def zlibbed(body: bytes) -> bytes:
    return zlib.compress(body)


def bomb(body: bytes) -> bytes:
    return gzip.compress(body + b" " * 4 * MIB)


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlibbed}
FRAMES: dict[str, Body] = {"length": plain, "chunks": chunked(7), "close": until_close}
LIES = ("utf-8", "UTF-8", "none", "binary", "br", "zstd", "gzip, gzip", "aws-chunked")  # the body is plain

ODD: list[Odd] = [
    Odd("as usual", plain),
    # Framing.
    Odd("until close", until_close),
    Odd("chunks of a byte", chunked(1)),
    Odd("one chunk", chunked(MIB)),
    Odd("chunks with extensions", chunked(9, b"0;a=b\r\n\r\n")),
    Odd("chunks with trailers", chunked(5, b"0\r\nX-Sum: 1\r\n\r\n")),
    Odd("HTTP/1.0", until_close, version="HTTP/1.0"),
    Odd("line feeds alone", plain, newline=b"\n"),
    Odd("100 first", plain, before=b"HTTP/1.1 100 Continue\r\n\r\n"),
    Odd("103 first", plain, before=b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    Odd("a header twice", plain, extra=(b"X-Odd: 1", b"X-Odd: 2")),
    Odd("header in Latin-1", plain, extra=(b"X-Odd: Gr\xfc\xdfe",)),
    Odd("header folded", plain, extra=(b"X-Odd: a", b"  b")),
    Odd("kept alive for no time", plain, extra=(b"Keep-Alive: timeout=0",)),
    # Packed as it says, in each framing.
    *(
        Odd(f"{label} in {name}", labelled(label, pack, frame))
        for label, pack in PACKED.items()
        for name, frame in FRAMES.items()
    ),
    Odd("labelled identity", labelled("identity")),
    Odd("labelled with nothing", labelled("")),
    # Labelled wrongly, or in an encoding that was not asked for.
    *(Odd(f"labelled {label}, plain", labelled(label), delivers="json") for label in LIES),
    *(
        Odd(f"labelled {label}, empty", labelled(label, nothing), delivers="nothing")
        for label in (*PACKED, "br", "UTF-8")
    ),
    Odd("labelled gzip, plain", labelled("gzip"), delivers="nothing"),
    Odd("labelled deflate, plain", labelled("deflate"), delivers="nothing"),
    Odd("labelled br, packed", labelled("br", lambda body: b"\x0b\x02\x80" + zlibbed(body)), delivers="nothing"),
    Odd("gzip cut short", labelled("gzip", lambda body: half(gzip.compress(body))), delivers="nothing"),
    # Large.
    Odd("100 KB", changed(padded(100_000))),
    Odd("2 MB", changed(padded(2 * MIB)), delivers="json"),
    Odd("2 MB in chunks", changed(padded(2 * MIB), chunked(64 * KIB)), delivers="json"),
    Odd("4 MB packed into 4 KB", labelled("gzip", bomb), delivers="json"),
    Odd("without an end", until_close, end="endless", delivers="json"),
    # Cut short.
    Odd("half of its length", announced(0, half), delivers="nothing"),
    Odd("nothing of its length", announced(9, nothing), delivers="nothing"),
    Odd("shorter than its length", announced(50), delivers="json"),
    Odd("no last chunk", chunked(9, b""), delivers="json"),
    Odd("half of its chunks", changed(half, chunked(9, b"")), delivers="nothing"),
    Odd("reset after the head", announced(9, nothing), end="reset", delivers="nothing"),
    Odd("reset within the body", announced(0, half), end="reset", delivers="nothing"),
    Odd("reset within a chunk", changed(half, chunked(9, b"ff\r\nx")), end="reset", delivers="nothing"),
    # Malformed.
    Odd("a chunk without a size", changed(nothing, chunked(9, b"zz\r\n")), delivers="nothing"),
    Odd("a chunk of negative size", changed(nothing, chunked(9, b"-2\r\n{}\r\n")), delivers="nothing"),
    Odd("a chunk longer than its size", changed(nothing, chunked(9, b"2\r\n{} \r\n0\r\n\r\n")), delivers="nothing"),
    # Slow.
    Odd("silent after the head", announced(9, nothing), end="hang", delivers="nothing"),
    Odd("silent within the body", announced(0, half), end="hang", delivers="nothing"),
    Odd("silent before the last chunk", chunked(9, b""), end="hang", delivers="json"),
    Odd("silent without a length", until_close, end="hang", delivers="json"),
    # Empty.
    Odd("empty", changed(nothing), delivers="nothing"),
    Odd("empty until close", changed(nothing, until_close), delivers="nothing"),
    Odd("empty in chunks", changed(nothing, chunked(9)), delivers="nothing"),
    *(
        Odd(f"{status}, empty", changed(nothing), delivers="nothing", status=status)
        for status in (202, 203, 205, 206, 226, 299)
    ),
    Odd("204", lambda _: ({}, b""), delivers="nothing", status=204),
    Odd("204 with a body", plain, delivers="nothing", status=204),
    # Other bodies.
    Odd("a page in HTML", changed(lambda _: b"<!doctype html><title>OK</title>"), delivers="nothing"),
    Odd("bytes of no text", changed(lambda _: bytes(range(256))), delivers="nothing"),
]


class OddServer:
    """A server on loopback that answers each request in the way that its path names (or `always`), as `meant` says."""

    def __init__(
        self, meant: Callable[[bytes], tuple[int, Mapping[str, str], bytes]], always: Odd | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self._meant, self._always = meant, always
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, odd: Odd) -> str:
        return f"http://127.0.0.1:{self.port}/{ODD.index(odd)}"

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            request = read_request(connection)
            if not request:
                return
            self.requests.append(request)
            odd = self._always or ODD[int(request.split()[1].rpartition(b"/")[2])]
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

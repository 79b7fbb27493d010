"""HTTP proxy that drops, delays, corrupts and forges responses, driven by a seed.

It reads each request whole, then forwards it or applies one of `CUTS`. At most `LIMIT` requests in a row are cut, so
that a client that retries gets an answer.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast
from urllib.parse import urlsplit

LIMIT = 5
HUNG_SECONDS = 1.6  # longer than clients of the soak wait
_OURS = (
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
)  # headers of the way, not the answer


@dataclass(frozen=True)
class ProxiedRequest:
    """One request, whole."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def nsid(self) -> str:
        return urlsplit(self.target).path.rpartition("/")[2]

    @property
    def what(self) -> str:
        """The same for the same request asked again."""
        if self.nsid == "com.atproto.repo.putRecord":
            return f"{self.nsid} {json.loads(self.body)['rkey']}"
        return f"{self.method} {self.target} {hash(self.body)}"


@dataclass(frozen=True)
class ProxiedResponse:
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def packed(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {self.reason}", *(f"{name}: {value}" for name, value in self.headers)]
        return ("\r\n".join([*lines, f"content-length: {len(self.body)}", "", ""])).encode("latin-1") + self.body


def _forged(status: int, body: bytes, kind: str = "application/json") -> ProxiedResponse:
    return ProxiedResponse(status, http.client.responses[status], (("content-type", kind),), body)


_PAGE = _forged(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html")
_FAULT = _forged(500, b'{"error":"InternalServerError","message":"Internal Server Error"}')
_BUSY = _forged(503, b"")
_SLOW = _forged(504, b'{"error":"UpstreamTimeout","message":"Upstream Timeout"}')
_LOGIN = _forged(200, b"<html>You are offline. <a href=/login>Sign in</a></html>", "text/html")


class CutError(Exception):
    """The connection to the client ends here; `reset`: not even politely."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


@dataclass
class ProxyExchange:
    """One request's way through the proxy."""

    proxy: FaultyProxy
    asked: ProxiedRequest
    client: socket.socket
    dice: random.Random

    def forward(self) -> ProxiedResponse:
        return self.proxy.ask(self.asked)

    def write(self, answer: ProxiedResponse) -> None:
        self.client.sendall(answer.packed())


# --- What befalls a request ------------------------------------------------------------------------------------------


def _lost_before(_: ProxyExchange) -> None:
    raise CutError(reset=True)


def _closed_before(_: ProxyExchange) -> None:
    raise CutError(reset=False)


def _hung_before(_: ProxyExchange) -> None:
    time.sleep(HUNG_SECONDS)
    raise CutError(reset=False)


def _half_asked(way: ProxyExchange) -> None:
    """The server gets the beginning of the request only."""
    way.proxy.ask_half(way.asked)
    raise CutError(reset=True)


def _late(way: ProxyExchange) -> None:
    """The server gets the request when the client has given it up."""
    way.proxy.later(way.asked, way.dice.uniform(0.02, 0.3))
    raise CutError(reset=True)


def _said_before(answer: ProxiedResponse) -> Callable[[ProxyExchange], None]:
    return lambda way: way.write(answer)


def _lost_after(way: ProxyExchange) -> None:
    way.forward()
    raise CutError(reset=True)


def _hung_after(way: ProxyExchange) -> None:
    way.forward()
    time.sleep(HUNG_SECONDS)
    raise CutError(reset=False)


def _half_answered(way: ProxyExchange) -> None:
    packed = way.forward().packed()
    way.client.sendall(packed[: way.dice.randrange(1, len(packed))])
    raise CutError(reset=way.dice.random() < 0.5)


def _said_after(answer: ProxiedResponse) -> Callable[[ProxyExchange], None]:
    def run(way: ProxyExchange) -> None:
        way.forward()
        way.write(answer)

    return run


def _delayed(way: ProxyExchange) -> None:
    answer = way.forward()
    time.sleep(way.dice.uniform(0.05, 0.4))
    way.write(answer)


def _then_closed(way: ProxyExchange) -> None:
    """A whole answer, and a connection that is gone when it is used again."""
    way.write(way.forward())
    raise CutError(reset=True)


CUTS: Mapping[str, Callable[[ProxyExchange], None]] = {
    "reset before": _lost_before,
    "closed before": _closed_before,
    "no answer, not forwarded": _hung_before,
    "half of the request": _half_asked,
    "forwarded after the reset": _late,
    "502 page before": _said_before(_PAGE),
    "500 before": _said_before(_FAULT),
    "503 before": _said_before(_BUSY),
    "reset after": _lost_after,
    "no answer, forwarded": _hung_after,
    "half of the answer": _half_answered,
    "500 after": _said_after(_FAULT),
    "502 page after": _said_after(_PAGE),
    "504 after": _said_after(_SLOW),
    "200 page after": _said_after(_LOGIN),
    "delayed": _delayed,
    "connection gone afterwards": _then_closed,
}


# --- The proxy -------------------------------------------------------------------------------------------------------


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


@dataclass
class FaultyProxy:
    """`share` of the requests is cut while `cutting` is set."""

    upstream: str
    seed: int
    share: float = 0.4
    cutting: bool = False
    url: str = ""
    cuts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by (what befell it, the method called)
    requests: int = 0
    _row: Counter[str] = field(default_factory=Counter)
    _deck: list[str] = field(default_factory=list)
    _late: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)

    @contextmanager
    def serving(self) -> Iterator[FaultyProxy]:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy._serve(cast(socket.socket, self.request))

        with _Server(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            yield self
            self.settle()
            server.shutdown()

    def settle(self) -> None:
        """Until what is late has arrived."""
        while self._late:
            self._late.pop().join()

    def _serve(self, client: socket.socket) -> None:
        reader = client.makefile("rb")
        try:
            while asked := _read(reader):
                self._pass(asked, client)
        except CutError as cut:
            if cut.reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            return  # the client has gone
        finally:
            reader.close()
            client.close()

    def _pass(self, asked: ProxiedRequest, client: socket.socket) -> None:
        name, dice = self._drawn(asked)
        way = ProxyExchange(self, asked, client, dice)
        if name is None:
            way.write(way.forward())
        else:
            CUTS[name](way)

    def _drawn(self, asked: ProxiedRequest) -> tuple[str | None, random.Random]:
        """What befalls this request, and dice of its own."""
        with self._lock:
            self.requests += 1
            drawn, dice = self._dice.random(), random.Random(self._dice.getrandbits(64))
            if not self.cutting or drawn >= self.share or self._row[asked.what] >= LIMIT:
                self._row[asked.what] = 0
                return None, dice
            if not self._deck:  # each kind once, then all again
                self._deck = self._dice.sample(list(CUTS), len(CUTS))
            name = self._deck.pop()
            self._row[asked.what] += 1
            self.cuts[name, asked.nsid] += 1
            return name, dice

    # --- To the server ---

    def ask(self, asked: ProxiedRequest) -> ProxiedResponse:
        parts = urlsplit(self.upstream)
        line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        try:
            line.request(asked.method, asked.target, asked.body or None, dict(asked.headers))
            found = line.getresponse()
            headers = tuple((name, value) for name, value in found.getheaders() if name.lower() not in _OURS)
            return ProxiedResponse(found.status, found.reason, headers, found.read())
        finally:
            line.close()

    def ask_half(self, asked: ProxiedRequest) -> None:
        parts = urlsplit(self.upstream)
        lines = [
            f"{asked.method} {asked.target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in asked.headers.items()),
        ]
        packed = "\r\n".join([*lines, "", ""]).encode("latin-1") + asked.body
        with socket.create_connection((str(parts.hostname), parts.port)) as line:
            line.sendall(packed[: len(packed) - max(1, len(asked.body) // 2, 2)])

    def later(self, asked: ProxiedRequest, seconds: float) -> None:
        def run() -> None:
            time.sleep(seconds)
            self.ask(asked)

        thread = threading.Thread(target=run)
        thread.start()
        self._late.append(thread)


def _read(reader: BinaryIO) -> ProxiedRequest | None:
    """The next request; None at the end of the connection."""
    first = reader.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers = {}
    while line := reader.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    assert "transfer-encoding" not in headers, "every body of ours says its length"
    body = reader.read(int(headers.get("content-length", 0)))
    return ProxiedRequest(first[0], first[1], headers, body)

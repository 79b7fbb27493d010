"""Heads of requests are read here by the rules of Sanic, with the strict check of `framing` in Sanic's own signal."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from sanic import Request
from sanic.exceptions import SanicException
from sanic.http import Http
from sanic.http.constants import Stage

from socialpub.web import framing
from socialpub.web.http import Arrival
from socialpub.web.wire import KNOWN_MOST, Head, Stream
from tests.laws import all_hold

LONG = "x" * 9000
HEADS = {
    "the least": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\nA: b\r\n\r\n",
    "with a host": "GET /v1/posts?limit=5 HTTP/1.1\r\nHost: a\r\n\r\n",
    "spaces before values": "GET / HTTP/1.1\r\nHost:a\r\nA: \t b \r\n\r\n",
    "a name in capitals": "GET / HTTP/1.1\r\nHost: a\r\nX-REQUEST-ID: ABC\r\n\r\n",
    "a header twice": "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\na: 2\r\n\r\n",
    "colons in a value": "GET / HTTP/1.1\r\nHost: a\r\nA: b:c:d\r\n\r\n",
    "an empty value": "GET / HTTP/1.1\r\nHost: a\r\nA:\r\n\r\n",
    "no ASCII in a value": "GET / HTTP/1.1\r\nHost: a\r\nA: \u00e9\u4e2d\r\n\r\n",
    "halves of characters": b"GET / HTTP/1.1\r\nHost: a\r\nA: \xff\xfe\r\n\r\n",
    "a space before the colon": "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
    "a line that is continued": "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
    "a line without a colon": "GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n",
    "ends of lines alone": "GET / HTTP/1.1\nA: b\n\n\r\n\r\n",
    "the older version": "GET / HTTP/1.0\r\n\r\n",
    "the older version, kept": "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
    "an unknown version": "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "no version": "GET /\r\n\r\n",
    "too many words": "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    "nothing": "\r\n\r\n",
    "to be closed": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "odd words of a connection": "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, keep-alive\r\n\r\n",
    "only the head of an answer": "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "the same in small letters": "head / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "an empty body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "a length that is none": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "a length below nothing": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n",
    "a length with a sign": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
    "a length in parts": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n0123456789",
    "an empty length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
    "its length told twice": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a length and chunks": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    "chunks and a length": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    "chunks": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "another encoding": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "a body that is asked for": "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n",
    "something else expected": "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 3\r\n\r\nabc",
    "something expected for no body": "GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
    "a target that is no ASCII": "GET /\u00e9 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a whole address": "GET http://a/b?c=d HTTP/1.1\r\nHost: a\r\n\r\n",
    "two requests": "GET /a HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    "as long as may be": f"GET / HTTP/1.1\r\nHost: a\r\nA: {LONG[: 8192 - 29]}\r\n\r\n",
    "longer than may be": f"GET / HTTP/1.1\r\nHost: a\r\nA: {LONG}\r\n\r\n",
    "longer than may be, without an end": f"GET / HTTP/1.1\r\nHost: a\r\nA: {LONG}",
}


class Line:
    """A connection over which these pieces come, one at a time."""

    def __init__(self, kind: type[Request[Any, Any]], pieces: list[bytes]) -> None:
        config = SimpleNamespace(KEEP_ALIVE=True)
        self.app = SimpleNamespace(dispatch=self._tell, config=config)
        self.request_class, self.request_max_size, self.transport = kind, 100, None
        self.recv_buffer, self.state = bytearray(), {"requests_count": 0}
        self._pieces = iter(pieces)

    async def _tell(self, event: str, *, inline: bool, context: dict[str, Any]) -> None:
        """The one listener: what `wire.py` calls serves Sanic's signal unchanged."""
        if event == "http.lifecycle.read_head":
            framing.check_head(context["head"])

    async def send(self, data: bytes) -> None:
        raise AssertionError("nothing is sent while a head is read")

    async def receive_more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise EOFError
        self.recv_buffer += piece


def read(http: type[Http], kind: type[Request[Any, Any]], pieces: list[bytes]) -> dict[str, Any]:
    """What is known once the head was read, or the error that says why it cannot be."""
    line = Line(kind, pieces)
    return asyncio.run(read_next(http(line), line))  # type: ignore[no-untyped-call]


async def read_next(stream: Http, line: Line) -> dict[str, Any]:
    stream.init_for_request()  # type: ignore[no-untyped-call]
    stream.stage = Stage.REQUEST
    try:
        await stream.http1_request_header()
    except (SanicException, EOFError) as error:
        return {"error": type(error), "head only": stream.head_only, "target": stream.url}
    request = stream.request
    return {
        "target": stream.url,
        "method": request.method,
        "path": request.path,
        "query": request.query_string,
        "headers": [(name, value.rstrip(" \t")) for name, value in request.headers.items()],
        "version": request.version,
        "open": stream.keep_alive,
        "head only": stream.head_only,
        "body": stream.request_body,
        "left": stream.request_bytes_left,
        "asked for": stream.expecting_continue,
        "rest": bytes(line.recv_buffer),
    }


def alike(text: str | bytes) -> None:
    head = text.encode() if isinstance(text, str) else text
    for size in (len(head), 100, 3, 1):
        pieces = [head[at : at + size] for at in range(0, len(head), size)]
        assert read(Stream, Arrival, pieces) == read(Http, Request, pieces)


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Http, "HEADER_MAX_SIZE", 8192)


def test_a_head_is_read_as_sanic_reads_it() -> None:
    all_hold(HEADS, alike)


def test_a_head_is_read_the_same_whatever_came_before_it_on_its_connection() -> None:
    heads = {name: text.encode() if isinstance(text, str) else text for name, text in HEADS.items()}
    alone = {name: read(Stream, Arrival, [head]) for name, head in heads.items()}

    async def after(before: bytes, head: bytes) -> dict[str, Any]:
        line = Line(Arrival, [before])
        stream = Stream(line)
        await read_next(stream, line)
        line.recv_buffer[:] = b""
        line._pieces = iter([head])
        return await read_next(stream, line)

    async def all_after(before: bytes) -> dict[str, Any]:
        return {name: await after(before, head) for name, head in heads.items()}

    for before in heads.values():
        assert asyncio.run(all_after(before)) == alone


def test_a_head_that_has_come_before_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read_heads: list[bytes] = []
    as_ever = Stream._read_head

    def counted(stream: Stream, raw: bytes) -> Head:
        read_heads.append(raw)
        return as_ever(stream, raw)

    monkeypatch.setattr(Stream, "_read_head", counted)
    short, other, long = (
        f"GET /{letter} HTTP/1.1\r\nHost: {letter}\r\n\r\n".encode() for letter in ("a", "b", LONG[:KNOWN_MOST])
    )

    async def read_all() -> None:
        line = Line(Arrival, [])
        stream = Stream(line)
        for head in (short, short, short, other, short, long, long, short):
            line.recv_buffer += head
            assert (await read_next(stream, line))["target"] == head.split(b" ")[1].decode()

    asyncio.run(read_all())
    assert read_heads == [short, other, short, long, long, short]


@pytest.mark.parametrize("coding", ["Chunked", "CHUNKED", "chunked \t"])
def test_chunked_is_known_in_any_letters(coding: str) -> None:
    """Sanic by itself knows it in small ones, with nothing behind it."""
    head = f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n"
    assert read(Stream, Arrival, [head.encode()])["body"] == "chunked"


@pytest.mark.parametrize("told", [["close", "keep-alive"], ["keep-alive", "close"], ["keep-alive", "x"]])
def test_a_connection_is_closed_where_one_of_its_lines_says_so(told: list[str]) -> None:
    lines = "".join(f"Connection: {each}\r\n" for each in told)
    assert not read(Stream, Arrival, [f"GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode()])["open"]


def test_the_table_has_what_is_taken_and_what_is_not() -> None:
    found = [read(Stream, Arrival, [text.encode() if isinstance(text, str) else text]) for text in HEADS.values()]
    kinds = {error["error"].__name__ for error in found if "error" in error}
    assert kinds == {"BadRequest", "ExpectationFailed", "PayloadTooLarge"}
    assert len([one for one in found if "method" in one]) > 20

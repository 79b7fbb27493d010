"""Framing of HTTP/1.1 responses and validity of outgoing requests."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import network, transport
from socialpub.base.http.network import FIELDS_MAX, HEADS_MAX
from tests.support.isolation.regex_attacks import seconds
from tests.support.keep_alive_server import LOOPBACK, ConnectionAct, KeepAliveServer, close_connection, respond

POLICY = outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., KeepAliveServer]]:
    monkeypatch.setattr(transport, "FRESH_SECONDS", 600.0)  # however busy the machine is
    made: list[KeepAliveServer] = []

    def make(*acts: ConnectionAct) -> KeepAliveServer:
        made.append(KeepAliveServer(*acts))
        return made[-1]

    yield make
    transport.close_idle(0)
    for server in made:
        server.close()


def in_bytes(answer: bytes) -> ConnectionAct:
    """Say it one byte at a time."""

    def act(connection: socket.socket) -> bool:
        for at in range(len(answer)):
            connection.sendall(answer[at : at + 1])
        return True

    return act


def call(server: KeepAliveServer, method: str = "GET", **more: bytes) -> outbound.UpstreamResponse:
    with outbound.HttpClient(POLICY) as http:
        return http.request(method, server.url, **more)


KEPT = {
    "counted": (OK, b"{}"),
    "bare line ends": (OK.replace(b"\r\n", b"\n"), b"{}"),
    "no words": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", b"{}"),
    "said twice": (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"), b"{}"),
    "after others": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK, b"{}"),
    "after as many others as there may be": (b"HTTP/1.1 100 Continue\r\n\r\n" * (HEADS_MAX - 1) + OK, b"{}"),
    "as many fields as there may be": (OK.replace(b"\r\n\r\n", b"\r\nX: y" * (FIELDS_MAX - 1) + b"\r\n\r\n"), b"{}"),
    "many chunks of ten": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"a\r\n0123456789\r\n" * 3_000 + b"0\r\n\r\n",
        b"0123456789" * 3_000,
    ),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "unchanged": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\n{\r\n0a;x=y\r\n0123456789\r\n1\r\n}\r\n0\r\n\r\n",
        b"{0123456789}",
    ),
    "chunks with an end": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n"
        b"2\r\n{}\r\n0\r\nX: y\r\nZ: 1\r\n\r\n",
        b"{}",
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("name", KEPT)
def test_an_answer_ends_where_it_says_and_its_connection_goes_on(
    keeper: Callable[..., KeepAliveServer], name: str, slowly: bool
) -> None:
    answer, body = KEPT[name]
    server = keeper(*2 * [(in_bytes if slowly else respond)(answer)], respond(OK))
    for _ in range(2):
        assert call(server).content == body
    assert call(server).content == b"{}"
    assert server.connections == 1


ENDED = {
    "the end says so": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "an old server": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "it says so": b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", ENDED)
def test_an_answer_whose_server_hangs_up_is_whole_and_its_connection_over(
    keeper: Callable[..., KeepAliveServer], name: str
) -> None:
    server = keeper(close_connection(ENDED[name]), respond(OK))
    for _ in range(2):
        assert call(server).content == b"{}"
    assert server.connections == 2


BROKEN = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "no length": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
    "a coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "no name": b"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 2\r\n\r\n{}",
    "no colon": b"HTTP/1.1 200 OK\r\nbanana\r\nContent-Length: 2\r\n\r\n{}",
    "a space in a name": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
    "a null": b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 2\r\n\r\n{}",
    "half a line end": b"HTTP/1.1 200 OK\r\nX: y\rContent-Length: 9\r\nContent-Length: 2\r\n\r\n{}",
    "no status": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}",
    "another version": b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "only others": b"HTTP/1.1 103 Early\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
    "too many fields": OK.replace(b"\r\n\r\n", b"\r\nX: y" * FIELDS_MAX + b"\r\n\r\n"),
    "too many others": b"HTTP/1.1 100 Continue\r\n\r\n" * HEADS_MAX + OK,
}
MALFORMED = {
    "tiny chunks": b"1\r\n{\r\n" * 20_000 + b"0\r\n\r\n",
    "no size": b"-2\r\n{}\r\n0\r\n\r\n",
    "longer than its size": b"2\r\n{} \r\n0\r\n\r\n",
    "no last chunk": b"2\r\n{}\r\n",
    "a chunk's line without an end": b"2;" + b"x" * 100_000,
    "an end without an end": b"0\r\n" + b"X: y\r\n" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_response_is_ambiguous_and_its_connection_is_closed(
    keeper: Callable[..., KeepAliveServer], name: str
) -> None:
    server = keeper(close_connection(BROKEN[name]), respond(OK))
    with pytest.raises(ApiError) as caught:
        call(server, "POST", content=b"{}")
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert call(server).is_success
    assert server.connections == 2


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_body_keeps_the_status_and_closes_the_connection(
    keeper: Callable[..., KeepAliveServer], name: str
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + MALFORMED[name]
    server = keeper(close_connection(answer), respond(OK))
    reply = call(server, "POST", content=b"{}")
    assert (reply.status_code, reply.unread) == (200, outbound.UnreadReason.BROKEN)
    assert call(server).unread is None
    assert server.connections == 2


def test_names_are_told_in_small_letters_and_repeated_ones_in_one_line(keeper: Callable[..., KeepAliveServer]) -> None:
    lines = b"X-One: \ta \r\nx-one:b\r\nFolded: a\r\n  b\r\nWord: \xc3\xa4\r\nContent-Length: 0\r\n"
    reply = call(keeper(respond(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")))
    assert dict(reply.headers) == {
        "x-one": "a, b",
        "folded": "a b",
        "word": "ä",
        "content-length": "0",
    }


def test_a_head_has_no_body_whatever_it_says(keeper: Callable[..., KeepAliveServer]) -> None:
    server = keeper(respond(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), respond(OK))
    assert (call(server, "HEAD").content, call(server).content, server.connections) == (b"", b"{}", 1)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_a_server_has_said_before_it_hung_up_is_its_answer(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    theirs.close()  # so each write fails
    stream = network.DeadlineStream(ours, network.CallDeadline(time.monotonic() + 30))
    monkeypatch.setattr(network.PolicyBackend, "connect_tcp", lambda *_, **__: stream)
    with outbound.HttpClient(POLICY) as http:
        assert http.request(method, "http://api.test/", content=b"x" if method == "POST" else None).status_code == 413
    assert ours.fileno() == -1


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"X": "a\r\nHost: other"}),
        ("GET", {"X": "a\0"}),
        ("GET", {"X\r\nHost": "other"}),
        ("GET", {"X y": "a"}),
        ("GET", {"": "a"}),
        ("GET /x HTTP/1.1\r\nX: y\r\n\r\nGET", {}),
    ],
)
def test_what_would_be_no_request_or_more_than_one_is_not_sent(
    keeper: Callable[..., KeepAliveServer], method: str, headers: dict[str, str]
) -> None:
    server = keeper(respond(OK))
    with outbound.HttpClient(POLICY) as http, pytest.raises(ApiError):
        http.request(method, server.url, headers=headers)
    assert server.ended.acquire(timeout=30)
    assert server.requests == []


@pytest.mark.parametrize("content", [[b"12"], [b"12", b"345"], []])
def test_content_of_another_length_than_was_said_is_an_ambiguous_end(
    keeper: Callable[..., KeepAliveServer], content: list[bytes]
) -> None:
    server = keeper(respond(OK))
    with outbound.HttpClient(POLICY) as http, pytest.raises(ApiError) as caught:
        http.request("POST", server.url, content=iter(content), headers={"Content-Length": "4"})
    assert caught.value.outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize("url", ["ftp://api.test/x", "file:///etc/passwd", "api.test/x"])
def test_what_is_no_http_is_not_called(url: str) -> None:
    with outbound.HttpClient(POLICY) as http, pytest.raises(ApiError) as caught:
        http.request("POST", url, content=b"{}")
    assert caught.value.outcome is Outcome.NOT_SENT


WIDE = 90_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PUMPED = {
    "a gap": b"HTTP/1.1 200 OK\r\nX: a" + b" " * WIDE + b"b\r\n\r\n",  # took a parser of ours 27 s
    "no value": b"HTTP/1.1 200 OK\r\nX:" + b" \t" * (WIDE // 2) + b"\r\n\r\n",
    "many of a name": b"HTTP/1.1 200 OK\r\n" + b"X:\r\n" * (WIDE // 4) + b"\r\n",
    # These take h11 a minute.
    "no value, a null": b"HTTP/1.1 200 OK\r\nX:" + b" " * WIDE + b"\0\r\n\r\n",
    "folds, a null": b"HTTP/1.1 200 OK\r\nX:\r\n" + b" \r\n" * (WIDE // 3) + b" \0\r\n\r\n",
    "after another head": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX:" + b" " * WIDE + b"\0\r\n\r\n",
    "an extension": CHUNKED + b"2\r\n{}\r\n2;" + b" " * WIDE + b"\nx\r\n{}\r\n0\r\n\r\n",
    "a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nX:" + b" " * WIDE + b"\0\r\n\r\n",
}


@pytest.mark.parametrize("name", PUMPED)
def test_the_worst_framing_is_read_in_time_that_grows_with_its_length(
    keeper: Callable[..., KeepAliveServer], name: str
) -> None:
    server = keeper(close_connection(PUMPED[name]))

    def read(_: str) -> None:
        with contextlib.suppress(ApiError):
            call(server)

    assert seconds(read, name) < 1, "it grows with the square of the length"


def test_more_than_a_response_in_chunks_is_not_taken_for_the_next_one(keeper: Callable[..., KeepAliveServer]) -> None:
    whole = CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"
    forged = b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"
    server = keeper(respond(whole + b"more"), respond(whole + forged), respond(OK), respond(OK))
    assert [call(server).content for _ in range(2)] == [b"{}"] * 2
    assert server.connections == 2  # "more" ended the first
    with pytest.raises(ApiError) as caught:
        call(server, "POST", content=b"{}")  # what came before it was asked for is no answer
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert call(server).content == b"{}"


@pytest.mark.parametrize("location", ["http://[", "mailto:x", "//", "http://a:b:c/", "x" * 70_000, "\x00"])
def test_a_redirect_to_what_is_no_url_is_a_response_like_another(
    keeper: Callable[..., KeepAliveServer], location: str
) -> None:
    answer = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    if "\0" in location:
        return
    assert call(keeper(respond(answer.encode())), "POST", content=b"{}").status_code == 302

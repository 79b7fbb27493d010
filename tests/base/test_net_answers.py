"""What is an answer and where it ends, in whatever pieces it comes; and what goes out is one request."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import httpcore
import pytest

from socialpub.base import connections, http1, net
from socialpub.base.errors import ApiError, Outcome
from tests.base.test_net_kept import LOOPBACK, Act, Keeper, leaves, says
from tests.walls.pumps import seconds

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Keeper]]:
    monkeypatch.setattr(connections, "FRESH_SECONDS", 600.0)  # however busy the machine is
    made: list[Keeper] = []

    def make(*acts: Act) -> Keeper:
        made.append(Keeper(*acts))
        return made[-1]

    yield make
    connections.close_idle(0)
    for server in made:
        server.close()


def in_bytes(answer: bytes) -> Act:
    """Say it one byte at a time."""

    def act(connection: socket.socket) -> bool:
        for at in range(len(answer)):
            connection.sendall(answer[at : at + 1])
        return True

    return act


def call(server: Keeper, method: str = "GET", **more: bytes) -> net.Reply:
    with net.open_http(net.Policy(guarded=False, resolver=LOOPBACK)) as http:
        return http.request(method, server.url, **more)


KEPT = {
    "counted": (OK, b"{}"),
    "bare line ends": (OK.replace(b"\r\n", b"\n"), b"{}"),
    "no words": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", b"{}"),
    "said twice": (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"), b"{}"),
    "after others": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK, b"{}"),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "unchanged": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\n{\r\n0a ;x=y\r\n0123456789\r\n1\r\n}\r\n0\r\n\r\n",
        b"{0123456789}",
    ),
    "chunks with an end": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n"
        b"2\r\n{}\r\n0\r\nX: y\r\nZ: 1\r\n\r\n",
        b"{}",
    ),
}


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("name", KEPT)
def test_an_answer_ends_where_it_says_and_its_connection_goes_on(
    keeper: Callable[..., Keeper], name: str, slowly: bool
) -> None:
    answer, body = KEPT[name]
    server = keeper(*2 * [(in_bytes if slowly else says)(answer)], says(OK))
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
    keeper: Callable[..., Keeper], name: str
) -> None:
    server = keeper(leaves(ENDED[name]), says(OK))
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
}
MALFORMED = {
    "no size": b"-2\r\n{}\r\n0\r\n\r\n",
    "longer than its size": b"2\r\n{} \r\n0\r\n\r\n",
    "no last chunk": b"2\r\n{}\r\n",
    "a chunk's line without an end": b"2;" + b"x" * 100_000,
    "an end without an end": b"0\r\n" + b"X: y\r\n" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_answer_is_an_ambiguous_end_and_its_connection_is_not_used_again(
    keeper: Callable[..., Keeper], name: str
) -> None:
    server = keeper(leaves(BROKEN[name]), says(OK))
    with pytest.raises(ApiError) as caught:
        call(server, "POST", content=b"{}")
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert call(server).ok
    assert server.connections == 2


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_body_leaves_the_status_and_its_connection_is_not_used_again(
    keeper: Callable[..., Keeper], name: str
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + MALFORMED[name]
    server = keeper(leaves(answer), says(OK))
    reply = call(server, "POST", content=b"{}")
    assert (reply.status, reply.unread) == (200, net.Unread.BROKEN)
    assert call(server).unread is None
    assert server.connections == 2


def test_names_are_told_in_small_letters_and_repeated_ones_in_one_line(keeper: Callable[..., Keeper]) -> None:
    lines = b"X-One: \ta \r\nx-one:b\r\nFolded: a\r\n  b\r\nWord: \xc3\xa4\r\nOld: \xe4\r\nContent-Length: 0\r\n"
    reply = call(keeper(says(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")))
    assert reply.headers == {
        "x-one": "a, b",
        "folded": "a b",
        "word": "ä",
        "old": "ä",
        "content-length": "0",
    }


def test_a_head_has_no_body_whatever_it_says(keeper: Callable[..., Keeper]) -> None:
    server = keeper(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), says(OK))
    assert (call(server, "HEAD").content, call(server).content, server.connections) == (b"", b"{}", 1)


class Deaf(httpcore.NetworkStream):
    """A server that has hung up, and has said why."""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        raise httpcore.WriteError("it does not listen any more")

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"


def test_what_a_server_has_said_before_it_hung_up_is_its_answer() -> None:
    origin, head = http1.origin("http", "api.test", None), http1.head_of("POST", "/", [("Host", "api.test")])
    answer = http1.Connection(Deaf()).ask(http1.Request(origin, "POST", head, (b"x",), 1))
    assert answer.status == 413


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/", [("X", "a\r\nHost: other")]),
        ("GET", "/", [("X", "a\0")]),
        ("GET", "/", [("X\r\nHost", "other")]),
        ("GET", "/", [("X y", "a")]),
        ("GET", "/", [("", "a")]),
        ("GET", "/ HTTP/1.1\r\nHost: other\r\n\r\nGET /", [("Host", "one")]),
        ("GET /x HTTP/1.1\r\nX: y\r\n\r\nGET", "/", [("Host", "one")]),
        ("GET", "", [("Host", "one")]),
        ("GET", "/", []),
    ],
)
def test_what_would_be_no_request_or_more_than_one_is_not_sent(
    method: str, target: str, headers: list[tuple[str, str]]
) -> None:
    with pytest.raises(httpcore.LocalProtocolError):
        http1.head_of(method, target, headers)


@pytest.mark.parametrize("content", [[b"12"], [b"12", b"345"], []])
def test_content_of_another_length_than_was_said_is_an_ambiguous_end(
    keeper: Callable[..., Keeper], content: list[bytes]
) -> None:
    server = keeper(says(OK))
    with net.open_http(net.Policy(guarded=False, resolver=LOOPBACK)) as http, pytest.raises(ApiError) as caught:
        http.request("POST", server.url, content=iter(content), headers={"Content-Length": "4"})
    assert caught.value.outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize("url", ["ftp://api.test/x", "file:///etc/passwd", "api.test/x"])
def test_what_is_no_http_is_not_called(url: str) -> None:
    with net.open_http(net.Policy(guarded=False, resolver=LOOPBACK)) as http, pytest.raises(ApiError) as caught:
        http.request("POST", url, content=b"{}")
    assert caught.value.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize(
    "header",
    [
        b"X: a" + b" " * 100_000 + b"b\r\n",  # took 27 s: each length of the value looked for the space after it
        b"X:" + b" \t" * 50_000 + b"\r\n",
        b"X: a\r\n" + b"\t" * 99_000 + b"b\r\n",
        b"X:\r\n" * 20_000,
    ],
    ids=("a gap", "no value", "a fold", "many of a name"),
)
def test_a_head_is_read_in_time_that_grows_with_its_length(header: bytes) -> None:
    took = seconds(http1._parsed, b"HTTP/1.1 200 OK\r\n" + header.removesuffix(b"\r\n"))
    assert took < 1, "it grows with the square of the length"

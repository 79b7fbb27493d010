"""Keep-alive connections of the outbound HTTP client: reuse, closing, safe repeats."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import network, transport
from tests.support.keep_alive_server import (
    LOOPBACK,
    OK,
    ConnectionAct,
    KeepAliveServer,
    close_connection,
    reset_connection,
    respond,
)


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., KeepAliveServer]]:
    monkeypatch.setattr(transport, "FRESH_SECONDS", 600.0)  # however busy the machine is
    monkeypatch.setattr(transport, "IDLE_SECONDS", 600.0)
    made: list[KeepAliveServer] = []

    def make(*acts: ConnectionAct) -> KeepAliveServer:
        made.append(KeepAliveServer(*acts))
        return made[-1]

    yield make
    transport.close_idle(0)
    for server in made:
        server.close()


def call(
    server: KeepAliveServer,
    method: str = "POST",
    *,
    deadline: float = 30.0,
    policy: outbound.ConnectionPolicy | None = None,
) -> outbound.UpstreamResponse:
    """One call of one client, as each step of a post is one."""
    with outbound.HttpClient(policy or outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)) as http:
        return http.request(method, server.url, timeout=deadline)


def lost(server: KeepAliveServer, method: str = "POST", **more: float) -> Outcome | None:
    with pytest.raises(ApiError) as caught:
        call(server, method, **more)
    return caught.value.outcome


def test_calls_one_after_another_share_one_connection(keeper: Callable[..., KeepAliveServer]) -> None:
    server = keeper(*[respond(OK)] * 20)
    for number in range(20):
        assert call(server, "GET" if number % 3 else "POST").is_success
    assert (server.connections, len(server.requests)) == (1, 20)


@pytest.mark.parametrize("content", [b"{}", b"", [b"one", b"two"]])
def test_the_head_of_a_request_goes_out_with_what_follows_it(
    keeper: Callable[..., KeepAliveServer], monkeypatch: pytest.MonkeyPatch, content: bytes | list[bytes]
) -> None:
    sent: list[bytes] = []
    send = network.DeadlineStream._send

    def seen(stream: network.DeadlineStream, buffer: bytes, timeout: float | None) -> None:
        sent.append(stream._pending + buffer)
        send(stream, buffer, timeout)

    monkeypatch.setattr(network.DeadlineStream, "_send", seen)
    server = keeper(*4 * [respond(OK)])
    with outbound.HttpClient(outbound.ConnectionPolicy(False, LOOPBACK)) as http:
        for _ in range(2 if isinstance(content, bytes) else 1):  # what comes in pieces, this server answers twice
            http.request("POST", server.url, content=content)
            first, *rest = [each for each in sent if each]
            assert first.startswith(b"POST / HTTP/1.1\r\n")
            assert b"\r\n\r\n" in first
            if isinstance(content, bytes):
                assert (first.partition(b"\r\n\r\n")[2], rest) == (content, [])
            else:
                assert (b"one" in first, b"two" in rest[0], rest[-1]) == (True, True, b"0\r\n\r\n")
            sent.clear()


def test_calls_at_once_have_connections_of_their_own(keeper: Callable[..., KeepAliveServer]) -> None:
    both = threading.Barrier(2, timeout=30)

    def together(connection: socket.socket) -> bool:
        both.wait()
        return respond(OK)(connection)

    server = keeper(together, together)
    threads = [threading.Thread(target=call, args=(server,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert server.connections == 2


def test_a_connection_that_the_server_has_closed_is_not_used(keeper: Callable[..., KeepAliveServer]) -> None:
    server = keeper(close_connection(OK), respond(OK))  # without a word about it
    assert call(server).is_success
    assert server.ended.acquire(timeout=30)
    assert call(server).is_success
    assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/9.9 banana\r\n\r\n",
    ],
)
def test_after_an_error_a_connection_is_not_used_again(keeper: Callable[..., KeepAliveServer], broken: bytes) -> None:
    server = keeper(respond(OK), close_connection(broken), respond(OK))
    assert call(server).is_success
    assert lost(server) is Outcome.AMBIGUOUS
    assert call(server).is_success
    assert (server.connections, len(server.requests)) == (2, 3)


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_after_a_broken_body_a_connection_is_not_used_again(
    keeper: Callable[..., KeepAliveServer], broken: bytes
) -> None:
    server = keeper(respond(OK), close_connection(broken), respond(OK))
    assert [call(server).unread for _ in range(3)] == [None, outbound.UnreadReason.BROKEN, None]
    assert (server.connections, len(server.requests)) == (2, 3)


def test_an_answer_that_was_not_read_to_its_end_ends_the_connection(keeper: Callable[..., KeepAliveServer]) -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + b"x" * 200_000  # more than is read at once
    server = keeper(respond(large), respond(OK))
    with outbound.HttpClient(outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)) as http:
        assert http.request("POST", server.url, extensions={"max_bytes": 4}).unread is outbound.UnreadReason.TOO_LARGE
    assert call(server).is_success
    assert server.connections == 2


def test_more_than_an_answer_is_not_taken_for_the_next_one(keeper: Callable[..., KeepAliveServer]) -> None:
    forged = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n[]"
    server = keeper(respond(OK + forged), respond(OK))
    assert call(server).status_code == 200
    assert call(server).status_code == 200
    assert server.connections == 2


@pytest.mark.parametrize("ends", [close_connection(), reset_connection()], ids=["closed", "reset"])
def test_a_send_is_never_made_twice_when_a_kept_connection_dies(
    keeper: Callable[..., KeepAliveServer], ends: ConnectionAct
) -> None:
    server = keeper(respond(OK), ends, respond(OK), respond(OK))
    assert call(server).is_success
    assert lost(server) is Outcome.AMBIGUOUS
    assert len(server.requests) == 2
    # From now on no send depends on this server's patience.
    assert call(server).is_success
    assert call(server).is_success
    assert (server.connections, len(server.requests)) == (3, 4)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("ends", [close_connection(), reset_connection()], ids=["closed", "reset"])
def test_what_a_new_connection_lost_after_the_request_is_ambiguous(
    keeper: Callable[..., KeepAliveServer], ends: ConnectionAct, method: str
) -> None:
    """The server has the whole request: a reset does not show that nothing was done."""
    server = keeper(ends)
    assert lost(server, method) is Outcome.AMBIGUOUS
    assert (server.connections, len(server.requests)) == (1, 1)


def test_lookup_is_repeated_only_when_a_reused_connection_dies(
    keeper: Callable[..., KeepAliveServer],
) -> None:
    server = keeper(respond(OK), close_connection(), respond(OK))
    assert call(server).is_success
    assert call(server, "GET").is_success
    assert (server.connections, len(server.requests)) == (2, 3)
    other = keeper(close_connection())
    assert lost(other, "GET") is Outcome.AMBIGUOUS
    assert len(other.requests) == 1


def test_a_send_takes_a_connection_only_that_was_used_a_moment_ago(
    keeper: Callable[..., KeepAliveServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = keeper(*[respond(OK)] * 3)
    monkeypatch.setattr(transport, "FRESH_SECONDS", -1.0)
    assert call(server).is_success
    assert call(server, "GET").is_success
    assert server.connections == 1
    assert call(server).is_success
    assert server.connections == 2


def test_a_server_that_says_how_long_it_waits_is_believed(keeper: Callable[..., KeepAliveServer]) -> None:
    brief = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\n{}"
    server = keeper(respond(brief), respond(OK))
    assert call(server, "GET").is_success
    assert call(server, "GET").is_success
    assert server.connections == 2


def test_the_deadline_is_that_of_the_call_and_not_of_the_connection(keeper: Callable[..., KeepAliveServer]) -> None:
    def silent(connection: socket.socket) -> bool:
        return bool(connection.recv(1))

    server = keeper(respond(OK), silent)
    assert call(server, deadline=30).is_success
    assert lost(server, deadline=0.2) is Outcome.AMBIGUOUS
    assert server.connections == 1


def test_no_cookie_goes_from_one_call_to_the_next(keeper: Callable[..., KeepAliveServer]) -> None:
    server = keeper(respond(OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: who=alice; Path=/\r\n\r\n")), respond(OK))
    assert call(server).is_success
    assert call(server).is_success
    assert server.connections == 1
    assert b"cookie" not in server.requests[1].lower()


def test_what_one_policy_has_connected_serves_no_other(keeper: Callable[..., KeepAliveServer]) -> None:
    server = keeper(respond(OK), respond(OK))
    assert call(server).is_success
    assert call(
        server, policy=outbound.ConnectionPolicy(guarded=False, resolver=lambda host, port: ["127.0.0.1"])
    ).is_success
    assert server.connections == 2


def test_few_are_kept_and_what_is_idle_is_closed(
    keeper: Callable[..., KeepAliveServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "IDLE_MAX", 2)
    servers = [keeper(respond(OK)) for _ in range(3)]
    for server in servers:
        assert call(server).is_success
    assert servers[0].ended.acquire(timeout=30)
    assert not servers[1].ended.acquire(blocking=False)
    outbound.close_idle(0)
    assert all(server.ended.acquire(timeout=30) for server in servers[1:])


def test_the_hops_of_a_download_keep_their_connection_too(keeper: Callable[..., KeepAliveServer]) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
    server, into = keeper(respond(away), respond(OK), respond(OK)), io.BytesIO()
    with outbound.HttpClient(outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)) as http:
        assert http.download(server.url, into, max_bytes=9, timeout=30).is_success
    assert into.getvalue() == b"{}"
    assert call(server).is_success
    assert len(server.requests) == 3

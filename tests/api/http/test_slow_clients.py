"""Clients that send byte by byte are cut off in time, in headers and bodies."""

from __future__ import annotations

import asyncio

import pytest
from sanic.http import Stage

from socialpub.web.http import request_body
from socialpub.web.http.sanic_overrides import ServerProtocol
from tests.support import raw_http
from tests.support.app_server import AppServer
from tests.support.request_cast import RequestCast
from tests.support.slow_client import DripResult, drip
from tests.support.soak.soak_world import wait_for

DROPPED_SECONDS = 10  # the times that the tests do not change are longer: 15 s of a request and of a body, 75 of a rest
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "


def dripped(server: AppServer, head: bytes) -> DripResult:
    return asyncio.run(drip(server.port, head, b"x", every=0.05, times=400))


def test_headers_that_come_byte_by_byte_time_out_as_a_whole(server: AppServer) -> None:
    server.restart(REQUEST_TIMEOUT=0.5)
    ended = dripped(server, HALF)
    assert ended.status == 408
    assert 0.5 <= ended.seconds < DROPPED_SECONDS


def test_headers_of_a_later_request_time_out_too(server: AppServer) -> None:
    server.restart(REQUEST_TIMEOUT=0.5)
    ended = dripped(server, WHOLE + HALF)
    assert [ended.answer.count(b"HTTP/1.1 %d " % status) for status in (200, 408)] == [1, 1]


def test_a_body_that_comes_byte_by_byte_times_out_as_a_whole(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.5)
    head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\n"
    ended = dripped(world.server, f"{head}Content-Length: 99999\r\n\r\n".encode())
    assert ended.status == 408
    assert 0.5 <= ended.seconds < DROPPED_SECONDS


def test_the_rest_of_a_refused_body_is_not_heard_for_ever(server: AppServer) -> None:
    server.restart(KEEP_ALIVE_TIMEOUT=0.5)
    ended = dripped(server, b"POST /v1/posts HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n")
    assert ended.status == 401
    assert ended.seconds < DROPPED_SECONDS


def test_a_client_that_asks_again_and_again_is_not_cut_off(server: AppServer) -> None:
    server.restart(REQUEST_TIMEOUT=0.5)
    ended = asyncio.run(drip(server.port, WHOLE, WHOLE, every=0.1, times=15))
    assert ended.answer.count(b"HTTP/1.1 200 ") >= 15


def test_a_client_that_asks_for_a_websocket_is_cut_off_too(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sanic looks at the times of such a connection no more, once it has looked while its request was handled."""
    world.server.restart(world.alice, KEEP_ALIVE_TIMEOUT=0.5)
    looked: list[Stage] = []
    look = ServerProtocol.check_timeouts

    def seen(line: ServerProtocol) -> None:
        look(line)
        looked.extend([line.http.stage] if line.http else [])

    monkeypatch.setattr(ServerProtocol, "check_timeouts", seen)
    head = f"PATCH /v1/posts/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\nUpgrade: websocket\r\n"
    with raw_http.connect(world.server) as line:
        line.sendall(f"{head}Content-Length: 2\r\n\r\n{{".encode())
        assert wait_for(lambda: Stage.HANDLER in looked, 30)
        line.sendall(b"}")
        assert raw_http.read_response(line).status == 400
        assert line.recv(1) == b""

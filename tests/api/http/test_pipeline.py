"""Request pipeline: tasks of reads and writes, response headers, pipelined bodies."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sanic.http import Http
from sanic.signals import SignalRouter

from socialpub.web.http import request_body
from socialpub.web.http.middleware import SECURITY_HEADERS
from socialpub.web.http.sanic_overrides import ServerApp, ServerResponse
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, AppServer, Person, format_instant
from tests.support.raw_http import connect, read_response, send_raw
from tests.support.soak.soak_world import wait_for

RATE = ["ratelimit", "ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset"]


@pytest.fixture
def app(server: AppServer) -> ServerApp:
    return server.app


def test_a_request_dispatches_no_signal(app: ServerApp, alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sanic would look up fourteen for each request."""
    dispatched: list[str] = []
    dispatch = SignalRouter.dispatch

    def counted(router: SignalRouter, event: str, **named: Any) -> Any:
        dispatched.append(event)
        return dispatch(router, event, **named)

    alice.api.get("/healthz")
    monkeypatch.setattr(SignalRouter, "dispatch", counted)
    assert [alice.api.get(path).status_code for path in ("/healthz", "/v1/nothing")] == [200, 404]
    assert dispatched == []


@pytest.mark.parametrize(
    ("path", "more"),
    [("/healthz", []), ("/v1/nothing", ["x-ratelimit-limit"]), ("/v1/posts", [*RATE, "x-ratelimit-limit", "etag"])],
)
def test_each_header_stands_there_once_and_none_that_nobody_meant(
    path: str, more: list[str], server: AppServer, alice: Person
) -> None:
    answer = alice.api.get(path)
    always = [
        "x-request-id",
        "content-length",
        "content-type",
        "connection",
        "cache-control",
        *map(str.lower, SECURITY_HEADERS),
    ]
    assert sorted(name.lower() for name, _ in answer.headers.multi_items()) == sorted(always + more)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/api-keys", "unauthorized"),
        ("POST", "/v1/profiles", "unauthorized"),
        ("POST", "/v1/accounts/connect/tiktok", "platform_not_enabled"),
    ],
)
def test_a_key_is_counted_where_only_sessions_may_act(
    make_server: Callable[..., AppServer], method: str, path: str, code: str
) -> None:
    server = make_server(limits={"reads": 2, "writes": 2}, platforms={"tiktok": {"enabled": False}})
    api = server.person("Alice").api
    answers = [api.request(method, path) for _ in range(3)]
    assert [answer.json()["error"]["code"] for answer in answers] == [code, code, "rate_limited"]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that begin on the loop of the server, by their coroutines' names."""
    begun: list[str] = []
    create = asyncio.BaseEventLoop.create_task

    def counted(loop: asyncio.BaseEventLoop, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        if threading.current_thread().name == "web":
            begun.append(coroutine.__qualname__)
        return create(loop, coroutine, **named)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", counted)
    return begun


LIGHT = [route.path for route in ROUTES if route.cancellable]


def test_what_only_reads_runs_in_the_task_of_its_connection(
    subtests: pytest.Subtests, alice: Person, tasks: list[str]
) -> None:
    for path in LIGHT:
        with subtests.test(path=path):
            alice.api.get("/healthz")  # which makes the connection
            tasks.clear()
            alice.api.get(re.sub(r"<\w+:str>", UNKNOWN_ID, path))
            assert tasks == []


def test_what_writes_runs_in_a_task_that_goes_on_without_its_caller(alice: Person, tasks: list[str]) -> None:
    alice.api.get("/healthz")
    tasks.clear()
    alice.api.delete(f"/v1/posts/{UNKNOWN_ID}")
    assert len([name for name in tasks if name.startswith("RequestPipeline.")]) == 1


def test_only_reads_are_light() -> None:
    assert [route.path for route in ROUTES if route.cancellable and route.method != "GET"] == []


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b=c", "a\nSet-Cookie: b=c", "a\0Set-Cookie: b=c"])
def test_a_header_is_one_line_whatever_stands_in_it(value: str) -> None:
    made = ServerResponse(headers={"Location": value}, cookies=(value,))
    told = {name: line for name, line in made.processed_headers if name != b"content-type"}
    assert told == {b"Location": b"aSet-Cookie: b=c", b"Set-Cookie": b"aSet-Cookie: b=c"}


@pytest.mark.parametrize(("asked", "kept"), [("", "keep-alive"), ("Connection: close\r\n", "close")])
def test_an_answer_says_whether_the_connection_goes_on(asked: str, kept: str, server: AppServer) -> None:
    answer = send_raw(server, f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{asked}\r\n".encode())
    assert (answer.status, answer.headers["connection"]) == (200, kept)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of bodies each reading brought."""
    brought: list[int] = []
    as_ever = Http.read

    async def counted(stream: Http) -> bytes | None:
        piece: bytes | None = await as_ever(stream)
        brought.append(len(piece or b""))
        return piece

    monkeypatch.setattr(Http, "read", counted)
    return brought


def posted(person: Person, body: bytes, *more: str) -> bytes:
    lines = ["POST /v1/posts HTTP/1.1", "Host: x", f"Authorization: Bearer {person.key}", *more]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def test_bodies_that_came_with_their_heads_are_answered_in_turn(server: AppServer, alice: Person) -> None:
    body = json.dumps({"text": "x", "targets": []}).encode()
    with connect(server) as line:
        line.sendall(posted(alice, body) + posted(alice, body))
        rules = [read_response(line).error()["rule"], read_response(line).error()["rule"]]
    assert rules == ["targets.required"] * 2


def test_a_key_is_sent_for_the_same_however_the_body_comes(server: AppServer, alice: Person, reads: list[int]) -> None:
    at = format_instant(server.clock.now_ms() + 3_600_000)
    body = json.dumps({"text": "x", "scheduledAt": at, "targets": [{"accountId": alice.bluesky}]}).encode()
    whole = posted(alice, body, "Idempotency-Key: k")
    first = send_raw(server, whole)
    reads.clear()
    with connect(server) as line:
        line.sendall(posted(alice, body, "Idempotency-Key: k", "Expect: 100-continue")[: -len(body)])
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(body[:20])
        assert wait_for(lambda: sum(reads) == 20, 30)
        line.sendall(body[20:])
        again = read_response(line)
    assert (first.status, again.status, again.body) == (202, 202, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert send_raw(server, whole.replace(b'"x"', b'"y"')).error()["code"] == "idempotency_conflict"


def test_other_bodies_are_read_as_they_come(server: AppServer, alice: Person, reads: list[int]) -> None:
    body = json.dumps({"text": "x" * request_body.INLINE_PARSE_MAX, "targets": []}).encode()
    assert send_raw(server, posted(alice, body)).error()["rule"] == "targets.required"
    assert sum(reads) == len(body)
    with connect(server) as line:
        whole = posted(alice, b'{"targets":[]}', "Expect: 100-continue")
        line.sendall(whole[:-14])
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(whole[-14:])
        assert read_response(line).error()["rule"] == "targets.required"
    assert sum(reads) == len(body) + 14

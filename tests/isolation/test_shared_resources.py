"""Resources shared by all callers: connection descriptors and cached pages."""

from __future__ import annotations

import json
import resource
import socket

import pytest

from socialpub.base.system.host_identity import FILE_LIMIT_MAX
from socialpub.web.html import templates
from socialpub.web.http import page_cache
from socialpub.web.server import connections_max
from tests.support import raw_http
from tests.support.app_server import AppServer
from tests.support.request_cast import RequestCast

# --- Connections ---


def is_closed(line: socket.socket) -> bool:
    """Whether the server has hung up; at once, or as soon as it gets to it."""
    line.settimeout(0.05)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_beyond_the_room_there_is_the_longest_idle_go_and_the_busy_stay(world: RequestCast) -> None:
    server, body = world.server, json.dumps(world.body()).encode()
    server.restart(world.alice, CONNECTIONS_MAX=10)
    head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\n"
    with raw_http.connect(server) as busy:
        busy.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        lines = [raw_http.connect(server) for _ in range(40)]
        for line in lines[-3:]:
            line.sendall(b"GET /healthz HT")
        for _ in range(5):
            assert raw_http.send_raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
        for line in lines[:25]:
            assert any(is_closed(line) for _ in range(100)), "an idle connection was kept"
        busy.sendall(body[5:])
        assert raw_http.read_response(busy).status == 200
        for line in lines:
            line.close()


def test_the_room_is_below_the_limit_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, reserved, wanted in (
        (1024, 288, 636),
        (256, 288, 128),
        (10**9, 288, FILE_LIMIT_MAX - 388),
        (resource.RLIM_INFINITY, 0, FILE_LIMIT_MAX - 100),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert connections_max(reserved) == wanted


# --- Constant pages ---

PAGES = [
    "/docs", "/docs/reference", "/docs/events", "/docs/settings", "/docs/errors/not_found", "/docs/rules/body.json",
    "/docs/rules/targets.3.x", "/openapi.json", "/static/icon.svg",
]  # fmt: skip


def test_constant_pages_are_made_once(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    plain = templates.render
    monkeypatch.setattr(
        templates, "render", lambda template, **values: made.append(template) or plain(template, **values)
    )
    api = server.api()
    for path in PAGES:
        first = api.get(path)
        assert first.status_code == 200, path
        before, tag = len(made), first.headers["ETag"]
        assert api.get(path).content == first.content
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = api.get(path, headers={"If-None-Match": known})
            assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
        assert api.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
        assert api.head(path).headers["ETag"] == tag
        assert len(made) == before, f"{path} was made again"
        assert "no-store" not in first.headers["Cache-Control"]


def test_no_more_pages_are_kept_than_there_is_room_for(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "PAGES_MAX", 3)
    api = server.api()
    for path in [f"/docs/rules/made.up.{number}" for number in range(9)] * 2:
        assert api.get(path).status_code == 200
    assert api.get("/docs/rules/" + "x" * 201).status_code == 404

"""Request metadata read before authentication: address, host, cookies and body size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sanic.cookies import request as sanic_cookies

from socialpub.base.concurrency.admission import Pacer
from socialpub.base.config import ConfigError
from socialpub.base.errors import ApiError
from socialpub.web.http.file_response import ByteRange, parse_range
from socialpub.web.http.handler import HandlerResponse
from socialpub.web.http.page_cache import PageCache
from socialpub.web.http.request_body import FORM_MAX, MIB, SMALL_BODY_MAX
from tests.support import raw_http
from tests.support.app_server import AppServer, Person, error_of, unchanged
from tests.support.request_cast import RequestCast
from tests.support.settings_files import load_settings
from tests.support.sign_in import EMAIL, add_user, csrf_of, sign_in, signed_in

Make = Callable[..., AppServer]


# --- Addresses ---


@pytest.mark.parametrize(
    ("proxies", "forwarded", "same"),
    [
        ([], ["203.0.113.1", "203.0.113.2"], "203.0.113.2"),  # two lines are one list
        ([], ["203.0.113.1, 127.0.0.1", "127.0.0.1"], "203.0.113.1"),
        ([], ["::ffff:203.0.113.1"], "203.0.113.1"),
        ([], ["203.0.113.1", "::ffff:127.0.0.1"], "203.0.113.1"),
        ([], ["203.0.113.1:4711"], "203.0.113.1"),
        ([], ["[2001:db8::1]:4711"], "2001:db8::2"),
        ([], ["2001:db8:0:1::1"], "2001:db8:0:1:ffff::9"),  # a /64 is one caller
        (["10.1.0.0/16"], ["203.0.113.1, 10.1.2.3"], "203.0.113.1"),
        (["2001:db8:7::/48"], ["203.0.113.1, 2001:db8:7::5"], "203.0.113.1"),
        (["10.1.2.3:8443"], ["203.0.113.1, 10.1.2.3"], "203.0.113.1"),
    ],
)
def test_one_caller_is_counted_as_one(proxies: list[str], forwarded: list[str], same: str, make_server: Make) -> None:
    server = make_server(limits={"reads": 1}, server={"trusted_proxies": ["127.0.0.1", *proxies]})
    lines = [(b"X-Forwarded-For", line.encode()) for line in forwarded]
    assert server.api().get("/v1/rules", headers=lines).status_code == 200
    assert server.api(**{"X-Forwarded-For": same}).get("/v1/rules").status_code == 429
    assert server.api(**{"X-Forwarded-For": "198.51.100.1"}).get("/v1/rules").status_code == 200
    assert server.api(**{"X-Forwarded-For": "2001:db8:0:2::1"}).get("/v1/rules").status_code == 200


@pytest.mark.parametrize("wrong", ["example.com", "10.0.0.0/33", "", "10.0.0.1:http"])
def test_a_proxy_that_is_no_address_is_refused_at_start(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"server\.trusted_proxies"):
        load_settings(f'[server]\ntrusted_proxies = ["{wrong}"]')


# --- Hosts ---

OURS = ["pub.example.com", "PUB.example.com", "pub.example.com:443", "127.0.0.1:8080", "localhost", "[::1]:1"]
OTHERS = ["evil.example.com", "pub.example.com:8443", "pub.example.com.evil.org", "10.0.0.1", ""]


def asking(path: str, *hosts: str) -> bytes:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    return f"GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode()


def test_with_a_base_url_only_its_host_is_served(make_server: Make) -> None:
    server = make_server(server={"base_url": "https://pub.example.com"})
    server.url = f"http://127.0.0.1:{server.port}"
    for host in OURS:
        assert raw_http.send_raw(server, asking("/v1/rules", host)).status == 200, host
    for hosts in ([], OURS[:2], ["pub.example.com:x"]):
        answer = raw_http.send_raw(server, asking("/v1/rules", *hosts))
        assert (answer.status, answer.error()["rule"]) == (400, "http.request"), hosts
    for host in OTHERS:
        answer = raw_http.send_raw(server, asking("/v1/rules", host))
        assert (answer.status, answer.error()["rule"]) == (421, "http.host"), host
        assert "pub.example.com" in answer.error()["message"]
    for path in ("/healthz", "/readyz"):
        assert raw_http.send_raw(server, asking(path, "10.0.0.7:8080")).status == 200


def test_without_a_base_url_any_host_is_served(server: AppServer) -> None:
    assert raw_http.send_raw(server, asking("/v1/rules", "anything.example.com")).status == 200


# --- Headers that take long to read ---


def test_no_cookie_of_anybodys_is_read_by_sanic(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sanic's reader looks through all of a quoted value once for each backslash in it."""
    read: list[str] = []
    monkeypatch.setattr(sanic_cookies, "_unquote", read.append)
    hostile = 'socialpub_session="' + "\\" * 7000 + '"'
    for method, path in (("GET", "/v1/posts"), ("GET", "/"), ("POST", "/login"), ("POST", "/v1/profiles")):
        answer = server.api(Cookie=hostile).request(method, path)
        assert answer.status_code in (303, 401, 403), path
    assert read == []


def test_our_cookie_is_found_among_others(server: AppServer, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    value = signed_in(server).cookies["socialpub_session"]
    for cookie in (
        f"a=1; socialpub_session={value}",
        f"socialpub_session={value};x",
        f"=; ;socialpub_session = {value} ;",
    ):
        assert server.api(Cookie=cookie).get("/v1/posts").status_code == 200, cookie
    for cookie in (
        f"xsocialpub_session={value}",
        f'socialpub_session="{value}"',
        "socialpub_session=",
        "socialpub_session",
    ):
        assert server.api(Cookie=cookie).get("/v1/posts").status_code == 401, cookie


@pytest.mark.parametrize("asked", ["bytes=" + " " * 7000 + "x", "bytes=" + "1" * 19 + "-", "bytes=1-2-3", "byte=1-2"])
def test_a_range_that_cannot_be_read_is_none(asked: str) -> None:
    assert parse_range(asked, 100) is None


@pytest.mark.parametrize("asked", ["bytes=1-2", "bytes= 1 - 2 ", "bytes=  1-2"])
def test_white_space_in_a_range_is_nothing(asked: str) -> None:
    assert parse_range(asked, 100) == ByteRange(1, 3)


# --- Bodies nobody wants ---


@pytest.mark.parametrize("path", ["/healthz", "/v1/rules", "/docs/reference", "/openapi.json", "/login", "/v1/posts"])
def test_no_read_takes_a_body(path: str, server: AppServer, alice: Person) -> None:
    """Half sent, and refused by what it says of itself: nothing is waited for."""
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\nContent-Length: 8388608\r\n\r\n"
    answer = raw_http.send_raw(server, head.encode() + b"x" * 1000)
    assert (answer.status, answer.error()["rule"]) == (413, "http.body_size")


FORM_HEAD = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"


@pytest.mark.parametrize(("path", "most"), [("/login", SMALL_BODY_MAX), ("/setup/x", FORM_MAX)])
def test_a_form_of_somebody_unknown_is_small(path: str, most: int, server: AppServer) -> None:
    answer = raw_http.send_raw(server, FORM_HEAD.format(path, most + 1).encode())
    assert (answer.status, answer.error()["rule"]) == (413, "http.body_size")
    assert f"{most // 1024} KiB" in answer.error()["message"]
    assert raw_http.send_raw(server, FORM_HEAD.format(path, most).encode() + b"=" * most).status == 403


@pytest.mark.parametrize(("path", "most"), [("/settings/keys", FORM_MAX), ("/compose", SMALL_BODY_MAX)])
def test_of_a_form_of_an_ended_session_only_the_start_is_read(path: str, most: int, server: AppServer) -> None:
    """After a sign-in the form is filled in again, or a message says that it was too large."""
    for declared, sent in ((most, most), (8 * MIB, most + 1)):
        answer = raw_http.send_raw(server, FORM_HEAD.format(path, declared).encode() + b"=" * sent)
        assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/login")


def test_a_body_is_not_waited_for_before_its_key_is_known(server: AppServer) -> None:
    head = "POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer svc_live_x\r\nContent-Length: 8388608\r\n\r\n"
    assert raw_http.send_raw(server, head.encode()).status == 401


@pytest.mark.parametrize("chunked", [False, True])
def test_what_comes_behind_a_body_that_nobody_reads_is_served(chunked: bool, server: AppServer, alice: Person) -> None:
    size, said = 8 * MIB, "Transfer-Encoding: chunked" if chunked else f"Content-Length: {8 * MIB}"
    with raw_http.connect(server) as line:
        head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer svc_live_x\r\n{said}\r\n\r\n"
        line.sendall(head.encode() + (f"{size:x}\r\n".encode() if chunked else b"") + b"x" * 10)
        assert raw_http.read_response(line).status == 401
        line.sendall(b"x" * (size - 10) + (b"\r\n0\r\n\r\n" if chunked else b""))
        line.sendall(f"GET /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\n\r\n".encode())
        assert raw_http.read_response(line).status == 200


class Looped(asyncio.SelectorEventLoop):
    """A loop whose clock goes on only while somebody sleeps, and at once."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any, *arguments: Any, context: Any = None) -> asyncio.TimerHandle:
        self.now = max(self.now, when)
        return super().call_at(when, callback, *arguments, context=context)


def test_long_pages_go_out_at_a_pace_and_short_ones_at_once() -> None:
    """Sixteen readers of a page of 100 KiB at 100 KiB a second; who would wait more than five seconds is sent away."""
    loop, shelf, waited, refused = Looped(), PageCache(100 * 1024), list[float](), list[str]()

    async def page(size: int) -> HandlerResponse:
        return HandlerResponse(b"x" * size * 1024)

    async def ask(path: str, size: int) -> None:
        began = loop.time()
        try:
            assert len((await shelf.get(path, {}, lambda: page(size))).body) == size * 1024
        except ApiError as error:
            refused.append(error.rule or "")
        else:
            waited.append(loop.time() - began)

    async def all_at_once() -> None:
        for number in range(16):
            loop.now = 0.0
            await ask("/long", 100)
            assert number > 5 or waited[-1] == number
        loop.now = 0.0
        await ask("/short", 64)

    loop.run_until_complete(all_at_once())
    loop.close()
    assert (waited, refused) == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0], ["http.busy"] * 10)


def test_large_bodies_that_are_refused_are_answered_at_a_pace(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones are not, nor those that are taken."""
    asked: list[str] = []
    monkeypatch.setattr(Pacer, "wait", lambda pacer, owner, now, turns=1.0: asked.append(owner) or 0.0)
    many = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": ["media_x"] * 3000}
    few = many | {"media": ["media_x"] * 41}
    with unchanged(server):
        for body in (many, few, many):
            assert alice.api.post("/v1/posts/validate", json=body).status_code == 400
    long = {"targets": [{"accountId": alice.bluesky}], "text": "x" * 9000}
    assert alice.api.post("/v1/posts/validate", json=long).status_code == 200
    assert asked == [alice.organization] * 2


def test_what_a_write_needs_little_for_takes_little(world: RequestCast) -> None:
    post = world.scheduled()
    with unchanged(world.server):
        answer = world.alice.api.post(f"/v1/posts/{post}/retry", content=b" " * 70_000)
        assert (answer.status_code, error_of(answer)["rule"]) == (413, "http.body_size")
        assert "64 KiB" in error_of(answer)["message"]


# --- Forms and pages ---


def test_a_form_of_too_many_fields_is_refused(server: AppServer, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    api = server.api()
    fields = {f"f{number}": "" for number in range(98)}
    assert sign_in(api, **fields).status_code == 400  # and three more
    answer = server.api(Accept="application/json").post("/login", content="&".join(["x="] * 101).encode())
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "http.request")
    assert "100 fields" in error_of(answer)["message"]
    token = csrf_of(api.get("/login"))
    assert api.post("/login", data={"csrf_token": token, "email": EMAIL}).status_code == 401


FROM_ELSEWHERE: list[dict[str, str]] = [
    {"Origin": "https://evil.example.com"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "null"},
    {"Origin": "http://["},
]


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
def test_a_session_writes_from_our_own_pages_only(headers: dict[str, str], server: AppServer, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    browser = signed_in(server)
    ours: dict[str, Any] = {"X-CSRF-Token": csrf_of(browser.get("/")), "Content-Type": "application/json"}
    body = json.dumps({"name": "Second"}).encode()
    with unchanged(server):
        answer = browser.post("/v1/profiles", content=body, headers=ours | headers)
        assert (answer.status_code, error_of(answer)["rule"]) == (403, "csrf")
    assert browser.post("/v1/profiles", content=body, headers=ours | {"Origin": server.url}).status_code == 201

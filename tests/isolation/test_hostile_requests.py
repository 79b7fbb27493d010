"""Generated hostile requests on every route: an answer to each, and never a 5xx.

They are sent as every kind of caller, in every content type. No answer is larger than what was asked for.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from socialpub.web.http.handler import Route
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, AppServer
from tests.support.reporting import TIMED, ReportLine
from tests.support.request_cast import RequestCast
from tests.support.sign_in import EMAIL, add_user, csrf_of, signed_in

ANSWER_MAX = 64 * 1024
SECOND_MS = 1000
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TYPES = (
    None, "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/html",
    'multipart/form-data; boundary="' + ";" * 3000, "image/png", "application/json; charset=utf-16", "*/*", ";",
)  # fmt: skip
EARNED = ("/openapi.json", "/docs", "/static", "/v1/rules", "/v1/platforms")  # long for everybody who asks for them


# --- What is sent ---


URL_MAX = 60_000  # characters: httpx sends no longer ones than 65,536, and the server takes fewer


@dataclass
class Mill:
    """Makes requests from a seed."""

    world: RequestCast
    random: random.Random
    cookie: dict[str, str]

    def request(self, route: Route) -> dict[str, Any]:
        pick = self.random.random()
        method = route.method if pick < 0.8 else self.random.choice(METHODS)
        path = re.sub(r"<\w+:\w+>", lambda _: self.value(), route.path)
        if self.random.random() < 0.4:
            path += "?" + "&".join(self.parameter() for _ in range(self.random.choice((1, 2, 5, 120))))
        return {"method": method, "url": path[:URL_MAX], "headers": self.headers(), "content": self.body(route)}

    def value(self) -> str:
        return self.random.choice(
            (
                UNKNOWN_ID, UNKNOWN_MEDIA, "x", "%00", "..%2f..%2fetc", "%ff%fe", "x" * 3000, "'", "1e999", "bluesky",
                "%F0%9F%98%80", "a.b.c", "-1", self.world.alice.bluesky, self.world.charlie.bluesky,
            )
        )  # fmt: skip

    def parameter(self) -> str:
        name = self.random.choice(
            ("limit", "status", "platform", "q", "cursor", "after", "profileId", "x" * 50, "a[0]")
        )
        return f"{name}={self.value()}{',x' * self.random.choice((0, 1, 60))}"

    def headers(self) -> list[tuple[bytes, bytes]]:
        who = self.random.choice(
            (
                {}, {"Authorization": f"Bearer {self.world.alice.key}"},
                {"Authorization": f"Bearer {self.world.bob.key}"},
                {"Authorization": "Bearer svc_live_" + "0" * 49}, {"Authorization": "Basic eA=="}, self.cookie,
            )
        )  # fmt: skip
        odd: dict[str, bytes] = {
            "Cookie": b'socialpub_session="' + b"\\" * 5000, "Range": b"bytes=" + b" " * 3000 + b"1",
            "Accept": b"text/html;" * 400, "X-Forwarded-For": b"::1," * 900 + b"x", "X-Request-Id": b"\xff" * 40,
            "If-None-Match": b'"x",' * 800, "Prefer": b'wait="' + b"\\\\" * 2000, "traceparent": b"00-" + b"0" * 4000,
            "Idempotency-Key": self.random.randbytes(3).hex().encode() * self.random.choice((1, 20, 43)),
            "Origin": b"http://[", "Forwarded": b'for="' + b"\\" * 4000, "Content-Encoding": b"gzip",
        }  # fmt: skip
        names = self.random.sample(sorted(odd), self.random.choice((0, 0, 1, 1, 2)))
        kind = self.random.choice(TYPES)
        sent = [(name.encode(), value.encode()) for name, value in who.items()]
        sent += [(name.encode(), odd[name]) for name in names if name not in who]
        return sent + ([(b"Content-Type", kind.encode())] if kind else [])

    def body(self, route: Route) -> bytes:
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: b"", self.json, self.json, self.json, self.form, self.multipart,
            lambda: self.random.randbytes(self.random.choice((1, 100, 20_000))),
        )  # fmt: skip
        return self.random.choice(makers)() if route.method != "GET" or self.random.random() < 0.1 else b""

    def json(self) -> bytes:
        size = self.random.choice((10, 1000, 100_000))
        return self.random.choice(
            (
                lambda: b'{"targets":[' + b"0," * size + b"0]}",
                lambda: b"[" * size,
                lambda: b'{"a":' * size,
                lambda: json.dumps(dict.fromkeys((f"f{n}" for n in range(size)), 1)).encode(),
                lambda: json.dumps({"n" * size: 1}).encode(),
                lambda: b'{"text":"' + b"\\ud800" * size + b'"}',
                lambda: b'{"targets":[{"accountId":"' + b"\\" * size + b'"}]}',
                lambda: b"1" * size,
                lambda: json.dumps(self.batch(size)).encode(),
                lambda: json.dumps(self.batch(size)).encode()[:-1],
                lambda: b'{"published":tru' + b" " * size,
                lambda: b"\xff\xfe" + "{}".encode("utf-16-le"),
            )
        )()

    def batch(self, size: int) -> dict[str, Any]:
        """Nearly a publish request."""
        choose = self.random.choice
        target = choose(
            (
                {"accountId": self.world.alice.bluesky},
                {"platform": "bluesky"},
                {"accountId": UNKNOWN_ID},
                {},
                {"platform": "x"},
            )
        )
        files = [{"kind": "image", "bytesBase64": "A" * size}]
        more: dict[str, Any] = {
            "options": {"platform": choose(("bluesky", "threads", "", "x" * 50)), "langs": ["de"] * choose((1, 999))},
            "media": choose(([UNKNOWN_MEDIA] * choose((1, 40, 500)), files, [None])),
            "text": choose(("com." * (size // 4), "\u0301" * size, "@" * size, "\0", "#a" * 20)),
            "firstComment": {"text": "x" * size},
        }  # fmt: skip
        fields = {name: more[name] for name in self.random.sample(sorted(more), choose((0, 1, 2)))}
        when = choose(({}, {"scheduledAt": "9999-12-31T23:59:60Z"}, {"publishNow": False}, {"deep": False}))
        return {"targets": [target | fields] * choose((1, 2, 25, 26)), "text": "hello", **when}

    def form(self) -> bytes:
        return b"&".join([b"email=a%40example.com&password=x&csrf_token=%ff"] * self.random.choice((1, 40, 9000)))

    def multipart(self) -> bytes:
        part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + b"\\" * 500 + b'"\r\n\r\n'
        return self.random.choice((part, part + b"\x89PNG" * 50, part * 30, b"--x" * 900, b"--x--\r\n"))


# --- What holds ---


class Times(logging.Handler):
    """What the server says each answer took, in milliseconds."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.took: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if match := re.search(r" ([0-9.]+)ms\b", record.getMessage()):
            self.took.append(float(match[1]))


@contextlib.contextmanager
def timed() -> Iterator[Times]:
    times, log = Times(), logging.getLogger("socialpub.web")
    log.addHandler(times)
    level = log.level
    log.setLevel(logging.DEBUG)  # health checks too
    try:
        yield times
    finally:
        log.setLevel(level)
        log.removeHandler(times)


def earned(request: dict[str, Any], answer: httpx.Response) -> bool:
    """Whether somebody who asked for it well got something long."""
    return answer.status_code in (200, 201, 202) and request["url"].partition("?")[0].startswith(EARNED)


@pytest.fixture
def mill(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> Callable[[int], Mill]:
    limits = dict.fromkeys(("posts", "media", "writes", "reads", "failed_logins"), 10_000_000)
    world = world_of(make_server(limits=limits))
    add_user(world.server, world.alice, EMAIL, "owner")
    browser = signed_in(world.server)
    token = csrf_of(browser.get("/"))
    cookie = {"Cookie": f"socialpub_session={browser.cookies['socialpub_session']}", "X-CSRF-Token": token}
    return lambda seed: Mill(world, random.Random(seed), cookie)


SKIPPED = ("/logout",)  # it would end the session that the other requests need


def grind(mill: Mill, count: int) -> int:
    """Send so many; how many bytes the largest answer had that nobody earned."""
    largest = 0
    routes = [route for route in ROUTES if route.path not in SKIPPED]
    with httpx.Client(base_url=mill.world.server.url, trust_env=False, timeout=120) as client:
        for number in range(count):
            request = mill.request(routes[number % len(routes)])
            what = request["method"], request["url"][:200], request["headers"], request["content"][:200]
            shown = f"{number}: {what}"
            answer = client.request(**request)
            assert answer.status_code < 500, f"{answer.status_code} for {shown}"
            if not earned(request, answer):
                assert len(answer.content) <= ANSWER_MAX, f"{len(answer.content):,} bytes for {shown}"
                largest = max(largest, len(answer.content))
    return largest


@pytest.mark.slow
def test_hostile_requests_are_answered(mill: Callable[[int], Mill]) -> None:
    with timed() as times:
        grind(mill(1), 400)
    assert len(times.took) >= 400


@pytest.mark.slow
@pytest.mark.alone
def test_10_000_hostile_requests_are_answered_in_a_second_each(mill: Callable[[int], Mill], tell: ReportLine) -> None:
    """Against a server that has the machine for itself."""
    with timed() as times:
        largest = grind(mill(2), 10_000)
    slowest = max(times.took)
    tell(f"10,000 hostile requests: slowest {slowest:,.0f} ms, largest unearned answer {largest:,} bytes, no 5xx")
    assert slowest <= SECOND_MS or not TIMED

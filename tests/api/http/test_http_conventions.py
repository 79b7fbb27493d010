"""HTTP conventions: unknown addresses, body sizes, request ids, traces, timeouts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from socialpub.web.http import request_body
from socialpub.web.http.middleware import SECURITY_HEADERS
from tests.support import raw_http
from tests.support.app_server import AppServer, Person, error_of, sleep_briefly, unchanged
from tests.support.request_cast import RequestCast

UNKNOWN = [
    "/nothing",
    "/v1",
    "/v1/",
    "/v1/nothing",
    "/v1/posts/",
    "//v1/posts",
    "/v1//posts",
    "/v1/../v1/posts",
    "/V1/posts",
]


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_address_is_404_with_the_envelope(path: str, server: AppServer) -> None:
    answer = raw_http.send_raw(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.status == 404
    assert answer.error()["code"] == "not_found"
    assert ("x-ratelimit-limit" in answer.headers) == path.startswith("/v1")


def test_a_browser_outside_the_api_gets_pages_in_place_of_envelopes(server: AppServer) -> None:
    browser = server.api(Accept="text/html,application/xhtml+xml")
    for path, method, status in (("/nothing", "GET", 404), ("/healthz", "POST", 405)):
        answer = browser.request(method, path)
        assert answer.status_code == status
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["X-Request-Id"] in answer.text
    assert error_of(browser.get("/v1/nothing"))["code"] == "not_found"
    assert error_of(browser.get("/v1/posts"))["code"] == "unauthenticated"


def test_every_answer_forbids_what_no_page_of_ours_needs(server: AppServer, alice: Person) -> None:
    for path in ("/healthz", "/v1/posts", "/nothing", "/docs"):
        headers = alice.api.get(path).headers
        for name, value in SECURITY_HEADERS.items():
            assert headers[name] == value
    assert alice.api.get("/v1/posts").headers["Cache-Control"] == "no-store"
    assert "Server" not in alice.api.get("/healthz").headers


# --- Bodies ---


def padded(body: dict[str, Any], size: int) -> bytes:
    text = json.dumps(body).encode()
    return text + b" " * (size - len(text))


def test_16_mib_are_taken_and_one_byte_more_is_not(world: RequestCast) -> None:
    full = padded(world.body(), request_body.BODY_MAX)
    assert world.alice.api.post("/v1/posts", content=full).status_code == 200
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=full + b" ")
        assert (answer.status_code, error_of(answer)["rule"]) == (413, "http.body_size")


def test_a_body_too_large_is_refused_when_it_does_not_say_how_large_it_is(world: RequestCast) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b" " * 65536 for _ in range(request_body.BODY_MAX // 65536))
        yield b"{}"

    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=pieces())
    assert (answer.status_code, error_of(answer)["rule"]) == (413, "http.body_size")
    assert world.alice.api.get("/v1/posts").status_code == 200


def test_a_body_in_pieces_is_taken_whole(world: RequestCast) -> None:
    text = json.dumps(world.body(text="in pieces")).encode()
    answer = world.alice.api.post("/v1/posts", content=(text[at : at + 5] for at in range(0, len(text), 5)))
    assert answer.json()["status"] == "published"


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "image/png; charset=x", "???"]
)
def test_a_body_is_json_whatever_its_type_says(kind: str | None, world: RequestCast) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = world.alice.api.post("/v1/posts", content=json.dumps(world.body()).encode(), headers=headers)
    assert answer.json()["status"] == "published"


def test_a_body_on_a_read_is_not_taken_for_anything(alice: Person) -> None:
    assert alice.api.request("GET", "/v1/posts", content=b"{").status_code == 200
    answer = alice.api.request("GET", "/v1/posts", content=b" " * (request_body.BODY_MAX + 1))
    assert error_of(answer)["rule"] == "http.body_size"


def test_100_continue_is_answered_before_the_body_comes(world: RequestCast) -> None:
    body = json.dumps(world.body()).encode()
    head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\nExpect: 100-continue\r\n"
    with raw_http.connect(world.server) as line:
        line.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        assert line.recv(1000).startswith(b"HTTP/1.1 100 Continue")
        line.sendall(body)
        assert raw_http.read_response(line).status == 200


def test_unknown_query_parameters_are_refused_everywhere(world: RequestCast) -> None:
    post = world.scheduled()
    with unchanged(world.server):
        for method, path, body in (
            ("POST", "/v1/posts?dryRun=true", world.body()),
            ("POST", "/v1/posts/validate?deep=false", world.body()),
            ("PATCH", f"/v1/posts/{post}?x=", {"scheduledAt": "2100-01-01T00:00:00Z"}),
            ("DELETE", f"/v1/posts/{post}?force=1", None),
            ("GET", f"/v1/posts/{post}?fields=id", None),
            ("GET", "/v1/posts?page=2", None),
            ("GET", "/v1/platforms?x=1", None),
        ):
            answer = world.alice.api.request(method, path, json=body)
            assert answer.status_code == 400, path
            assert error_of(answer)["rule"] == path.partition("?")[2].partition("=")[0]


# --- Ids of requests and traces ---

KEPT_IDS = ["a", "A.b_c:d-9", "x" * 128]
OTHER_IDS = ["", "x" * 129, "a b", "ä", "a/b", "a\tb", '"a"', "<script>"]


@pytest.mark.parametrize("sent", KEPT_IDS)
def test_a_well_formed_request_id_is_kept_everywhere(sent: str, world: RequestCast) -> None:
    headers = {"X-Request-Id": sent}
    answer = world.alice.api.post("/v1/posts", json=world.body(), headers=headers)
    assert answer.headers["X-Request-Id"] == sent
    assert {event.request_id for event in world.server.happened()} == {sent}
    assert error_of(world.alice.api.get("/v1/nothing", headers=headers))["requestId"] == sent


@pytest.mark.parametrize("sent", OTHER_IDS)
def test_any_other_request_id_is_replaced(sent: str, server: AppServer) -> None:
    answer = server.api().get("/v1/nothing", headers=[(b"X-Request-Id", sent.encode())])
    made = answer.headers["X-Request-Id"]
    assert made != sent
    assert made.startswith("req_")
    assert len(made) == 26


TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACES = [
    (f"00-{TRACE}-b7ad6b7169203331-01", TRACE),
    (f"cc-{TRACE}-b7ad6b7169203331-01-what-the-future-is-like", TRACE),
    (f"ff-{TRACE}-b7ad6b7169203331-01", None),
    (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
    (f"00-{TRACE}-{'0' * 16}-01", None),
    (f"00-{TRACE.upper()}-b7ad6b7169203331-01", None),
    (f"00-{TRACE}-b7ad6b7169203331", None),
    (f"00-{TRACE}-b7ad6b7169203331-01-more", None),
    ("garbage", None),
    ("", None),
]


@pytest.mark.parametrize(("sent", "shown"), TRACES)
def test_a_valid_trace_is_named_in_errors(sent: str, shown: str | None, server: AppServer) -> None:
    error = error_of(server.api().get("/v1/posts", headers={"traceparent": sent}))
    assert error.get("traceId") == shown


def test_without_a_trace_there_is_no_trace_id(server: AppServer) -> None:
    assert "traceId" not in error_of(server.api().get("/v1/posts"))


# --- Clients that go away, servers that stop ---


def test_a_batch_runs_to_its_end_when_its_client_goes_away(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "delay:0.3", "operation": "com.atproto.repo.putRecord"}])
    world.server.lab.lab.calls.clear()
    body = json.dumps(world.body(targets=[world.target(), world.target()], text="alone")).encode()
    head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\nIdempotency-Key: gone\r\n"
    with raw_http.connect(world.server) as line:
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_for(lambda: bool(world.server.lab.lab.calls))
        line.shutdown(socket.SHUT_RDWR)
    assert world.server.lab.lab.ledger.wait(2, 60)
    answer = world.alice.api.post("/v1/posts", content=body, headers={"Idempotency-Key": "gone"})
    assert answer.json()["status"] == "published"
    assert answer.headers["Idempotency-Replayed"] == "true"
    assert len(world.server.lab.lab.ledger.posts()) == 2


def wait_for(done: Callable[[], bool], seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.005)):
        if done():
            return
        sleep_briefly()
    raise AssertionError("it did not come about in time")


def test_headers_that_do_not_come_time_out(server: AppServer) -> None:
    server.restart(REQUEST_TIMEOUT=0.3)
    with raw_http.connect(server) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost")
        answer = raw_http.read_response(line)
    assert (answer.status, answer.error()["rule"]) == (408, "http.timeout")


def test_a_stopping_server_lets_no_more_requests_of_the_api_in(world: RequestCast) -> None:
    """The request that is under way is answered; a new one on the same connections is sent away."""
    world.server.lab.lab.faults.add([{"fault": "delay:4", "operation": "com.atproto.repo.putRecord"}])
    api, slow = world.alice.api, world.server.api(world.alice.key)
    assert slow.get("/v1/posts").status_code == 200
    assert api.get("/v1/posts").status_code == 200
    world.server.lab.lab.calls.clear()
    answers: list[Any] = []
    refused: list[httpx.Response] = []
    publishing = threading.Thread(target=lambda: answers.append(slow.publish(world.body())))
    publishing.start()
    wait_for(lambda: bool(world.server.lab.lab.calls))
    stopping = threading.Thread(target=world.server._running.close)
    stopping.start()
    with api.expecting_failure():
        wait_for(lambda: (answer := api.get("/v1/posts")).status_code != 200 and refused.append(answer) is None)
    (answer,) = refused
    publishing.join()
    stopping.join()
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "service.stopping")
    assert answer.headers["Retry-After"] == "5"
    assert answers[0].json()["status"] == "published"

"""Bad-input corpus: malformed bytes, JSON, texts, times, ids and headers.

Every request is answered: below 500, with the envelope when it is refused (`kit.check_answer`). A refused request
writes nothing, and the server goes on.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import proxy
from socialpub.store.schema.models import Post
from socialpub.web.http import request_body
from tests.support import raw_http
from tests.support.app_server import (
    UNKNOWN_ID,
    UNLIMITED,
    error_of,
    format_instant,
    running_server,
    unchanged,
)
from tests.support.raw_http import send_raw
from tests.support.request_cast import RequestCast

FUTURE = "2100-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for all of it: whatever comes in, the next request finds it whole."""
    with running_server(tmp_path_factory.mktemp("corpus"), lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        yield RequestCast(server, alice)


# --- Requests that are none ---

HEAD = b"POST /v1/posts HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer KEY\r\n"
GET = b"GET /v1/posts HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer KEY\r\n"
MALFORMED: dict[str, bytes] = {
    "no request line": b"\r\n\r\n",
    "one word": b"HELLO\r\nHost: x\r\n\r\n",
    "no version": b"GET /\r\nHost: x\r\n\r\n",
    "a version of the past": b"GET / HTTP/0.9\r\nHost: x\r\n\r\n",
    "a version of the future": b"PRI * HTTP/2.0\r\nHost: x\r\n\r\nSM\r\n\r\n",
    "four words": b"GET / now HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a colon": b"GET /v1/posts HTTP/1.1\r\nHost x\r\n\r\n",
    "a folded header": b"GET /v1/posts HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n",
    "a header of 64 kB": b"GET /v1/posts HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 65536 + b"\r\n\r\n",
    "a target of 20 kB": b"GET /v1/posts/" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target that is not ASCII": b"GET /v1/posts/\xff\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target of another server": b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target that is no URL": b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "a length in words": HEAD + b"Content-Length: two\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -2\r\n\r\n{}",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a length with a separator": HEAD + b"Content-Length: 1_0\r\n\r\n{}xxxxxxxx",
    "a length of 5,000 digits": HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
    "a length and pieces": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a piece of no length": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a piece of negative length": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "pieces of another kind": HEAD + b"Transfer-Encoding: gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "an expectation that nobody meets": HEAD + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}",
    "a length of 21 digits": HEAD + b"Content-Length: " + b"9" * 21 + b"\r\n\r\n{}",
    "a carriage return in a header": HEAD + b"Idempotency-Key: a\rb\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL in a header": HEAD + b"Idempotency-Key: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "a control character in a cookie": GET + b'Cookie: ;;=;"\\\x01; socialpub_session=\xff\r\n\r\n',
    "the whole URL of another host": GET.replace(b"/v1/posts", b"http://elsewhere/v1/posts") + b"\r\n",
}
ODD: dict[str, tuple[bytes, int, str | None]] = {
    "a length of 20 digits": (HEAD + b"Content-Length: " + b"9" * 20 + b"\r\n\r\n{}", 413, "http.body_size"),
    "a key in bytes": (b"GET /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n", 401, None),
    "two keys": (GET + b"Authorization: Bearer KEY\r\n\r\n", 401, None),
    "two Idempotency-Keys": (
        HEAD + b"Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n\r\n{}",
        400,
        "idempotency_key.length",
    ),
    "an escaped NUL in the address": (GET.replace(b"/v1/posts", b"/v1/posts/%00"), 404, None),
    "half an escape": (GET.replace(b"/v1/posts", b"/v1/posts/%ff%fe%zz%"), 404, None),
    "a way out": (GET.replace(b"/v1/posts", b"/v1/posts/..%2f..%2fetc%2fpasswd"), 404, None),
    "an unknown method": (GET.replace(b"GET", b"BREW"), 405, "http.method"),
    "a method in small letters": (GET.replace(b"GET", b"get"), 405, "http.method"),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 204, None),
    "an upgrade": (GET.replace(b"close", b"upgrade") + b"Upgrade: websocket\r\n\r\n", 200, None),
    "a whole URL": (GET.replace(b"/v1/posts", b"http://x/v1/posts") + b"\r\n", 200, None),
    "names and values in bytes": (GET.replace(b"/v1/posts", b"/v1/posts?%ff=%fe") + b"\r\n", 400, "\ufffd"),
    "a cookie jar upside down": (
        b'GET /v1/posts HTTP/1.1\r\nHost: x\r\nCookie: ;;=;"\\; socialpub_session=\xff\r\n\r\n',
        401,
        None,
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_is_told_so_with_the_envelope(name: str, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = send_raw(world.server, MALFORMED[name].replace(b"KEY", world.alice.key.encode()))
    error = answer.error()
    assert (answer.status, error["code"], error["rule"]) == (400, "validation_failed", "http.request")
    assert world.alice.api.get("/healthz").status_code == 200


@pytest.mark.parametrize("name", ODD)
def test_an_odd_request_is_answered_as_what_it_is(name: str, world: RequestCast) -> None:
    sent, status, rule = ODD[name]
    sent = sent if sent.endswith((b"\r\n\r\n", b"{}")) else sent + b"\r\n"
    with unchanged(world.server):
        answer = send_raw(world.server, sent.replace(b"KEY", world.alice.key.encode()))
    assert answer.status == status
    if status >= 400:
        assert answer.error().get("rule") == rule


def test_a_body_shorter_than_its_length_times_out(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.2)
    with unchanged(world.server):
        answer = send_raw(world.server, HEAD.replace(b"KEY", world.alice.key.encode()) + b"Content-Length: 99\r\n\r\n{")
    assert (answer.status, answer.error()["rule"], answer.headers["connection"]) == (408, "http.timeout", "close")


def test_a_connection_that_says_nothing_disturbs_nobody(world: RequestCast) -> None:
    server = world.server
    with raw_http.connect(server), raw_http.connect(server) as other:
        other.sendall(b"GET ")
        assert server.api().get("/healthz").status_code == 200
        other.shutdown(socket.SHUT_RDWR)
    assert server.api().get("/healthz").status_code == 200


# --- JSON ---

TARGETS = b'"targets":[{"accountId":"ID"}]'
GOOD = b"{" + TARGETS + b',"text":"hello"}'
NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "white space": b" \n\t",
    "cut": GOOD[:-1],
    "a word": b"hello",
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comment": b"/* */" + GOOD,
    "a comma too many": GOOD[:-1] + b",}",
    "two documents": GOOD + GOOD,
    "rubbish after it": GOOD + b"x",
    "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-16 without a mark": GOOD.decode().encode("utf-16-le"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "Latin-1": GOOD.replace(b"hello", b"caf\xe9"),
    "overlong UTF-8": GOOD.replace(b"hello", b"\xc0\xaf"),
    "a surrogate in UTF-8": GOOD.replace(b"hello", b"\xed\xa0\x80"),
    "half a pair": GOOD.replace(b"hello", b"\\ud83d"),
    "the other half": GOOD.replace(b"hello", b"\\ude00"),
    "halves the wrong way round": GOOD.replace(b"hello", b"\\ude00\\ud83d"),
    "a bare NUL": GOOD.replace(b"hello", b"a\0b"),
    "a bare line feed": GOOD.replace(b"hello", b"a\nb"),
    "an unknown escape": GOOD.replace(b"hello", b"\\x41"),
    "a short escape": GOOD.replace(b"hello", b"\\u12"),
    "20,000 arrays": b"[" * 20000,
    "20,000 arrays, closed": b'{"text":' + b"[" * 20000 + b"]" * 20000 + b"}",
    "20,000 objects": b'{"a":' * 20000 + b"1" + b"}" * 20000,
    "5,000 digits": GOOD[:-1] + b',"publishNow":' + b"9" * 5000 + b"}",
    "NaN": GOOD[:-1] + b',"publishNow":NaN}',
    "infinity": GOOD[:-1] + b',"publishNow":-Infinity}',
    "a number beyond doubles": GOOD[:-1] + b',"publishNow":1e999}',
    "a form": b"text=hello&targets=1",
    "XML": b'<?xml version="1.0"?><text>hello</text>',
    "a multipart body": b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nhello\r\n--x--\r\n',
    "a name twice": GOOD[:-1] + b',"text":"other"}',
    "a name twice, escaped": GOOD[:-1] + b',"t\\u0065xt":"other"}',
    "a name twice in a target": GOOD.replace(b'"accountId":', b'"text":"a","text":"b","accountId":'),
}
WRONG: dict[str, tuple[bytes, str]] = {
    "null": (b"null", "body"),
    "an array": (b"[]", "body"),
    "a string": (b'"hello"', "body"),
    "a number": (b"17", "body"),
    "true": (b"true", "body"),
    "nothing in it": (b"{}", "targets"),
    "2^63": (GOOD[:-1] + b',"publishNow":9223372036854775808}', "publishNow"),
    "one for true": (GOOD[:-1] + b',"publishNow":1}', "publishNow"),
    "a word for true": (GOOD[:-1] + b',"publishNow":"true"}', "publishNow"),
    "a number for text": (GOOD.replace(b'"hello"', b"17"), "text"),
    "text in an array": (GOOD.replace(b'"hello"', b'["hello"]'), "text"),
    "null for text": (GOOD.replace(b'"hello"', b"null"), "text"),
    "an escaped NUL": (GOOD.replace(b"hello", b"a\\u0000b"), "text"),
    "no text": (GOOD.replace(b"hello", b""), "text"),
    "an object for targets": (b'{"targets":{},"text":"hello"}', "targets"),
    "a string for a target": (b'{"targets":["bluesky"],"text":"hello"}', "targets.0"),
    "null for a target": (b'{"targets":[null],"text":"hello"}', "targets.0"),
    "a prototype": (GOOD[:-1] + b',"__proto__":{}}', "__proto__"),
    "a name of 10 kB": (GOOD[:-1] + b',"' + b"n" * 10240 + b'":1}', "n" * 100 + "…"),
    "a name in capitals": (GOOD[:-1] + b',"TEXT":"hello"}', "TEXT"),
    "a name as in Python": (GOOD[:-1] + b',"scheduled_at":"2100-01-01T00:00:00Z"}', "scheduled_at"),
    "the former shape": (b'{"account":{"id":"ID"},"text":"hello"}', "targets"),
}


def test_what_is_not_json_is_told_so(world: RequestCast) -> None:
    with unchanged(world.server):
        for name, sent in NOT_JSON.items():
            answer = world.alice.api.post("/v1/posts", content=sent.replace(b"ID", world.alice.bluesky.encode()))
            error = error_of(answer)
            assert (answer.status_code, error["code"], error["rule"]) == (400, "validation_failed", "body.json"), name


def test_json_that_is_no_request_names_the_field(world: RequestCast) -> None:
    with unchanged(world.server):
        for name, (sent, rule) in WRONG.items():
            answer = world.alice.api.post("/v1/posts", content=sent.replace(b"ID", world.alice.bluesky.encode()))
            error = error_of(answer)
            assert (answer.status_code, error["code"], error["rule"]) == (400, "validation_failed", rule), name
            assert error["platformResponse"][0]["path"] == ([] if rule == "body" else parts(rule)), name


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (b'"options":[]', "Input should be an object"),
        (b'"media":[1]', "Input should be an object"),
        (b'"media":{}', "Input should be a valid array"),
        (b'"firstComment":"x"', "Input should be an object"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_json(field: bytes, message: str, world: RequestCast) -> None:
    body = GOOD.replace(b'"accountId"', field + b',"accountId"').replace(b"ID", world.alice.bluesky.encode())
    error = error_of(world.alice.api.post("/v1/posts", content=body))
    assert error["platformResponse"][0]["message"] == message


def parts(rule: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in rule.split(".")]


# --- Texts ---

FAMILY = "👨‍👩‍👧‍👦"
TEXTS = [
    "x" * 300,
    FAMILY * 100,
    "e\u0301" * 300,
    "é" * 300,
    "\n".join("a" * 150) + "b",
    "🇩🇪🇫🇷" * 100,
    "\u202eright to left\u202c",
    "a" + "\u0301" * 500,
    "\u200b\u200bhidden",
    "mark\ufeff",
    "\U0010ffff",
    "\uffff",
    "%s %n {0} ${x} {{y}}",
    "'; DROP TABLE post; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "a\tb\x7f\x1b[31m",
    "https://example.com/" + "a" * 200,
    "#" * 300,
    "@" * 300,
]
TOO_LONG = ["x" * 301, FAMILY * 301, "e\u0301" * 301, "x" * 100_000, "🇩🇪" * 301, "ä" * 299 + "\u0301" * 2000]
BLANK = [" ", "\u3000", "\n\n", "\u00a0\u2003"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_an_odd_text_arrives_as_it_was_sent(text: str, world: RequestCast) -> None:
    post = world.published(text=text)
    assert world.server.lab.lab.ledger.posts()[-1].text == text
    assert world.alice.api.get(f"/v1/posts/{post}").json()["text"] == text
    (row,) = world.server.rows(Post, id=post)
    assert row["text"] == text


def test_a_byte_order_mark_is_kept_here_and_does_not_arrive(world: RequestCast) -> None:
    """Bluesky takes it off itself, so it is left out of what is sent."""
    post = world.published(text="\ufeffmark")
    assert world.server.lab.lab.ledger.posts()[-1].text == "mark"
    assert world.alice.api.get(f"/v1/posts/{post}").json()["text"] == "\ufeffmark"


@pytest.mark.parametrize("text", [*TOO_LONG, *BLANK], ids=lambda text: ascii(text[:12]))
def test_a_text_that_no_platform_takes_is_refused_before_anything(text: str, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.post(text=text)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "preflight_failed")
    assert error_of(answer)["platform"] == "bluesky"


def test_a_text_over_100_000_characters_is_refused_by_the_schema(world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.post(text="x" * 100_001)
        assert (answer.status_code, error_of(answer)["rule"]) == (400, "text")
        assert error_of(world.post(text="x" * 1_000_000))["rule"] == "text"


# --- Times ---

TIMES_TAKEN = {
    "2100-01-01T00:00:00Z": "2100-01-01T00:00:00.000Z",
    "2100-01-01t00:00:00z": "2100-01-01T00:00:00.000Z",
    "2100-01-01 00:00:00Z": "2100-01-01T00:00:00.000Z",
    "2100-01-01T00:00:00.5Z": "2100-01-01T00:00:00.500Z",
    "2100-01-01T00:00:00.123456789Z": "2100-01-01T00:00:00.123Z",
    "2100-01-01T00:00:00+02:00": "2099-12-31T22:00:00.000Z",
    "2100-01-01T00:00:00-23:59": "2100-01-01T23:59:00.000Z",
    "2100-01-01T00:00:00+23:59": "2099-12-31T00:01:00.000Z",
    "2096-02-29T12:00:00-00:00": "2096-02-29T12:00:00.000Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
    "2099-03-29T02:30:00+01:00": "2099-03-29T01:30:00.000Z",
    "2099-10-25T02:30:00+02:00": "2099-10-25T00:30:00.000Z",
    "2099-10-25T02:30:00+01:00": "2099-10-25T01:30:00.000Z",
}
TIMES_REFUSED: list[Any] = [
    "2100-01-01T00:00:00",
    "2100-01-01",
    "2100-01-01T00:00Z",
    "2100-W01-1T00:00:00Z",
    "2100-001T00:00:00Z",
    "21000101T000000Z",
    "2100-01-01T24:00:00Z",
    "2100-01-01T00:60:00Z",
    "2100-01-01T23:59:60Z",
    "2100-02-29T00:00:00Z",
    "2100-02-30T00:00:00Z",
    "2100-13-01T00:00:00Z",
    "2100-00-01T00:00:00Z",
    "2100-01-00T00:00:00Z",
    "2100-01-01T00:00:00+24:00",
    "2100-01-01T00:00:00+00:60",
    "2100-01-01T00:00:00+0200",
    "2100-01-01T00:00:00+02",
    "2100-01-01T00:00:00Z+00:00",
    "2100-01-01T00:00:00,5Z",
    "2100-01-01T00:00:00.Z",
    "2100-01-01T00:00:00.1234567890Z",
    "2100-01-01T00:00:00 Z",
    " 2100-01-01T00:00:00Z",
    "2100-01-01T00:00:00Z\n",
    "2100-01-01T00:00:00Z[Europe/Berlin]",
    "２１００-01-01T00:00:00Z",
    "٢١٠٠-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "10000-01-01T00:00:00Z",
    "-2100-01-01T00:00:00Z",
    "+002100-01-01T00:00:00Z",
    "tomorrow",
    "",
    "0",
    "x" * 10240,
    4102444800,
    4102444800.5,
    -1,
    True,
    False,
    None,
    [],
    {},
    ["2100-01-01T00:00:00Z"],
]


@pytest.mark.parametrize("sent", TIMES_TAKEN)
def test_an_instant_is_taken_with_any_offset(sent: str, world: RequestCast) -> None:
    answer = world.post(scheduledAt=sent)
    assert answer.status_code == 202
    assert answer.json()["scheduledAt"] == TIMES_TAKEN[sent]


def test_what_is_no_instant_is_refused(world: RequestCast) -> None:
    post = world.scheduled()
    with unchanged(world.server):
        for sent in TIMES_REFUSED:
            moved = world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": sent})
            for answer in (world.post(scheduledAt=sent), moved):
                assert (answer.status_code, error_of(answer)["rule"]) == (400, "scheduledAt"), sent


# --- Ids ---

IDS = [
    "1",
    "null",
    "undefined",
    "%",
    "_",
    "*",
    "' OR 1=1 --",
    '"',
    "\\",
    "..",
    "../posts",
    "a/b",
    "\u202e",
    "é",
    "01a2b3c4d5e67f809a1b2c3d4e5f6071",
    "{01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071}",
    "urn:uuid:01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071",
    "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f607",
    "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f60711",
    "g1a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071",
    "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071 ",
    "０1a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071",
    "a" * 5000,
]


@pytest.mark.slow
def test_a_malformed_id_is_404_in_an_address_and_400_in_a_body(subtests: pytest.Subtests, world: RequestCast) -> None:
    with unchanged(world.server):
        for sent in IDS:
            with subtests.test(sent=sent[:40]):
                check_malformed_id(world, sent)


def check_malformed_id(world: RequestCast, sent: str) -> None:
    api, body, escaped = world.alice.api, {"scheduledAt": FUTURE}, quote(sent, safe="")
    for answer in (
        api.get(f"/v1/posts/{escaped}"),
        api.patch(f"/v1/posts/{escaped}", json=body),
        api.delete(f"/v1/posts/{escaped}"),
        api.post(f"/v1/posts/{escaped}/retry", json={}),
        api.post(f"/v1/posts/{escaped}/settle", json={"published": True}),
        api.get(f"/v1/accounts/{escaped}"),
    ):
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    assert error_of(world.post(targets=[{"accountId": sent}]))["rule"] == "targets.0.accountId"
    assert error_of(world.post(profileId=sent))["rule"] == "profileId"
    assert error_of(world.post(media=[sent]))["rule"] == "media.0"
    assert error_of(world.post(targets=[{"platform": sent}]))["rule"] == "targets.0.platform"
    assert error_of(api.get("/v1/posts", params={"profileId": sent}))["rule"] == "profileId"
    assert api.get("/v1/accounts", params={"profileId": sent}).json() == {"data": []}


def test_an_id_in_capitals_is_the_same_id(world: RequestCast) -> None:
    assert world.post(targets=[{"accountId": world.alice.bluesky.upper()}]).json()["status"] == "published"


# --- Headers ---

BAD_KEYS = [
    "",
    "Bearer",
    "Bearer null",
    "Basic dXNlcjpwYXNz",
    "bearer svc_live_",
    "Token KEY",
    "KEY",
    "Bearer KEYx",
    "Bearer xKEY",
    "Bearer KEY KEY",
    "Bearer KEY, Bearer KEY",
    "Bearer " + "a" * 5000,
    "Bearer svc_live_" + "0" * 49,
    "Bearer svc_test_KEY",
    'Bearer "KEY"',
]


@pytest.mark.parametrize("sent", BAD_KEYS, ids=lambda sent: sent[:30])
def test_anything_but_a_key_is_unauthenticated(sent: str, world: RequestCast) -> None:
    api = world.server.api(Authorization=sent.replace("KEY", world.alice.key))
    with unchanged(world.server):
        for answer in (api.get("/v1/posts"), api.publish(world.body())):
            assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize("sent", ["Bearer KEY", "bearer KEY", "BEARER KEY", "Bearer   KEY"])
def test_the_scheme_is_read_in_any_case(sent: str, world: RequestCast) -> None:
    api = world.server.api(Authorization=sent.replace("KEY", world.alice.key))
    assert api.get("/v1/posts").status_code == 200


@pytest.mark.parametrize("sent", ["k", "x" * 128, '"quoted"', "a b", "'; --", "~!@#$%^&*()", "../.."])
def test_any_printable_idempotency_key_is_taken(sent: str, world: RequestCast) -> None:
    first = world.alice.api.publish(world.body(), sent)
    assert first.status_code == 200
    assert world.alice.api.publish(world.body(), sent).content == first.content


# --- Targets ---


@pytest.mark.parametrize(("number", "status"), [(0, 400), (1, 200), (25, 200), (26, 400), (1000, 400)])
def test_1_to_25_targets(number: int, status: int, world: RequestCast) -> None:
    assert world.post(targets=[world.target(text=f"{n}") for n in range(number)]).status_code == status


def test_of_several_faulty_targets_none_is_published(world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.post(targets=[world.target(), world.target(text="x" * 301), {"accountId": UNKNOWN_ID}])
        assert answer.status_code == 404
        answer = world.post(targets=[world.target(), world.target(text="x" * 301)])
        assert error_of(answer)["rule"] == "bluesky.text.max_graphemes"


# --- What nobody thought of ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "targets",
        "text",
        "media",
        "publishNow",
        "scheduledAt",
        "firstComment",
        "profileId",
        "accountId",
        "platform",
        "options",
    ]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(st.dictionaries(NAMES | st.text(max_size=8), VALUES, max_size=5))
def test_any_json_object_gets_an_answer(world: RequestCast, body: dict[str, Any]) -> None:
    """And since no target can be guessed, a refusal; `Api` checks its envelope."""
    sent = json.dumps(body, ensure_ascii=True).encode()
    assert world.alice.api.post("/v1/posts", content=sent).status_code == 400
    assert world.alice.api.post("/v1/posts/validate", content=sent).status_code == 400
    inner = json.dumps(
        {"targets": [{"accountId": world.alice.bluesky} | body], "scheduledAt": format_instant(0)}
    ).encode()
    assert world.alice.api.post("/v1/posts", content=inner).status_code == 400


def test_the_database_is_whole_after_all_of_it(world: RequestCast) -> None:
    for body in (*NOT_JSON.values(), *(sent for sent, _ in WRONG.values())):
        world.alice.api.post("/v1/posts", content=body)
    (found,) = world.server.service.read(lambda: proxy.execute_sql("PRAGMA integrity_check").fetchall()).result()
    assert found == ("ok",)

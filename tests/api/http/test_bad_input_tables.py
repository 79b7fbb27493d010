"""Bad-input corpus: every odd value in every place of a request.

Targets and media are in `test_bad_input_batches.py`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, error_of, format_instant, unchanged
from tests.support.bad_input import FUTURE, check_refused
from tests.support.raw_http import send_raw
from tests.support.request_cast import RequestCast


@pytest.fixture(scope="module")
def world(corpus: RequestCast) -> RequestCast:
    return corpus


def post(world: RequestCast, content: bytes | str) -> Callable[[], httpx.Response]:
    return lambda: world.alice.api.post("/v1/posts", content=content)


# --- Bytes ---


@pytest.mark.slow
def test_a_body_that_is_cut_or_broken_anywhere_is_not_json(world: RequestCast) -> None:
    whole = json.dumps(world.body(scheduledAt=FUTURE)).encode()
    cut = [(f"cut at {at}", post(world, whole[:at])) for at in range(len(whole))]
    broken = [
        (f"{byte!r} at {at}", post(world, whole[:at] + byte + whole[at + 1 :]))
        for at, byte in itertools.product(range(0, len(whole), 2), (b"\xff", b"\x00"))
    ]
    answers = check_refused(world, cut + broken, 400)
    assert len(answers) >= 200
    assert {error_of(answer)["rule"] for answer in answers} == {"body.json"}


# --- JSON ---

BASE: dict[str, Any] = {
    "targets": [
        {
            "accountId": None,
            "text": "own",
            "media": [{"kind": "image", "url": "https://example.com/a.png", "altText": "alt"}],
            "firstComment": {"text": "a comment"},
            "options": {"platform": "bluesky", "langs": ["de"]},
        }
    ],
    "text": "hello",
    "media": [{"kind": "image", "mediaId": UNKNOWN_MEDIA}],
    "firstComment": {"text": "a comment"},
    "publishNow": True,
    "profileId": UNKNOWN_ID,
}
PLACES: list[tuple[Any, ...]] = [
    ("targets",),
    ("targets", 0),
    ("targets", 0, "accountId"),
    ("targets", 0, "platform"),
    ("targets", 0, "text"),
    ("targets", 0, "media"),
    ("targets", 0, "media", 0),
    ("targets", 0, "media", 0, "kind"),
    ("targets", 0, "media", 0, "url"),
    ("targets", 0, "media", 0, "altText"),
    ("targets", 0, "firstComment"),
    ("targets", 0, "firstComment", "text"),
    ("targets", 0, "options"),
    ("targets", 0, "options", "platform"),
    ("targets", 0, "options", "langs"),
    ("text",),
    ("media",),
    ("media", 0),
    ("media", 0, "mediaId"),
    ("firstComment",),
    ("firstComment", "text"),
    ("publishNow",),
    ("scheduledAt",),
    ("profileId",),
]
TRAPS = (
    "null",
    "NaN",
    "-Infinity",
    "1e999",
    "9223372036854775808",
    "-1",
    "0.5",
    '"a\\u0000b"',
    '"\\ud83d"',
    '{"$ne":1}',
    '{"":""}',
    "[" * 40 + "]" * 40,
    "9" * 5000,
)


def placed(world: RequestCast, place: tuple[Any, ...], trap: str) -> str:
    """A body with a trap in a place, as text: no serializer would write most of them."""
    body = json.loads(json.dumps(BASE))
    body["targets"][0]["accountId"] = world.alice.bluesky
    inner = body
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = "<trap>"
    return json.dumps(body).replace('"<trap>"', trap)


@pytest.mark.matrix
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap[:12])
def test_a_trap_is_refused_in_every_place_of_a_request(trap: str, world: RequestCast) -> None:
    cases = [(place, post(world, placed(world, place, trap))) for place in PLACES]
    for place, answer in zip(PLACES, check_refused(world, cases, 400), strict=True):
        rule = error_of(answer)["rule"]
        assert rule == "body.json" or rule.startswith(".".join(str(part) for part in place)), (place, rule)


# --- Texts ---

PIECES = {
    "x": "a letter",
    "👨‍👩‍👧‍👦": "a family",
    "e\u0301": "a letter with its accent apart",
    "🇩🇪": "a flag",
    "👍🏽": "a thumb of a colour",
    "\r\n": "a line's end",
    "\u1112\u1161\u11ab": "a syllable in its parts",
    "\u202e": "right to left from here",
    "1️⃣": "a key of a telephone",
}
"""Each is one grapheme cluster, and none grows together with the next."""


@pytest.mark.slow
def test_a_text_is_counted_in_what_people_call_characters(world: RequestCast) -> None:
    @settings(max_examples=60, database=None)
    @given(st.integers(295, 305), st.lists(st.sampled_from(list(PIECES)), min_size=1, max_size=40))
    def each_is(count: int, pieces: list[str]) -> None:
        text = "x" + "".join(itertools.islice(itertools.cycle(pieces), count - 1))
        answer = world.alice.api.post("/v1/posts/validate", json=world.body(text=text, deep=False))
        (result,) = answer.json()["results"]
        assert result["text"] == {"length": count, "limit": 300, "unit": "graphemes"}
        rules = {error["rule"] for error in result["errors"]}
        wanted = {"bluesky.text.max_graphemes"} if count > 300 else set()
        wanted |= {"bluesky.text.max_bytes"} if len(text.encode()) > 3000 else set()
        assert rules == wanted

    with unchanged(world.server):
        each_is()


# --- Times ---

OFFSETS = ["Z", "+00:00", "-00:00", "+01:00", "+05:30", "+05:45", "+14:00", "-12:00", "-03:30", "+23:59", "-23:59"]
AHEAD = {-3_600_000: False, 0: False, 1: False, 999: False, 1000: True, 1001: True, 3_600_000: True}


def at(ms: int, offset: str) -> str:
    """An instant as a clock of that offset shows it."""
    minutes = 0 if offset == "Z" else int(offset[1:3]) * 60 + int(offset[4:6])
    shown = format_instant(ms + (-1 if offset[0] == "-" else 1) * minutes * 60_000)
    return shown.removesuffix("Z") + offset


@pytest.mark.slow
def test_a_second_ahead_is_the_least_in_every_zone(world: RequestCast) -> None:
    clock = world.server.clock
    now = clock.stop()
    try:
        for ms, offset in itertools.product(AHEAD, OFFSETS):
            sent = at(now + ms, offset)
            if AHEAD[ms]:
                answer = world.post(scheduledAt=sent)
                assert (answer.status_code, answer.json()["scheduledAt"]) == (202, format_instant(now + ms)), sent
                world.alice.api.delete(f"/v1/posts/{answer.json()['results'][0]['postId']}")
            else:
                (answer,) = check_refused(world, [(sent, lambda sent=sent: world.post(scheduledAt=sent))], 400)
                assert error_of(answer)["rule"] == "scheduledAt.future"
    finally:
        clock._standing = None


# --- Queries ---

LIMITS = [
    "-1",
    "0",
    "201",
    "1e9",
    "1000000000",
    "9" * 5000,
    "１０",
    "",
    " 5",
    "5 ",
    "+5",
    "1.5",
    "0x10",
    "abc",
    "٣",
    "null",
]
ODD = [
    "",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "..",
    "a,b",
    ",",
    "\u202e",
    "é",
    "x" * 5000,
    "null",
    "undefined",
    "{}",
    "[]",
    "-1",
]
LISTS = {"/v1/posts": "platform status errorCode profileId batchId after before cursor".split()}
LISTS["/v1/media"] = ["profileId", "sha256", "cursor"]


@pytest.mark.slow
@pytest.mark.parametrize("path", LISTS)
def test_an_odd_filter_is_refused_and_named(path: str, world: RequestCast) -> None:
    api, cases = world.alice.api, []
    wanted = [("limit", value) for value in LIMITS] + list(itertools.product(LISTS[path], ODD))
    wanted.remove(("cursor", ""))  # an empty cursor is as if absent: the first page
    for name, value in wanted:
        cases.append(((name, value), lambda name=name, value=value: api.get(path, params={name: value})))
    for (name, value), answer in zip(wanted, check_refused(world, cases, 400), strict=True):
        assert error_of(answer)["rule"].partition(".")[0] == name, (name, value, answer.text)


@pytest.mark.parametrize(
    "name", ["Q", "offset", "page", "limit[]", "status[x]", "sort", "' OR 1=1 --", "é", "x" * 5000]
)
def test_an_unknown_parameter_is_refused_and_named(name: str, world: RequestCast) -> None:
    (answer,) = check_refused(world, [(name, lambda: world.alice.api.get("/v1/posts", params={name: "1"}))], 400)
    assert error_of(answer)["rule"] == (name if len(name) <= 100 else name[:100] + "…")


@pytest.mark.parametrize(
    "text", ["%", "_", "\\", "'", '"', "' OR 1=1 --", "*", "a* OR b*", "NEAR(a b)", "\u202e", "é", "x" * 200]
)
def test_any_text_may_be_looked_for_and_finds_only_itself(text: str, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.get("/v1/posts", params={"q": text})
    assert (answer.status_code, answer.json()) == (200, {"data": [], "nextCursor": None})


@pytest.mark.slow
def test_a_cursor_with_a_character_changed_is_refused_or_the_same(world: RequestCast) -> None:
    for _ in range(2):
        world.post(scheduledAt=FUTURE)
    api = world.alice.api
    first = api.get("/v1/posts?limit=1").json()
    cursor, then = first["nextCursor"], api.get("/v1/posts", params={"cursor": first["nextCursor"]}).json()
    changed = [cursor[:place] + other + cursor[place + 1 :] for place in range(len(cursor)) for other in "A9-z_"]
    changed += [cursor[:-1], cursor + "A", cursor + "=", cursor * 2, cursor.swapcase(), cursor[::-1]]
    with unchanged(world.server):
        for sent in changed:
            answer = api.get("/v1/posts", params={"cursor": sent})
            if answer.status_code == 200:
                assert answer.json() == then
            else:
                assert (answer.status_code, error_of(answer)["rule"]) == (400, "cursor")
    assert len(changed) >= 150


# --- Headers ---

NAMES = (
    "Accept Accept-Encoding Accept-Language Content-Type Cookie Forwarded From If-Match "
    "If-None-Match Idempotency-Key Origin Range Referer Sec-Fetch-Site Traceparent User-Agent X-Csrf-Token "
    "X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Http-Method-Override X-Original-Url X-Request-Id"
).split()
VALUES = [b"", b"\xff\xfe", b"'; DROP TABLE post; --", b"../../etc/passwd", b"a" * 7000, b"%00%0d%0a", b"{}", b"\t\xa0"]


@pytest.mark.slow
def test_an_odd_header_changes_no_answer(world: RequestCast) -> None:
    """A read is answered, a refused write refused, whatever else a request says; a write's key alone is looked at."""
    rest = f" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.key}\r\nConnection: close\r\n".encode()
    heads = {200: b"GET /v1/accounts" + rest, 400: b"POST /v1/posts" + rest + b"Content-Length: 2\r\n"}
    with unchanged(world.server):
        for (status, head), name, value in itertools.product(heads.items(), NAMES, VALUES):
            sent = head + name.encode() + b": " + value + b"\r\n\r\n" + (b"{}" if status == 400 else b"")
            answer = send_raw(world.server, sent)
            assert answer.status == status, (name, value, answer.body)
            if status == 400:
                assert answer.error()["rule"] in ("targets", "idempotency_key.length")


def test_the_server_is_whole_after_all_of_it(world: RequestCast) -> None:
    assert world.alice.api.get("/healthz").status_code == 200
    assert world.alice.api.get("/readyz").status_code == 200

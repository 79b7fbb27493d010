"""Bad-input corpus: invalid targets, modes, items and URLs of a batch."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, error_of
from tests.support.bad_input import FUTURE, check_refused
from tests.support.refused_addresses import REFUSED_SPELLINGS as REFUSED_URLS
from tests.support.request_cast import RequestCast, inline_item, make_picture


@pytest.fixture(scope="module")
def world(corpus: RequestCast) -> RequestCast:
    return corpus


# --- Targets ---

Part = dict[str, Any]
TARGETS: dict[str, tuple[Callable[[RequestCast], Part], int]] = {
    "an account": (lambda w: {"accountId": w.alice.bluesky}, 200),
    "a platform": (lambda w: {"platform": "bluesky"}, 200),
    "both": (lambda w: {"accountId": w.alice.bluesky, "platform": "bluesky"}, 200),
    "neither": (lambda w: {}, 400),
    "both, of two minds": (lambda w: {"accountId": w.alice.bluesky, "platform": "twitter"}, 400),
    "a platform without account": (lambda w: {"platform": "pinterest"}, 400),
    "a platform that is none": (lambda w: {"platform": "myspace"}, 400),
    "an account of others": (lambda w: {"accountId": w.charlie.bluesky}, 404),
    "an account of nobody": (lambda w: {"accountId": UNKNOWN_ID}, 404),
    "no id": (lambda w: {"accountId": "bluesky"}, 400),
    "options of another platform": (
        lambda w: {"accountId": w.alice.bluesky, "options": {"platform": "linkedin", "visibility": "PUBLIC"}},
        400,
    ),
    "a text too long": (lambda w: {"accountId": w.alice.bluesky, "text": "x" * 301}, 400),
}
MODES: dict[str, tuple[Part, bool]] = {
    "nothing said": ({}, True),
    "now": ({"publishNow": True}, True),
    "then": ({"scheduledAt": FUTURE}, True),
    "not now": ({"publishNow": False}, False),
    "not now but then": ({"publishNow": False, "scheduledAt": FUTURE}, True),
    "now and then": ({"publishNow": True, "scheduledAt": FUTURE}, False),
    "in the past": ({"scheduledAt": "2020-01-01T00:00:00Z"}, False),
    "then, with a comment": ({"scheduledAt": FUTURE, "firstComment": {"text": "1"}}, False),
    "now, with a comment": ({"firstComment": {"text": "1"}}, True),
    "for others": ({"profileId": UNKNOWN_ID}, False),
}


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
def test_one_bad_target_or_a_bad_mode_refuses_the_whole_batch(mode: str, world: RequestCast) -> None:
    """Also beside a good target, on either side of it; and it is the same to publish as to validate."""
    fields, fine = MODES[mode]
    api, good = world.alice.api, {"accountId": world.alice.bluesky, "text": "good"}
    cases = []
    for name, (make, status) in TARGETS.items():
        target = make(world)
        for targets in ([target], [good, target], [target, good]):
            if fine and status == 200:
                continue
            body = {"targets": targets, "text": "hello"} | fields
            cases.append(((name, len(targets)), lambda body=body: api.publish(body)))
    answers = check_refused(world, cases, 400, 404)
    for name, answer in zip([name for (name, _), _ in cases], answers, strict=True):
        assert fine is False or answer.status_code == TARGETS[name][1], (name, answer.text)


# --- Media ---

GOOD = base64.b64encode(make_picture()).decode()
NOT_BASE64 = {
    "nothing": "",
    "padding alone": "====",
    "a space": GOOD[:8] + " " + GOOD[8:],
    "a line end": GOOD[:76] + "\r\n" + GOOD[76:],
    "no padding": "AA",
    "too much padding": "AA===",
    "padding amidst": "AA==AA==",
    "a star": GOOD[:-1] + "*",
    "the other alphabet": "-_-_",
    "a data URL": "data:image/png;base64," + GOOD,
    "full width": "ＡＡＡＡ",
    "accents": "éééé",
    "hex": "0x89504e47",
    "escaped": GOOD.replace("+", "%2B")[:40] + "%2B%2B",
    "one letter": "A",
    "a bracket": "[" + GOOD,
}
ITEMS: dict[str, tuple[Any, int]] = {
    "a number": (5, 400),
    "a list": ([], 400),
    "nothing": ({}, 400),
    "a kind alone": ({"kind": "image"}, 400),
    "a kind that is none": ({"kind": "audio", "url": "https://example.com/a"}, 400),
    "no kind": ({"url": "https://example.com/a"}, 400),
    "two sources": ({"kind": "image", "url": "https://example.com/a", "mediaId": UNKNOWN_MEDIA}, 400),
    "three sources": (inline_item(make_picture(), url="https://example.com/a", mediaId=UNKNOWN_MEDIA), 400),
    "an id of nobody": (UNKNOWN_MEDIA, 404),
    "an item of nobody's": ({"kind": "image", "mediaId": UNKNOWN_MEDIA}, 404),
    "an id too short": ("med_abc", 400),
    "an id with a dash": ("med_" + "-" * 22, 400),
    "an id of another thing": ("evt_" + "0" * 22, 400),
    "an id in full width": ("med_" + "０" * 22, 400),
    "an id and more": (UNKNOWN_MEDIA + "\n", 400),
    "an alt text of nothing but NUL": ({"kind": "image", "url": "https://example.com/a", "altText": "\0"}, 400),
    "an alt text of 100,001": ({"kind": "image", "url": "https://example.com/a", "altText": "x" * 100_001}, 400),
    "a URL of nothing": ({"kind": "image", "url": ""}, 400),
    "a URL of 2,049": ({"kind": "image", "url": "https://example.com/" + "a" * 2029}, 400),
    "a misspelt field": ({"kind": "image", "URL": "https://example.com/a"}, 400),
}


def media_cases(world: RequestCast, items: dict[str, Any]) -> list[tuple[str, Callable[[], httpx.Response]]]:
    """Each item as the request's media and as a target's, now and scheduled."""
    places: list[Callable[[Any], Part]] = [
        lambda item: world.body(media=[item]),
        lambda item: world.body(media=[item], scheduledAt=FUTURE),
        lambda item: world.body(targets=[world.target(media=[item])]),
    ]
    return [
        (name, lambda item=item, place=place: world.alice.api.publish(place(item)))
        for (name, item), place in itertools.product(items.items(), places)
    ]


def test_what_is_no_base64_is_refused_before_anything_is_stored(world: RequestCast) -> None:
    items = {name: {"kind": "image", "bytesBase64": text} for name, text in NOT_BASE64.items()}
    answers = check_refused(world, media_cases(world, items), 400)
    assert {error_of(answer)["rule"] for answer in answers} == {"media.base64_invalid"}
    assert [path for path in (world.server.home / "media").rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_an_item_that_is_none_is_refused_wherever_it_stands(world: RequestCast) -> None:
    cases = media_cases(world, {name: item for name, (item, _) in ITEMS.items()})
    for (name, _), answer in zip(cases, check_refused(world, cases, 400, 404), strict=True):
        assert answer.status_code == ITEMS[name][1], (name, answer.text)


# --- Addresses that are not called ---


@pytest.mark.slow
def test_a_url_of_the_guards_table_is_refused_before_anything_is_called(world: RequestCast) -> None:
    urls = {url: {"kind": "image", "url": url} for url in REFUSED_URLS if 1 <= len(url) <= 2048 and url == url.strip()}
    answers = check_refused(world, media_cases(world, urls), 400)
    assert len(answers) >= 160
    assert {error_of(answer)["rule"] for answer in answers} == {"media.url.disallowed"}

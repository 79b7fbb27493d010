"""Line breaks count as one character and are stored and sent as LF.

Browsers send each line break of a form as CRLF; programs send CRLF, CR or LF.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.domain.schemas.posts import PublishRequest
from socialpub.platforms.kit.text import normalize_line_feeds
from socialpub.store.schema.models import Media, Post
from tests.support.app_server import ApiClient, AppServer
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import send_compose, target_fields
from tests.support.media_uploads import stored_media
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.request_cast import RequestCast

WAYS = {"CRLF": "\r\n", "CR": "\r", "LF": "\n"}
TEXTS = [
    "one\ntwo",
    "\nblank lines\n\n\nand an end\n",
    "日本\n語 👩\u200d👩\u200d👧\n#tag\nhttps://example.com/a\n@alice.test",
    "a\n" * 93 + "a",
    "\n".join("🎉" * 60),
]


def accounts_of(world: RequestCast) -> dict[str, str]:
    """An account of each platform."""
    others = {name: world.server.connect(world.alice, name)["id"] for name in EIGHT if name != "bluesky"}
    return {"bluesky": world.alice.bluesky} | others


def counted_by_api(world: RequestCast, accounts: dict[str, str], text: str) -> dict[str, int]:
    body = {"targets": [{"accountId": id} for id in accounts.values()], "text": text, "deep": False}
    results = world.alice.api.post("/v1/posts/validate", json=body).json()["results"]
    return {each["platform"]: each["text"]["length"] for each in results}


def counted_by_form(browser: ApiClient, accounts: dict[str, str], text: str) -> dict[str, int]:
    page = send_compose(browser, "count", text=text, **target_fields(*accounts.values())).text
    found = dict(re.findall(r'id="count-([0-9a-f]{12})"[^>]*>\s*<span class="count[^"]*">([\d,]+)', page))
    return {name: int(found[id[-12:]].replace(",", "")) for name, id in accounts.items()}


@pytest.mark.slow
def test_both_doors_count_a_line_break_as_one_character_on_every_platform(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(platforms={"tiktok": {"enabled": True}}))
    accounts, browser = accounts_of(world), sign_in(world.server, world.alice.organization)
    for text in TEXTS:
        wanted = counted_by_api(world, accounts, text)
        assert wanted.keys() == set(EIGHT)
        for way in WAYS.values():
            written = text.replace("\n", way)
            assert counted_by_api(world, accounts, written) == wanted, (way, text)
            assert counted_by_form(browser, accounts, written) == wanted, (way, text)


def test_a_text_at_the_limit_of_x_is_taken_by_both_doors(world: RequestCast) -> None:
    account = world.server.connect(world.alice, "twitter")["id"]
    browser = sign_in(world.server, world.alice.organization)
    for text, fits in (("a\r\n" * 140, True), ("a\r\n" * 140 + "a", False)):
        body = {"targets": [{"accountId": account}], "text": text, "deep": False}
        assert world.alice.api.post("/v1/posts/validate", json=body).json()["valid"] is fits
        assert (
            "twitter.text.max_graphemes" in send_compose(browser, "check", text=text, **target_fields(account)).text
        ) is not fits


@pytest.mark.parametrize("way", WAYS)
def test_what_is_kept_and_sent_has_line_feeds(world: RequestCast, way: str) -> None:
    end = WAYS[way]
    given: dict[str, Any] = {
        "text": f"one{end}{end}two",
        "firstComment": {"text": f"three{end}four"},
        "media": [{"kind": "image", "mediaId": stored_media(world.alice.api)["id"], "altText": f"five{end}six"}],
    }
    answer = world.alice.api.publish({"targets": [{"accountId": world.alice.bluesky} | given]})
    assert answer.json()["results"][0]["status"] == "published", answer.text
    records = [entry.request["record"] for entry in world.server.lab.lab.ledger.posts()]
    assert [record["text"] for record in records] == ["one\n\ntwo", "three\nfour"]
    assert records[0]["embed"]["images"][0]["alt"] == "five\nsix"
    (post,) = world.server.rows(Post)
    assert post["text"] == "one\n\ntwo"


@pytest.mark.parametrize("way", WAYS)
def test_a_files_words_and_a_search_have_line_feeds(world: RequestCast, way: str) -> None:
    end = WAYS[way]
    assert stored_media(world.alice.api, altText=f"a{end}b")["altText"] == "a\nb"
    assert world.server.rows(Media)[0]["alt_text"] == "a\nb"
    world.published(text="first line\nsecond line")
    found = world.alice.api.get("/v1/posts", params={"q": f"line{end}second"}).json()["data"]
    assert [post["text"] for post in found] == ["first line\nsecond line"]


@pytest.mark.parametrize(("platform", "limit"), [("pinterest", 100), ("tiktok", 90)])
def test_a_title_counts_a_line_break_as_one(platform: str, limit: int) -> None:
    def titled(title: str) -> Any:
        options = {"platform": platform, "title": title}
        body = {"targets": [{"platform": platform, "options": options}]}
        (target,) = PublishRequest.model_validate(body).targets
        assert target.options is not None
        return target.options.title

    assert titled("a\r\nb\rc\nd") == "a\nb\nc\nd"
    assert len(titled("a\r\n" * (limit // 2))) == limit


@given(st.text(alphabet=st.sampled_from("\r\na\u2028\x85\v"), max_size=30))
def test_nothing_but_carriage_returns_is_changed(text: str) -> None:
    made = normalize_line_feeds(text)
    assert made == re.sub("\r\n?", "\n", text)
    assert normalize_line_feeds(made) == made

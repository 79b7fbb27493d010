"""Preparation of Bluesky posts: record plan, mentions, image uploads, link card."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UnreadReason, UpstreamResponse
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import Draft, DraftMedia, MediaFacts, Published, PublishWarning, Ready
from socialpub.platforms.kit.images import remove_metadata
from tests.support.platforms.bluesky_calls import (
    AUTH,
    BOB,
    CID,
    DID,
    BlueskyCall,
    lookup_call,
    make_refusal,
    make_upstream,
    xrpc_call,
)
from tests.support.platforms.scripted_upstream import NONCE, NOW, ExpectedDownload, check_finished, make_response

LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
CREATED = "2026-11-20T09:10:09.123Z"


def blob(name: str = "a", mime: str = "image/png", size: int = 158) -> dict[str, Any]:
    return {"$type": "blob", "ref": {"$link": f"bafkrei{name}"}, "mimeType": mime, "size": size}


def picture(tmp_path: Path, name: str = "a.png", orientation: int = 1, kind: str = "PNG", **item: Any) -> DraftMedia:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "SecretCam"
    into = io.BytesIO()
    Image.new("RGB", (40, 30)).save(into, kind, exif=exif)
    path = tmp_path / name
    path.write_bytes(into.getvalue())
    width, height = (30, 40) if orientation >= 5 else (40, 30)
    facts = MediaFacts(f"image/{kind.lower()}", len(into.getvalue()), width=width, height=height)
    return DraftMedia("image", facts=facts, path=path, **item)


def uploading(item: DraftMedia, reply: UpstreamResponse | ApiError) -> BlueskyCall:
    assert item.facts is not None
    content_type = item.facts.content_type
    return xrpc_call(
        "POST",
        "com.atproto.repo.uploadBlob",
        reply,
        headers=AUTH | {"Content-Type": content_type},
        content=remove_metadata(item.read(), content_type).data,
    )


def uploaded(item: DraftMedia, name: str = "a") -> BlueskyCall:
    return uploading(item, make_response(200, {"blob": blob(name)}))


def prepared(draft: Draft, *calls: BlueskyCall | ExpectedDownload, **settings: Any) -> Ready:
    up = make_upstream(guarded=calls, **settings)
    ready = bluesky.prepare(up, draft, None)
    check_finished(up)
    assert isinstance(ready, Ready)
    return ready


def record(draft: Draft, *calls: BlueskyCall | ExpectedDownload, **settings: Any) -> dict[str, Any]:
    made: dict[str, Any] = prepared(draft, *calls, **settings).plan["record"]
    return made


def draft(text: str = "hello", **more: Any) -> Draft:
    return Draft(text, now_ms=NOW, nonce=NONCE, **more)


# --- The record -------------------------------------------------------------------------------------------------------


def test_the_plan_of_a_plain_text_is_a_whole_record_under_a_key_of_ours() -> None:
    assert prepared(draft()) == Ready(
        {
            "repo": DID,
            "collection": "app.bsky.feed.post",
            "rkey": bluesky.make_record_key(NOW, NONCE),
            "record": {"$type": "app.bsky.feed.post", "text": "hello", "createdAt": CREATED},
        }
    )


def test_languages_and_facets_go_into_the_record() -> None:
    assert record(draft("#hi", options={"langs": ["de", "en-GB"]})) == {
        "$type": "app.bsky.feed.post",
        "text": "#hi",
        "createdAt": CREATED,
        "langs": ["de", "en-GB"],
        "facets": [
            {
                "index": {"byteStart": 0, "byteEnd": 3},
                "features": [{"$type": "app.bsky.richtext.facet#tag", "tag": "hi"}],
            }
        ],
    }


def resolving(handle: str, reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return lookup_call("com.atproto.identity.resolveHandle", reply, params={"handle": handle})


def mentioned(made: dict[str, Any]) -> list[str]:
    return [facet["features"][0]["did"] for facet in made.get("facets", [])]


def test_a_mention_is_looked_up_once_at_the_accounts_server() -> None:
    made = record(draft("@bob.test @Bob.test"), resolving("bob.test", make_response(200, {"did": BOB})))
    assert mentioned(made) == [BOB, BOB]


@pytest.mark.parametrize(
    "reply",
    [
        make_refusal(400, "HandleNotFound"),
        make_refusal(401, "AuthMissing"),
        make_response(401, b""),
        make_response(200, {"did": "x"}),
        make_response(200, "<html>"),
    ],
)
def test_a_mention_that_is_not_known_stays_text(reply: UpstreamResponse) -> None:
    made = record(
        draft("@no.test @bob.test"),
        resolving("no.test", reply),
        resolving("bob.test", make_response(200, {"did": BOB})),
    )
    assert mentioned(made) == [BOB]


@pytest.mark.parametrize("reply", [LOST, make_refusal(502, "UpstreamFailure")])
def test_when_looking_up_fails_the_other_mentions_are_not_waited_for(reply: UpstreamResponse | ApiError) -> None:
    assert mentioned(record(draft("@no.test @bob.test"), resolving("no.test", reply))) == []


# --- Keys -------------------------------------------------------------------------------------------------------------

MOMENTS = st.integers(min_value=1_000, max_value=(1 << 53) // 1000 - 1_002)
NONCES = st.integers(min_value=0, max_value=(1 << 64) - 1)


def test_a_key_is_the_time_in_microseconds_and_ten_random_bits() -> None:
    number = 0
    for char in bluesky.make_record_key(NOW, NONCE):
        number = number * 32 + "234567abcdefghijklmnopqrstuvwxyz".index(char)
    assert 0 <= NOW * 1000 - (number >> 10) < bluesky.KEY_SPREAD_MICROS
    assert number & 1023 == NONCE & 1023


@given(MOMENTS, NONCES)
def test_every_key_has_the_form_of_a_tid(now_ms: int, nonce: int) -> None:
    key = bluesky.make_record_key(now_ms, nonce)
    assert len(key) == 13
    assert set(key) <= set("234567abcdefghijklmnopqrstuvwxyz")
    assert key[0] in "234567abcdefghij"


@given(MOMENTS, NONCES, NONCES)
def test_a_post_more_than_10_ms_later_has_a_later_key(now_ms: int, nonce: int, other: int) -> None:
    assert bluesky.make_record_key(now_ms, nonce) < bluesky.make_record_key(now_ms + 11, other)


def test_two_posts_of_one_moment_have_two_keys() -> None:
    assert len({bluesky.make_record_key(NOW, nonce << shift) for nonce in range(10) for shift in (0, 10)}) == 19


def test_ten_times_a_hundred_posts_of_one_moment_have_keys_of_their_own() -> None:
    drawn = random.Random(20261127)
    for _ in range(10):
        assert len({bluesky.make_record_key(NOW, drawn.getrandbits(64)) for _ in range(100)}) == 100


# --- Images -----------------------------------------------------------------------------------------------------------


def test_images_are_uploaded_without_metadata_and_recorded_as_returned(tmp_path: Path) -> None:
    first = picture(tmp_path, alt_text="a cat")
    second = picture(tmp_path, "b.jpg", kind="JPEG")
    made = record(draft(items=(first, second)), uploaded(first, "a"), uploaded(second, "b"))
    shape = {"width": 40, "height": 30}
    assert made["embed"] == {
        "$type": "app.bsky.embed.images",
        "images": [
            {"image": blob("a"), "alt": "a cat", "aspectRatio": shape},
            {"image": blob("b"), "alt": "", "aspectRatio": shape},
        ],
    }


def test_an_image_lying_on_its_side_has_the_shape_that_is_seen(tmp_path: Path) -> None:
    item = picture(tmp_path, orientation=6, kind="JPEG")
    made = record(draft(items=(item,)), uploaded(item))
    assert made["embed"]["images"][0]["aspectRatio"] == {"width": 30, "height": 40}


def test_an_unmeasured_image_has_no_shape(tmp_path: Path) -> None:
    item = picture(tmp_path)
    blind = DraftMedia("image", facts=MediaFacts("image/png", 1), path=item.path)
    assert record(draft(items=(blind,)), uploaded(blind))["embed"]["images"] == [{"image": blob(), "alt": ""}]


def test_more_than_four_images_make_a_gallery_with_aspect_ratios(tmp_path: Path) -> None:
    item = picture(tmp_path)
    blind = DraftMedia("image", facts=MediaFacts("image/png", 1), path=item.path)
    made = record(draft(items=(item,) * 4 + (blind,)), *[uploaded(item) for _ in range(5)], gallery=True)
    kind = "app.bsky.embed.gallery#image"
    measured = {"$type": kind, "image": blob(), "alt": "", "aspectRatio": {"width": 40, "height": 30}}
    assert made["embed"] == {
        "$type": "app.bsky.embed.gallery",
        "items": [measured] * 4 + [measured | {"aspectRatio": {"width": 1, "height": 1}}],
    }


def describing(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return lookup_call("com.atproto.server.describeServer", reply)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (
            make_response(200, {"blobUploadLimit": 5_242_880}),
            "The account's server takes files of at most 5,242,880 bytes.",
        ),
        (make_response(200, {}), ""),
        (make_refusal(500, "InternalServerError"), ""),
    ],
)
def test_file_too_large_for_the_server_names_the_servers_limit(
    tmp_path: Path, described: UpstreamResponse, said: str
) -> None:
    item = picture(tmp_path)
    refused = make_refusal(413, "PayloadTooLarge", "request entity too large")
    with pytest.raises(ApiError) as caught:
        prepared(draft(items=(item,)), uploading(item, refused), describing(described))
    assert caught.value.message.endswith(f"request entity too large {said}".strip())


REFUSED = [
    (
        make_refusal(413, "PayloadTooLarge"),
        "platform_rejected",
        Outcome.REJECTED,
        "bluesky.media.image_size_max",
        False,
    ),
    (make_response(413, "<html>"), "platform_rejected", Outcome.REJECTED, "bluesky.media.image_size_max", False),
    (make_refusal(400, "InvalidRequest"), "platform_rejected", Outcome.REJECTED, None, False),
    (make_refusal(400, "ExpiredToken"), "platform_auth_failed", Outcome.NOT_SENT, None, True),
    (make_refusal(429, "RateLimitExceeded"), "platform_unavailable", Outcome.THROTTLED, None, False),
    (make_refusal(500, "InternalServerError"), "platform_unavailable", Outcome.NOT_SENT, None, False),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.NOT_SENT, None, False),
    (make_response(200, {"blob": {"ref": {"$link": "x"}}}), "platform_unavailable", Outcome.NOT_SENT, None, False),
    (make_response(200, {"blob": blob() | {"size": "1"}}), "platform_unavailable", Outcome.NOT_SENT, None, False),
    (
        make_response(200, {"blob": blob() | {"ref": {"link": "x"}}}),
        "platform_unavailable",
        Outcome.NOT_SENT,
        None,
        False,
    ),
    (
        make_response(200, {"blob": {"cid": "x", "mimeType": "y"}}),
        "platform_unavailable",
        Outcome.NOT_SENT,
        None,
        False,
    ),
]


@pytest.mark.parametrize(("reply", "code", "outcome", "rule", "stale"), REFUSED)
def test_an_upload_that_fails_stops_the_post_before_anything_is_public(
    tmp_path: Path, reply: UpstreamResponse, code: str, outcome: Outcome, rule: str | None, stale: bool
) -> None:
    item = picture(tmp_path)
    cap = [describing(LOST)] if rule else []
    with pytest.raises(ApiError) as caught:
        prepared(draft(items=(item,)), uploading(item, reply), *cap)
    error = caught.value
    assert (error.code, error.outcome, error.rule, error.stale_token) == (code, outcome, rule, stale)
    assert "access-1" not in repr(vars(error))


# --- Link cards -------------------------------------------------------------------------------------------------------

URL = "https://example.com/a"
THUMB = "https://example.com/b.png"
HTML = b"<title>T</title><meta name=description content=D>"
WITH_THUMB = HTML + b"<meta property=og:image content=/b.png>"


def page(content: bytes, status: int = 200) -> ExpectedDownload:
    return ExpectedDownload(
        URL, UpstreamResponse(status, {"content-type": "text/html"}, b""), content, 1024 * 1024, 3.0, whole=False
    )


def thumb(content: bytes, reply: UpstreamResponse | ApiError | None = None) -> ExpectedDownload:
    return ExpectedDownload(THUMB, reply or make_response(200, b""), content, 1_000_000, 2.0)


def card(**more: Any) -> dict[str, Any]:
    external = {"uri": URL, "title": "T", "description": "D"} | more
    return {"$type": "app.bsky.embed.external", "external": external}


def test_without_media_the_first_link_becomes_a_card() -> None:
    ready = prepared(draft(f"see {URL} and https://other.example"), page(HTML))
    assert (ready.plan["record"]["embed"], ready.warnings) == (card(), ())


def test_a_cards_picture_is_uploaded_too(tmp_path: Path) -> None:
    item = picture(tmp_path)
    ready = prepared(draft(URL), page(WITH_THUMB), thumb(item.read()), uploaded(item))
    assert (ready.plan["record"]["embed"], ready.warnings) == (card(thumb=blob()), ())


def test_a_page_that_gives_no_card_is_a_warning_and_the_post_goes_on() -> None:
    ready = prepared(draft(URL), page(b"", 404))
    assert "embed" not in ready.plan["record"]
    assert [warning.code for warning in ready.warnings] == ["link_card_failed"]
    assert URL in ready.warnings[0].message


@pytest.mark.parametrize(
    "reply", [UpstreamResponse(200, {}, b"", unread=UnreadReason.TOO_LARGE), make_response(404, b"")]
)
def test_a_picture_that_cannot_be_used_is_a_warning_and_the_card_has_none(reply: UpstreamResponse | ApiError) -> None:
    ready = prepared(draft(URL), page(WITH_THUMB), thumb(b"x", reply))
    assert ready.plan["record"]["embed"] == card()
    assert ready.warnings == (
        PublishWarning("link_card_failed", f"The picture of {URL} could not be used, so its card has none."),
    )


def test_a_picture_that_the_server_refuses_is_a_warning_too(tmp_path: Path) -> None:
    item = picture(tmp_path)
    refused = uploading(item, make_refusal(413, "PayloadTooLarge"))
    ready = prepared(draft(URL), page(WITH_THUMB), thumb(item.read()), refused, describing(LOST))
    assert ready.plan["record"]["embed"] == card()
    assert [warning.code for warning in ready.warnings] == ["link_card_failed"]


@pytest.mark.parametrize(
    "reply",
    [
        make_refusal(400, "ExpiredToken"),
        make_refusal(401, "AccountTakedown"),
        make_refusal(500, "InternalServerError"),
        LOST,
    ],
)
def test_a_picture_that_could_not_be_sent_is_tried_again_with_the_post(
    tmp_path: Path, reply: UpstreamResponse | ApiError
) -> None:
    item = picture(tmp_path)
    with pytest.raises(ApiError):
        prepared(draft(URL), page(WITH_THUMB), thumb(item.read()), uploading(item, reply))


def test_beside_media_there_is_no_card(tmp_path: Path) -> None:
    item = picture(tmp_path)
    assert record(draft(URL, items=(item,)), uploaded(item))["embed"]["$type"] == "app.bsky.embed.images"


# --- A byte order mark ------------------------------------------------------------------------------------------------

BOM = "\ufeff"


def test_a_mark_before_the_text_is_left_out_and_moves_no_facet() -> None:
    made = record(draft(f"{BOM}{BOM}#tag x{BOM}"))
    assert made["text"] == f"#tag x{BOM}"
    assert [facet["index"] for facet in made["facets"]] == [{"byteStart": 0, "byteEnd": 4}]


def test_a_mark_before_an_alternative_text_is_left_out(tmp_path: Path) -> None:
    item = picture(tmp_path, alt_text=f"{BOM}A loaf")
    assert record(draft(items=(item,)), uploaded(item))["embed"]["images"][0]["alt"] == "A loaf"


def test_a_mark_before_the_words_of_a_card_is_left_out() -> None:
    marked = f"<title>{BOM} T</title><meta name=description content='{BOM}D'>".encode()
    assert record(draft(URL), page(marked))["embed"] == card()


def test_a_mark_before_the_first_comment_is_left_out() -> None:
    post = Published("r", f"at://{DID}/app.bsky.feed.post/3n2qaial32p6v", CID)
    plan = bluesky.comment(make_upstream(), draft(first_comment=f"{BOM}#more"), post, {"record": {}})
    assert plan["record"]["text"] == "#more"
    assert plan["record"]["facets"][0]["index"] == {"byteStart": 0, "byteEnd": 5}

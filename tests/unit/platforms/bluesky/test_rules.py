"""Preflight rules of Bluesky: limits, language tags, AT URIs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky.declaration import BlueskyOptions, BlueskySite
from socialpub.platforms.bluesky.rules import RULES
from socialpub.platforms.contract import (
    Connector,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    SupportsFirstComment,
    SupportsPasswordLogin,
    SupportsRevocation,
)
from socialpub.platforms.kit.rule_catalog import find_violations
from tests.support.platforms.bluesky_calls import BOB, CID, DID

MODULE: Connector = bluesky
COMMENTS: SupportsFirstComment = bluesky
LOGIN: SupportsPasswordLogin = bluesky
REVOKES: SupportsRevocation = bluesky

ME = ConnectorAccount(DID)
BOM = "\ufeff"  # nothing, at the beginning; a character elsewhere
FAMILY = "👨‍👩‍👧‍👦"  # one grapheme, 25 bytes
URI = f"at://{BOB}/app.bsky.feed.post/3n2qaial32p6v"


def image(content_type: str = "image/png", size: int = 1, alt: str | None = None) -> DraftMedia:
    return DraftMedia("image", alt, facts=MediaFacts(content_type, size))


def video(
    content_type: str = "video/mp4", size: int = 1, seconds: float | None = 1, alt: str | None = None
) -> DraftMedia:
    duration = None if seconds is None else round(seconds * 1000)
    return DraftMedia("video", alt, facts=MediaFacts(content_type, size, duration_ms=duration))


def draft(text: str = "x", *items: DraftMedia, comment: str | None = None, **options: Any) -> Draft:
    return Draft(text, items, options, comment)


def reply(uri: str = URI, cid: str = CID, **root: str) -> Draft:
    return draft(replyToUri=uri, replyToCid=cid, **root)


# rule, a draft that just passes, a draft that just fails, site settings
ROWS: list[tuple[str, Draft, Draft, dict[str, Any]]] = [
    ("bluesky.text.non_empty", draft("."), draft(" \n\u3000"), {}),
    ("bluesky.text.non_empty", draft("", image()), draft(""), {}),
    ("bluesky.text.max_graphemes", draft("é" * 300), draft("é" * 301), {}),
    ("bluesky.text.max_graphemes", draft(FAMILY * 120), draft("e\u0301" * 301), {}),
    ("bluesky.text.max_bytes", draft(FAMILY * 120), draft(FAMILY * 121), {}),
    ("bluesky.first_comment.non_empty", draft(comment="."), draft(comment=" \n"), {}),
    ("bluesky.first_comment.max_graphemes", draft(comment="x" * 300), draft(comment="x" * 301), {}),
    ("bluesky.first_comment.max_bytes", draft(comment=FAMILY * 120), draft(comment=FAMILY * 121), {}),
    ("bluesky.text.non_empty", draft(f"{BOM}."), draft(f"{BOM} "), {}),
    ("bluesky.text.max_graphemes", draft(BOM + "x" * 300), draft("x" * 300 + BOM), {}),
    ("bluesky.text.max_bytes", draft(BOM + FAMILY * 120), draft(BOM + FAMILY * 121), {}),
    ("bluesky.first_comment.non_empty", draft(comment=f"{BOM}."), draft(comment=BOM), {}),
    ("bluesky.first_comment.max_graphemes", draft(comment=BOM + "x" * 300), draft(comment="x" * 300 + BOM), {}),
    ("bluesky.langs.count_max", draft(langs=["en"] * 3), draft(langs=["en"] * 4), {}),
    ("bluesky.langs.format", draft(langs=["zh-Hant-TW"]), draft(langs=["en", "english please"]), {}),
    ("bluesky.text.non_empty", draft("", quoteUri=URI), draft("", labels=["porn"]), {}),
    ("bluesky.quote.uri", draft(quoteUri=URI), draft(quoteUri="https://bsky.app/x"), {}),
    ("bluesky.threadgate.count_max", draft(threadgate=["mention"] * 5), draft(threadgate=["mention"] * 6), {}),
    ("bluesky.reply.refs", reply(), reply(uri="https://bsky.app/x"), {}),
    ("bluesky.reply.refs", reply(), reply(cid="no cid"), {}),
    ("bluesky.reply.refs", reply(replyRootUri=URI, replyRootCid=CID), reply(replyRootUri=URI, replyRootCid=""), {}),
    ("bluesky.reply.refs", reply(replyRootUri=URI, replyRootCid=CID), reply(replyRootUri="", replyRootCid=CID), {}),
    ("bluesky.media.image_video_exclusive", draft("", video()), draft("", video(), image()), {}),
    ("bluesky.media.count_max", draft("", *[image()] * 4), draft("", *[image()] * 5), {}),
    ("bluesky.media.count_max", draft("", *[image()] * 10), draft("", *[image()] * 11), {"gallery": True}),
    ("bluesky.media.count_max", draft("", video()), draft("", video(), video()), {}),
    ("bluesky.media.document_unsupported", draft("", image()), draft("", DraftMedia("document")), {}),
    ("bluesky.media.mime_allowed", draft("", image("image/gif")), draft("", image("image/avif")), {}),
    ("bluesky.media.mime_allowed", draft("", video("video/webm")), draft("", video("video/x-msvideo")), {}),
    ("bluesky.media.mime_allowed", draft("", video()), draft("", video("video/webm")), {"video_service": ""}),
    ("bluesky.media.mime_allowed", draft("", video()), draft("", video("video/quicktime")), {"video_service": ""}),
    (
        "bluesky.media.image_size_max",
        draft("", image(size=2_000_000)),
        draft("", image(), image(size=2_000_001)),
        {},
    ),
    (
        "bluesky.media.video_size_max",
        draft("", video(size=300_000_000)),
        draft("", video(size=300_000_001)),
        {},
    ),
    (
        "bluesky.media.alt_text_max_graphemes",
        draft("", image(alt=FAMILY * 2000)),
        draft("", image(alt="x" * 2001)),
        {},
    ),
    ("bluesky.media.alt_text_max_graphemes", draft("", video(alt="x" * 1000)), draft("", video(alt="x" * 1001)), {}),
    ("bluesky.hashtag.max_graphemes", draft("#" + "x" * 64), draft("#" + "x" * 65), {}),
    (
        "bluesky.hashtag.max_graphemes",
        draft("#" + ("e" + "\u0301" * 9) * 33),
        draft("#" + ("e" + "\u0301" * 9) * 34),
        {},
    ),
    ("bluesky.video.too_long", draft("", video(seconds=600.1)), draft("", video(seconds=600.2)), {}),
]


def broken(content: Draft, **settings: Any) -> set[str]:
    found = find_violations(bluesky.PLATFORM, BlueskySite(**settings), content, ME, stages=("cheap", "deep"))
    return {finding.rule.id for finding in found.errors} | {warning.code for warning in found.warnings}


@pytest.mark.parametrize(("rule", "passes", "fails", "settings"), ROWS)
def test_each_row_draws_its_line_exactly(rule: str, passes: Draft, fails: Draft, settings: dict[str, Any]) -> None:
    assert broken(passes, **settings) == set()
    assert rule in broken(fails, **settings)


def test_every_row_with_a_check_is_in_the_table_above() -> None:
    assert {rule.id for rule in bluesky.PLATFORM.rules if rule.check} == {row[0] for row in ROWS}


def test_every_rule_that_an_answer_can_carry_has_a_row() -> None:
    assert {verdict.rule for verdict in bluesky.REPLIES.values() if verdict.rule} <= {rule.id for rule in RULES}


def test_only_advice_is_a_warning() -> None:
    warnings = {rule.id for rule in bluesky.PLATFORM.rules if rule.severity == "warning"}
    assert warnings == {
        "bluesky.media.alt_text_max_graphemes",
        "bluesky.hashtag.max_graphemes",
        "bluesky.video.too_long",
    }


@pytest.mark.parametrize("kind", ["image/gif", "image/webp", "image/png"])
def test_an_animation_is_told_to_become_a_still(kind: str) -> None:
    moving, still = (DraftMedia("image", facts=MediaFacts(kind, 1, frames=frames)) for frames in (2, 1))
    content = draft("", still, moving)
    (told,) = find_violations(bluesky.PLATFORM, BlueskySite(), content, ME, stages=("deep",)).warnings
    assert told.code == "animation_still"
    assert told.message.endswith("Media item 2 is animated.")
    assert broken(draft("", still)) == set()


def test_the_counter_leaves_a_mark_before_the_text_out() -> None:
    assert bluesky.PLATFORM.count(draft(f"{BOM}abc"), ME).length == 3


def test_the_words_of_a_row_say_its_limit() -> None:
    (row,) = [rule for rule in RULES if rule.id == "bluesky.text.max_bytes"]
    assert row.message == "A Bluesky post can have at most 3,000 bytes in UTF-8."


@pytest.mark.parametrize(
    "tag",
    ["en", "EN", "de-AT", "zh-Hant", "zh-cmn-Hans-CN", "es-419", "sl-rozaj-biske", "de-1996", "en-a-bbb-x-a", "x-own"]
    + ["i-klingon", "mas", "ast-ES"],
)
def test_a_language_tag_is_taken(tag: str) -> None:
    assert broken(draft(langs=[tag])) == set()


@pytest.mark.parametrize(
    "tag", ["", "e", "en_US", "en-", "-en", "english please", "en--US", "de-A", "123", "en\n", "x"]
)
def test_what_is_no_language_tag_is_refused(tag: str) -> None:
    assert broken(draft(langs=[tag])) == {"bluesky.langs.format"}


@pytest.mark.parametrize(
    "uri", [URI, "at://alice.bsky.social/app.bsky.feed.post/3n2q", "at://did:web:a.b%3A80/c.d/e_~.:-"]
)
def test_an_at_uri_is_taken(uri: str) -> None:
    assert broken(reply(uri=uri)) == set()


@pytest.mark.parametrize(
    "uri", ["", "at://", f"at://{BOB}", f"at://{BOB}/app.bsky.feed.post", URI + "/x", URI + "?a", URI + "#a", f" {URI}"]
)
def test_what_is_no_at_uri_of_a_record_is_refused(uri: str) -> None:
    assert broken(reply(uri=uri)) == {"bluesky.reply.refs"}


@pytest.mark.parametrize("cid", ["QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", CID.replace("bafyrei", "bafkrei")])
def test_a_cid_is_taken(cid: str) -> None:
    assert broken(reply(cid=cid)) == set()


# --- Options ----------------------------------------------------------------------------------------------------------

PAIR = {"replyToUri": URI, "replyToCid": CID}
ROOT = {"replyRootUri": URI, "replyRootCid": CID}


@pytest.mark.parametrize(
    "options", [{}, {"platform": "bluesky"}, {"langs": []}, {"langs": ["de"]}, PAIR, PAIR | ROOT | {"langs": ["de"]}]
)
def test_options_are_taken_as_they_were_sent(options: dict[str, Any]) -> None:
    kept = BlueskyOptions.model_validate(options).model_dump(by_alias=True, exclude_unset=True)
    assert kept == options


@pytest.mark.parametrize(
    "options",
    [
        {"replyToUri": URI},
        {"replyToCid": CID},
        {"replyRootUri": URI},
        PAIR | {"replyRootCid": CID},
        PAIR | {"replyRootUri": URI},
        ROOT,
        {"langs": "de"},
        {"langs": [1]},
        {"langs": None},
        {"replyToUri": None, "replyToCid": None},
        PAIR | {"replyToUri": 1},
        PAIR | {"replyToUri": "at://" + "x" * 2048},
        {"platform": "twitter"},
        {"reply_to_uri": URI, "reply_to_cid": CID},
        {"lang": ["de"]},
    ],
)
def test_half_a_pair_an_unknown_field_and_a_wrong_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BlueskyOptions.model_validate(options)


# --- Settings ---------------------------------------------------------------------------------------------------------


def test_one_api_base_stands_in_for_every_host_that_is_not_set() -> None:
    site = BlueskySite(api_base="http://localhost:1", public_api="http://localhost:2/")
    assert (site.service, site.plc_directory, site.video_service) == ("http://localhost:1",) * 3
    assert site.public_api == "http://localhost:2"


@pytest.mark.parametrize(
    "settings",
    [{"service": ""}, {"service": "bsky.social"}, {"public_api": "https://a/b"}, {"plc_directory": "https://u@a"}],
)
def test_a_host_is_a_bare_origin(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        BlueskySite(**settings)  # type: ignore[arg-type]


def test_the_counter_counts_what_the_rule_counts() -> None:
    assert bluesky.PLATFORM.count(draft(FAMILY + "ab"), ME).length == 3

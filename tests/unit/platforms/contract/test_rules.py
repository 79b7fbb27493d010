"""Preflight rule cases of all platforms: passing and breaking drafts, order, warnings."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import pytest

from socialpub.domain.schemas.errors import build_error_body
from socialpub.platforms import CATALOGUE, PLATFORMS
from socialpub.platforms.contract import ConnectorAccount, Draft, DraftMedia, DraftWarning, PublishWarning, Rule
from socialpub.platforms.kit.rule_catalog import (
    RuleFinding,
    build_catalogue,
    build_warning,
    find_fetch_rule,
    find_violations,
    remove_duplicates,
)
from tests.support.platforms.media_rule_cases import DEEP
from tests.support.platforms.rule_cases import CHEAP, FAMILY, PIC, Cases
from tests.support.platforms.rule_drafts import (
    EIGHT,
    RuleScene,
    animated_gif,
    clip,
    gif,
    image,
    images,
    jpeg,
    photo,
    scene,
    video,
)
from tests.support.table_checks import check_rows


def _cases() -> Cases:
    """Those of the shared tables, and those that stand with their platform's other tests."""
    modules = [f"tests.unit.platforms.{name}.test_{name}" for name in PLATFORMS]
    own = [vars(import_module(name)).get("RULE_CASES", {}) for name in modules if find_spec(name)]
    return {rule: pair for table in (CHEAP, DEEP, *own) for rule, pair in table.items()}


CASES = _cases()
CHECKED = [rule for rule in CATALOGUE.values() if rule.check is not None]


def pairs(which: int) -> dict[str, tuple[Rule, RuleScene]]:
    return {
        f"{rule.id}-{number}": (rule, one)
        for rule in CHECKED
        for number, one in enumerate(CASES[rule.id][which] if rule.id in CASES else [])
    }


def test_every_checked_row_has_passing_and_breaking_drafts() -> None:
    assert sorted(CASES) == sorted(rule.id for rule in CHECKED)
    assert all(good and bad for good, bad in CASES.values())


def test_a_draft_at_the_limit_passes_the_row() -> None:
    def check(rule: Rule, good: RuleScene) -> None:
        errors, warnings = good.ids(rule.platform, rule.stage)
        assert rule.id not in errors + warnings

    check_rows(pairs(0), check)


def test_a_draft_past_the_limit_breaks_the_row() -> None:
    def check(rule: Rule, bad: RuleScene) -> None:
        errors, warnings = bad.ids(rule.platform, rule.stage)
        assert (rule.id in errors) == (rule.severity == "error")
        assert (rule.id in warnings) == (rule.severity == "warning")

    check_rows(pairs(1), check)


def test_a_row_is_silent_in_the_other_stage() -> None:
    def check(rule: Rule, bad: RuleScene) -> None:
        other = "deep" if rule.stage == "cheap" else "cheap"
        errors, warnings = bad.ids(rule.platform, other)
        assert rule.id not in errors + warnings

    check_rows(pairs(1), check)


def test_media_whose_bytes_are_not_here_passes_deep_rows() -> None:
    def check(rule: Rule) -> None:
        for bad in CASES[rule.id][1]:
            items = tuple(replace(item, facts=None) for item in bad.draft.items)
            blind = replace(bad, draft=replace(bad.draft, items=items, option_facts={}))
            assert blind.ids(rule.platform, "deep") == ([], [])

    check_rows({rule.id: rule for rule in CHECKED if rule.stage == "deep"}, check)


def test_deep_rows_find_nothing_where_there_are_no_media() -> None:
    """Of none: so they need not be asked of a post without any."""

    def check(rule: Rule) -> None:
        for case, scenes in CASES.items():
            if CATALOGUE[case].platform == rule.platform:
                for one in (*scenes[0], *scenes[1]):
                    bare = replace(one, draft=replace(one.draft, items=(), option_facts={}))
                    assert bare.hits(rule) == []

    check_rows({rule.id: rule for rule in CHECKED if rule.stage == "deep"}, check)


# --- Order, words, errors ------------------------------------------------------------------------------------------


def test_every_failing_row_is_reported_in_the_order_of_the_rows() -> None:
    bad = scene("a" * 3001, *images(5), video(), comment="", options={"langs": ["x!"] * 4})
    assert bad.ids("bluesky")[0] == [
        "bluesky.text.max_graphemes",
        "bluesky.text.max_bytes",
        "bluesky.first_comment.non_empty",
        "bluesky.langs.count_max",
        *["bluesky.langs.format"] * 4,
        "bluesky.media.image_video_exclusive",
        "bluesky.media.count_max",
    ]


def test_a_finding_says_the_limit_and_what_was_found() -> None:
    (found,) = scene("a" * 281).judged("twitter").errors
    assert found.message == (
        "A post on X can have at most 280 characters as X counts them (25,000 with a paid subscription): "
        "emoji, Chinese, Japanese and Korean characters count 2, a link 23. This text has 281."
    )
    assert found.remediation == "Shorten the text for this target."
    assert found.item is None


def test_a_finding_names_the_media_item() -> None:
    (found,) = scene("", image(), image(jpeg(size=9 * 1024 * 1024))).judged("threads", "deep").errors
    assert found == RuleFinding(CATALOGUE["threads.media.image_size_max"], "Media item 2 has 9,437,184 bytes.", 1)
    assert (
        found.message == "An image on Threads can be at most 8,388,608 bytes (8 MB). Media item 2 has 9,437,184 bytes."
    )


def test_a_finding_becomes_the_error_that_the_api_shows() -> None:
    (found,) = scene("").judged("linkedin").errors
    error = found.error("202609")
    assert build_error_body(error, "https://s.example") == {
        "code": "preflight_failed",
        "message": "A LinkedIn post without media needs text.",
        "rule": "linkedin.text.non_empty",
        "platform": "linkedin",
        "platformVersion": "202609",
        "remediation": "Write some text, or add media.",
        "docUrl": "https://s.example/docs/errors/preflight_failed",
        "ruleUrl": "https://s.example/docs/rules/linkedin.text.non_empty",
    }
    assert error.status == 400
    assert error.outcome is None


def test_a_finding_becomes_the_warning_of_a_scheduled_post() -> None:
    (found,) = photo(content_type="image/png").judged("instagram", "deep").errors
    assert found.warning() == PublishWarning(
        "instagram.media.mime_allowed",
        "Instagram accepts JPEG images, and MP4 and QuickTime videos. Media item 1 has the type image/png.",
    )


def test_an_upstream_row_becomes_the_error_of_the_platforms_refusal() -> None:
    error = CATALOGUE["twitter.credits.exhausted"].error("v2", platform_response={"status": 402}, retry_after=9)
    assert (error.code, error.status, error.rule) == ("platform_unavailable", 503, "twitter.credits.exhausted")
    assert (error.platform, error.platform_version) == ("twitter", "v2")
    assert (error.platform_response, error.retry_after) == ({"status": 402}, 9)
    assert CATALOGUE["tiktok.account.blocked"].error().code == "platform_rejected"


def test_two_rows_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="bluesky.text.non_empty"):
        build_catalogue([PLATFORMS["bluesky"], PLATFORMS["bluesky"]])
    with pytest.raises(ValueError, match="bluesky.text.non_empty"):
        build_catalogue([replace(PLATFORMS["bluesky"], name="other")])


@pytest.mark.parametrize(
    ("platform", "kind", "rule"),
    [
        ("bluesky", "image", "bluesky.media.reachable"),
        ("linkedin", "video", "linkedin.media.reachable"),
        ("pinterest", "image", "pinterest.image_url.reachable"),
        ("pinterest", "video", "pinterest.video.reachable"),
        ("tiktok", "image", "tiktok.photo.reachable"),
        ("tiktok", "video", "tiktok.video.reachable"),
    ],
)
def test_a_media_url_that_cannot_be_fetched_has_a_row_on_every_platform(platform: str, kind: str, rule: str) -> None:
    assert find_fetch_rule(PLATFORMS[platform], kind).id == rule  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_platform_has_its_fetch_rows(name: str) -> None:
    assert {find_fetch_rule(PLATFORMS[name], kind).stage for kind in ("image", "video")} == {"deep"}


# --- Grey zones ----------------------------------------------------------------------------------------------------

GREY_TEXTS = [
    ("facebook", scene(FAMILY * 6000), "66,000 of 63,206"),
    ("instagram", scene("🎉" * 1101, PIC), "2,202 of 2,200"),
    ("instagram", scene("", image(alt="e\u0301" * 501)), "1,002 of 1,000"),
    ("linkedin", scene("🎉" * 1501), "3,002 of 3,000"),
    ("linkedin", scene("", image(alt="🎉" * 2044)), "4,088 of 4,086"),
    ("pinterest", scene("", PIC, options={"title": "🎉" * 51}), "102 of 100"),
    ("pinterest", scene("", image(alt="🎉" * 251)), "502 of 500"),
    ("threads", scene("e\u0301" * 251), "502 of 500"),
    ("threads", scene("", image(alt="🎉" * 501)), "1,002 of 1,000"),
    ("twitter", scene("", image(alt="🎉" * 501)), "1,002 of 1,000"),
]


@pytest.mark.parametrize(("platform", "grey", "found"), GREY_TEXTS)
def test_a_text_that_only_the_strict_reading_refuses_warns(platform: str, grey: RuleScene, found: str) -> None:
    judged = grey.judged(platform)
    assert judged.errors == ()
    assert [each.code for each in judged.warnings] == ["text_may_exceed_limit"]
    assert found in judged.warnings[0].message


def test_an_exact_unit_has_no_grey_zone() -> None:
    assert scene("🎉" * 300).ids("bluesky") == ([], [])
    assert scene("🎉" * 140).ids("twitter") == ([], [])


GREY_FILES = [
    ("facebook", photo, 10_000_000),
    ("instagram", photo, 8_000_000),
    ("instagram", clip, 300_000_000),
    ("linkedin", clip, 5_000_000_000),
    ("pinterest", photo, 20_000_000),
    ("pinterest", clip, 2_000_000_000),
    ("threads", photo, 8_000_000),
    ("threads", clip, 1_000_000_000),
    ("tiktok", photo, 20_000_000),
    ("tiktok", clip, 4_000_000_000),
    ("twitter", photo, 5_000_000),
    ("twitter", animated_gif, 15_000_000),
    ("twitter", clip, 16_000_000_000),
]


@pytest.mark.parametrize(("platform", "make", "decimal"), GREY_FILES)
def test_a_file_between_the_two_readings_of_a_megabyte_warns(platform: str, make: object, decimal: int) -> None:
    assert callable(make)
    assert "media_may_exceed_limit" not in make(size=decimal).ids(platform, "deep")[1]
    errors, warnings = make(size=decimal + 1).ids(platform, "deep")
    assert errors == []
    assert "media_may_exceed_limit" in warnings


def test_a_cover_between_the_two_readings_of_a_megabyte_warns() -> None:
    assert scene("", video(), cover=jpeg(size=8_000_001)).ids("instagram", "deep") == ([], ["media_may_exceed_limit"])


# --- Facts that could not be read ----------------------------------------------------------------------------------


def test_facts_that_could_not_be_read_pass_with_one_warning_each() -> None:
    blind = clip(
        width=None, height=None, duration_ms=None, frame_rate=None, bit_rate=None, video_codec=None, audio_codec=None
    )
    judged = blind.judged("instagram", "deep")
    assert judged.errors == ()
    assert {each.code for each in judged.warnings} == {"media_unmeasured"}
    assert [each.message.partition("checked. ")[2] for each in judged.warnings] == [
        "Media item 1: duration.",
        "Media item 1: video codec.",
        "Media item 1: audio codec.",
        "Media item 1: frame rate.",
        "Media item 1: width.",
        "Media item 1: bit rate.",
        "Media item 1: aspect ratio.",
    ]


def test_a_video_without_sound_needs_no_audio_codec() -> None:
    assert clip(has_audio=False, audio_codec=None).ids("threads", "deep") == ([], [])


def test_a_gif_whose_frames_are_unknown_warns_where_frames_count() -> None:
    errors, warnings = animated_gif(frames=None).ids("twitter", "deep")
    assert (errors, set(warnings)) == ([], {"media_unmeasured"})
    assert animated_gif(frames=None).ids("bluesky", "deep") == ([], [])


# --- Warnings that no row gives ------------------------------------------------------------------------------------


def codes(platform: str, one: RuleScene) -> list[str]:
    return [each.code for each in one.judged(platform).warnings]


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_first_comment_is_ignored_everywhere_but_on_bluesky(name: str) -> None:
    given = codes(name, scene("Hello", image(), comment="first"))
    takes_one = name == "bluesky" if name in EIGHT else PLATFORMS[name].first_comment
    assert ("first_comment_ignored" in given) != takes_one


TAKES_ALT_TEXT = {
    "bluesky": {"image", "video"},
    "facebook": {"image"},
    "instagram": {"image"},
    "linkedin": {"image"},
    "pinterest": {"image", "video"},
    "threads": {"image", "video"},
    "tiktok": set(),
    "twitter": {"image"},
}


@pytest.mark.parametrize("kind", ["image", "video"])
@pytest.mark.parametrize("name", PLATFORMS)
def test_alt_text_is_ignored_where_the_platform_takes_none(name: str, kind: str) -> None:
    item = image(alt="a cat") if kind == "image" else video(alt="a cat")
    taken = TAKES_ALT_TEXT[name] if name in EIGHT else PLATFORMS[name].alt_text
    assert ("alt_text_ignored" in codes(name, scene("Hello", item))) == (kind not in taken)


@pytest.mark.parametrize("name", PLATFORMS)
def test_an_empty_alt_text_is_no_alt_text(name: str) -> None:
    assert "alt_text_ignored" not in codes(name, scene("Hello", video(alt="")))


def test_a_pin_publishes_the_alt_text_of_its_first_item_only() -> None:
    assert codes("pinterest", scene("", image(alt="a"), image())) == []
    assert codes("pinterest", scene("", image(), image(alt="b"))) == ["alt_text_ignored"]


COVER, REEL = "https://a.example/c.jpg", video()
OPTIONS = [
    ("instagram", scene("", REEL, options={"coverUrl": COVER}), []),
    ("instagram", scene("", REEL, image(), options={"coverUrl": COVER}), ["coverUrl"]),
    ("instagram", scene("", REEL, REEL, options={"coverUrl": COVER}), ["coverUrl"]),
    ("instagram", scene("", image(), options={"shareToFeed": False}), ["shareToFeed"]),
    ("instagram", scene("", REEL, options={"shareToFeed": False}), []),
    ("pinterest", scene("", image(), options={"coverImageUrl": COVER}), ["coverImageUrl"]),
    ("pinterest", scene("", REEL, options={"coverImageUrl": COVER}), []),
    ("facebook", scene("", image(), options={"link": COVER}), ["link"]),
    ("facebook", scene("", options={"link": COVER}), []),
    ("tiktok", scene("", REEL, options={"title": "T"}), ["title"]),
    ("tiktok", scene("", image(), options={"title": "T"}), []),
]


@pytest.mark.parametrize(("platform", "one", "named"), OPTIONS)
def test_an_option_that_does_nothing_is_named(platform: str, one: RuleScene, named: list[str]) -> None:
    ignored = [each.message for each in one.judged(platform).warnings if each.code == "option_ignored"]
    assert [message.split("`")[1] for message in ignored] == named


INBOX = [
    (scene("", video(), options={"privacy": "self_only"}), 1),
    (scene("", image(), options={"disableDuet": False}), 1),
    (scene("Hello", video()), 1),
    (scene("Hello", video(), options={"brandContentToggle": True}), 2),
    (scene("Hello", image()), 0),
    (scene("", video()), 0),
]


@pytest.mark.parametrize(("one", "count"), INBOX)
def test_what_the_inbox_of_tiktok_cannot_carry_is_said(one: RuleScene, count: int) -> None:
    assert codes("tiktok", one) == ["tiktok_inbox_options_ignored"] * count


def test_a_deep_run_does_not_repeat_the_cheap_warnings() -> None:
    one = scene("Hello", video(alt="a"), comment="c")
    assert one.judged("linkedin", "deep").warnings == ()
    assert len(one.judged("linkedin", "cheap", "deep").warnings) == 2


def test_a_platform_may_bring_a_warning_with_words_of_its_own() -> None:
    notice = DraftWarning("threads_moon", "The moon is full.", lambda draft: draft.text == "Howl")
    platform = replace(PLATFORMS["threads"], draft_warnings=(notice,))
    given = [
        find_violations(platform, platform.site(), Draft(text), ConnectorAccount("1")).warnings
        for text in ("Howl", "Hello")
    ]
    assert given == [(PublishWarning("threads_moon", "The moon is full."),), ()]


def test_a_warning_without_words_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        build_warning("no_such_code")


# --- Cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLATFORMS)
def test_preflight_of_an_ordinary_draft_costs_a_few_thousand_calls(name: str) -> None:
    """Well under a millisecond, on whatever machine: once the tables and patterns are made, which is not counted."""
    one = scene("Hello https://example.com #tag @name " * 7, image(alt="a cat"), image(gif()), DraftMedia("image"))
    one.judged(name, "cheap", "deep")
    assert _calls(one, name) < 2500


def _calls(one: RuleScene, name: str) -> int:
    """How many functions are called for it, those of Python itself too."""
    seen: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.append(event))
    try:
        one.judged(name, "cheap", "deep")
    finally:
        sys.setprofile(before)
    return sum(event in ("call", "c_call") for event in seen)


def test_a_warning_stands_once() -> None:
    """Of items and options each its own; of the post as a whole one, in its last words."""
    first, second = (build_warning("alt_text_ignored", f"Media item {number}.") for number in (1, 2))
    given = [
        first,
        build_warning("daily_cap_near", "By our log."),
        second,
        first,
        build_warning("daily_cap_near", "It says so."),
    ]
    assert remove_duplicates(given) == [first, build_warning("daily_cap_near", "It says so."), second]

"""Rule catalogue and platform table: ids, texts and sources match the specification."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from socialpub.base.error_codes import ERRORS
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.platforms import CATALOGUE, CONNECTORS, PLATFORMS, platform, site
from socialpub.platforms.contract import CONTAINER, KEY, NO_KEY, ConnectorAccount, Draft, Rule, Site, TextCounter
from socialpub.platforms.kit.rule_catalog import WARNINGS
from tests.support.platforms.rule_drafts import EIGHT, image, scene, video
from tests.support.table_checks import check_rows

SPEC = Path(__file__).parents[5] / "shared/spec/rules.md"
STATES = {"tiktok": "pending"}


# --- Words -----------------------------------------------------------------------------------------------------------


def test_a_row_has_whole_sentences_and_a_source() -> None:
    def check(rule: Rule) -> None:
        for words in (rule.message, rule.remediation):
            assert words[0].isupper() or words.startswith("`")
            assert words[-1] in ".…"
            assert "{" not in words.replace("{ }", "")
        assert rule.source

    check_rows(CATALOGUE, check)


def test_a_row_has_a_code_of_the_errors_table() -> None:
    def check(rule: Rule) -> None:
        assert rule.code in ERRORS
        assert (rule.code == "preflight_failed") == (rule.stage in ("cheap", "deep"))

    check_rows(CATALOGUE, check)


def test_only_rows_of_cheap_and_deep_stages_check_and_only_they_warn() -> None:
    def check(rule: Rule) -> None:
        decided_elsewhere = rule.stage in ("upstream", "connect") or rule.id.endswith(".reachable")
        assert (rule.check is None) == decided_elsewhere
        assert rule.severity == "error" or rule.check is not None

    check_rows(CATALOGUE, check)


def test_a_number_of_a_row_has_a_unit_and_stands_in_its_words() -> None:
    def check(rule: Rule) -> None:
        if isinstance(rule.limit, int | float):
            assert rule.unit
            assert rule.id.endswith("count_max") or f"{rule.limit:,}" in rule.message

    check_rows(CATALOGUE, check)


def test_platform_and_service_ids_differ_but_for_the_unknown_board() -> None:
    assert set(CATALOGUE) & set(SERVICE_RULES) == {"pinterest.board.unknown"}


# --- Platforms -------------------------------------------------------------------------------------------------------


def test_the_eight_platforms_stand_under_their_own_names() -> None:
    assert tuple(name for name in PLATFORMS if name in EIGHT) == EIGHT
    assert all(platform(name).name == name for name in PLATFORMS)
    assert all(rule.platform in PLATFORMS for rule in CATALOGUE.values())


def test_every_platform_has_a_connector() -> None:
    assert set(PLATFORMS) == set(CONNECTORS)
    assert all(connector.PLATFORM is PLATFORMS[name] for name, connector in CONNECTORS.items())


def test_send_classes_say_which_platform_takes_a_key() -> None:
    classes = {name: PLATFORMS[name].send_class for name in EIGHT}
    assert classes == {
        "bluesky": KEY,
        "facebook": NO_KEY,
        "instagram": CONTAINER,
        "linkedin": NO_KEY,
        "pinterest": NO_KEY,
        "threads": CONTAINER,
        "tiktok": CONTAINER,
        "twitter": NO_KEY,
    }


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform_says_its_version_and_state(name: str) -> None:
    declared = platform(name)
    assert declared.version
    assert declared.state == STATES.get(name, "stable")
    assert declared.pinned(declared.site()) == declared.version
    assert declared.pinned(declared.site(api_version="v99")) == "v99"


@pytest.mark.parametrize("name", sorted(set(PLATFORMS) - {"bluesky"}))
def test_a_site_has_the_real_hosts_as_https_and_bare_origins(name: str) -> None:
    default = site(name, {})
    assert re.fullmatch(r"https://[a-z0-9.-]+", default.api_base)
    assert default.authorize_url.startswith("https://")
    assert default.token_url.startswith("https://")
    assert default.enabled == (name != "tiktok")


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_site_takes_a_lab_and_refuses_an_unknown_setting(name: str) -> None:
    lab = site(name, {"enabled": True, "api_base": "http://127.0.0.1:9001"})
    assert isinstance(lab, platform(name).site)
    assert isinstance(lab, Site)
    assert (lab.enabled, lab.api_base) == (True, "http://127.0.0.1:9001")
    with pytest.raises(ValueError, match="colour"):
        site(name, {"colour": "blue"})


def test_sites_have_the_settings_of_their_own() -> None:
    assert site("facebook", {}).model_dump()["upload_base"] == "https://graph.facebook.com"
    assert site("instagram", {"hashtags_advised": 9}).model_dump()["hashtags_advised"] == 9
    prefixes = {"verified_url_prefixes": ["https://a.example/"]}
    assert site("tiktok", prefixes).model_dump()["verified_url_prefixes"] == ("https://a.example/",)


PAID = ConnectorAccount("1", extra={"subscriptionType": "PremiumPlus"})
COUNTERS = [
    ("bluesky", scene("👨\u200d👩\u200d👧e\u0301\r\n"), TextCounter(3, 300, "graphemes")),
    ("facebook", scene("🇩🇪"), TextCounter(1, 63_206, "graphemes")),
    ("instagram", scene("日本"), TextCounter(2, 2_200, "graphemes")),
    ("linkedin", scene("(a) #b"), TextCounter(8, 3_000, "characters")),
    ("pinterest", scene(""), TextCounter(0, 800, "graphemes")),
    ("threads", scene("🎉a"), TextCounter(5, 500, "characters")),
    ("tiktok", scene("🎉a", image()), TextCounter(3, 4_000, "utf16")),
    ("tiktok", scene("🎉a", video()), TextCounter(3, None, "utf16")),
    ("twitter", scene("🎉a example.com"), TextCounter(27, 280, "weighted")),
    ("twitter", scene("日", account=PAID), TextCounter(2, 25_000, "weighted")),
]


@pytest.mark.parametrize(("name", "one", "expected"), COUNTERS)
def test_the_counter_shows_length_limit_and_unit_of_the_platform(name: str, one: object, expected: TextCounter) -> None:
    draft, account = one.draft, one.account or ConnectorAccount("1")  # type: ignore[attr-defined]
    assert platform(name).count(draft, account) == expected


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_counters_limit_is_that_of_the_row(name: str) -> None:
    shown = platform(name).count(Draft(""), ConnectorAccount("1"))
    rows = (f"{name}.text.max_graphemes", f"{name}.text.max_chars")
    assert [shown.limit] == [CATALOGUE[row].limit for row in rows if row in CATALOGUE]


# --- The binding list of rules ---------------------------------------------------------------------------------------

# What this server says beyond the specification's tables: a row that stands in neither is a mistake.
ADDED_RULES = {
    "bluesky.quote.uri": ("cheap", "error"),
    "bluesky.threadgate.count_max": ("cheap", "error"),
    "facebook.story.media_count": ("cheap", "error"),
    **{
        f"facebook.story.video_{name}": ("deep", "error")
        for name in ("duration", "dimensions", "aspect_ratio", "frame_rate", "codec")
    },
    "instagram.story.media_count": ("cheap", "error"),
    "instagram.collaborators.count_max": ("cheap", "error"),
    "instagram.thumb_offset.range": ("deep", "error"),
    "instagram.story.video_too_short": ("deep", "error"),
    "instagram.story.video_too_long": ("deep", "error"),
    "instagram.story.video_size_max": ("deep", "error"),
    "instagram.story.video_aspect_ratio": ("deep", "error"),
    "linkedin.media.no_mixing": ("cheap", "error"),
    "linkedin.document.title_required": ("cheap", "error"),
    "linkedin.document.title_max_graphemes": ("cheap", "error"),
    "linkedin.document.size_max": ("deep", "error"),
    **{f"{name}.media.document_unsupported": ("cheap", "error") for name in EIGHT if name != "linkedin"},
    "pinterest.board_section.unknown": ("upstream", "error"),
    "threads.topic_tag.max_graphemes": ("cheap", "error"),
    "threads.topic_tag.format": ("cheap", "error"),
    "threads.link_attachment.http": ("cheap", "error"),
    "threads.link_attachment.text_only": ("cheap", "error"),
    **{f"{name}.thread.unsupported": ("cheap", "error") for name in EIGHT if PLATFORMS[name].thread is None},
}
ADDED_WARNINGS = {"animation_still"}
ADDED_SERVICE = {
    "api_key.expired",
    "api_key.scope",
    "csrf",
    "draft.approval",
    "draft.changed",
    "draft.incomplete",
    "draft.status",
    "drafts.max",
    "external_id.taken",
    "http.busy",
    "http.content_encoding",
    "http.deadline",
    "http.host",
    "http.if_match",
    "http.request",
    "http.timeout",
    "media.quota",
    "metrics.unforwarded",
    "notification.channels.max",
    "notification.email.off",
    "plan.changed",
    "plan.max",
    "plan.unknown",
    "post.retry.thread",
    "post.thread.waiting",
    "service.stopping",
    "session.proof",
    "slots.none",
    "slots.profile",
    "thread.previous_missing",
    "webhook.endpoints.max",
}


def section(number: int) -> str:
    if not SPEC.exists():
        pytest.skip(f"{SPEC} is not here")
    return SPEC.read_text(encoding="utf-8").partition(f"\n## {number}. ")[2].partition("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """The cells of the table rows whose first cell names ids in backticks."""
    return [line.strip("|").split(" | ") for line in text.splitlines() if re.match(r"\|\s*`", line)]


def ids(cell: str) -> list[str]:
    return re.findall(r"`([a-zA-Z_.0-9]+)`", cell)


@pytest.mark.upstream
def test_the_catalogue_has_exactly_the_platform_rows_of_the_specification() -> None:
    wanted = {
        rule: (stage.strip().split(",")[0], "warning" if "warning" in stage else "error")
        for cells in table(section(2))
        for stage in [cells[1]]
        for rule in ids(cells[0])
    }
    assert len(wanted) > 200
    assert {rule.id: (rule.stage, rule.severity) for rule in CATALOGUE.values()} == wanted | ADDED_RULES


@pytest.mark.upstream
def test_the_rows_stand_in_the_order_of_the_specification() -> None:
    wanted = [rule for cells in table(section(2)) for rule in ids(cells[0])]
    assert [rule for rule in CATALOGUE if rule not in ADDED_RULES] == wanted


@pytest.mark.upstream
def test_the_codes_that_the_specification_names_are_those_of_the_rows() -> None:
    named = [
        (rule, code)
        for cells in table(section(2))
        for code in ("platform_unavailable", "platform_auth_failed")
        if len(ids(cells[0])) == 1 and f"`{code}`" in cells[2]
        for rule in ids(cells[0])
    ]
    assert len(named) >= 4
    assert [(rule, CATALOGUE[rule].code) for rule, _ in named] == named


def spellings(limit: float) -> set[str]:
    """A number as the specification may write it."""
    units = {1024**2: "MB", 1024**3: "GB", 10**6: "MB", 10**9: "GB"}
    shown = {f"{limit / size:g} {unit}" for size, unit in units.items()}
    return shown | {f"{limit:,}", f"{limit / 10**6:g} Mbit/s"}


@pytest.mark.upstream
def test_the_numbers_of_the_rows_are_those_of_the_specification() -> None:
    limits = {rule: cells[2] for cells in table(section(2)) for rule in ids(cells[0])}
    numbers = {rule.id: rule.limit for rule in CATALOGUE.values() if isinstance(rule.limit, int | float)}
    assert len(numbers) > 80
    specified = numbers.keys() - ADDED_RULES
    assert [rule for rule, limit in numbers.items() if rule in specified and not stands_in(limit, limits[rule])] == []


def stands_in(limit: float, cell: str) -> bool:
    return any(re.search(rf"(?<![\d.,]){spelling}(?!\d|,\d)", cell) for spelling in spellings(limit))


@pytest.mark.upstream
def test_service_rows_are_those_of_the_specification_and_added_ones() -> None:
    other = {rule for number in (3, 5) for cells in table(section(number)) for rule in ids(cells[0])}
    assert not other & ADDED_SERVICE
    assert set(SERVICE_RULES) == other | ADDED_SERVICE


@pytest.mark.upstream
def test_warnings_without_rows_are_those_specified_and_added() -> None:
    wanted = [code for cells in table(section(4)) for code in ids(cells[0])]
    assert sorted(WARNINGS) == sorted([*wanted, *ADDED_WARNINGS])

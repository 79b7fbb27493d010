"""Weighted text length on X: own cases and twitter-text's conformance vectors."""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from socialpub.platforms.kit.tlds import TLDS
from socialpub.platforms.twitter.text import _EMOJI, _LIGHT, find_cashtags, find_urls, has_link, weighted_length

UPSTREAM = Path(__file__).parents[5] / "shared/upstream-specs/twitter-text"
FAMILY = "👨\u200d👩\u200d👧\u200d👦"

LENGTHS = [
    ("", 0),
    ("Hello, world! 👋", 16),
    ("日本語", 6),
    ("cafe\u0301", 4),
    ("\u10ff\u1100", 3),
    ("\u2000\u200d\u200e\u2010\u201f\u2020\u2032\u2037\u2038", 12),
    (FAMILY, 2),
    ("👍🏽", 2),
    ("🐱🏽", 4),
    ("🇩🇪", 2),
    ("🇩", 2),
    ("1\ufe0f\u20e3", 2),
    ("#\u20e3", 2),
    ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", 2),
    ("©", 1),
    ("©\ufe0f", 2),
    ("☺", 2),
    ("☺\ufe0f", 2),
    ("☺\ufe0e", 4),
    ("\ud800", 2),
    ("Hi http://test.co", 26),
    ("https://example.com/very/long/path?with=query#and-hash", 23),
    ("example.com", 23),
    ("example.com/", 23),
    ("example.com.", 24),
    ("a.b", 3),
    ("a example.com b", 27),
    ("me@example.com", 14),
    ("http://t.co/abc", 23),
    ("http://t.co/" + "a" * 41, 53),
    ("https://例え.jp/x", 23),
    ("x" * 64 + ".com", 68),
    ("x" * 63 + ".com", 23),
]


@pytest.mark.parametrize(("text", "length"), LENGTHS)
def test_weighted_length(text: str, length: int) -> None:
    assert weighted_length(text) == length


FOUND = [
    ("see example.com, or example.co.uk!", ["example.com", "example.co.uk"]),
    ("https://example.com/a_(b)", ["https://example.com/a_(b)"]),
    ("(https://example.com/a)", ["https://example.com/a"]),
    ("https://example.com:8080/x?y=1&z=2#f.", ["https://example.com:8080/x?y=1&z=2#f"]),
    ("example.com?x=1", ["example.com"]),
    ("HTTP://EXAMPLE.COM/A", ["HTTP://EXAMPLE.COM/A"]),
    ("xhttp://example.com", []),
    ("@example.com #example.com $example.com", []),
    ("mail me@example.com", []),
    ("file.txt e.g. 3.14 v1.2.3 tar.bz2", []),
    ("http://localhost http://127.0.0.1/x", []),
    ("日本example.com日本", ["example.com"]),
    ("http://日本.jp日本", ["http://日本.jp"]),
    ("http://-a.com http://a-.com http://a_b.com", []),
    ("http://a_b.c.com", ["http://a_b.c.com"]),
    ("https://t.co/abc's", ["https://t.co/abc"]),
    ("http://example.com/" + "a" * 4077, ["http://example.com/" + "a" * 4077]),
    ("http://example.com/" + "a" * 4078, []),
]


@pytest.mark.parametrize(("text", "found"), FOUND)
def test_links_with_and_without_a_scheme(text: str, found: list[str]) -> None:
    assert [text[url.start : url.end] for url in find_urls(text)] == found


CASHTAGS = [
    ("$AAPL and $MSFT", ["AAPL", "MSFT"]),
    ("$BRK.B, $a_b", ["BRK.B", "a_b"]),
    ("$5 $TOOLONGX a$B $$C $", []),
    ("($A) $A.", ["A"]),
    ("\u2066$A\u2069", []),
    ("$ſ $K", ["K"]),
]


@pytest.mark.parametrize(("text", "found"), CASHTAGS)
def test_cashtags(text: str, found: list[str]) -> None:
    assert find_cashtags(text) == found


def test_the_list_of_top_level_domains_has_the_known_ones_and_no_others() -> None:
    assert {"com", "jp", "みんな", "vermögensberatung"} <= TLDS
    assert not {"", "txt", "bz2", "b", "localhost"} & TLDS
    assert all(name == name.lower() and "." not in name for name in TLDS)


# --- Laws ------------------------------------------------------------------------------------------------------------

PARTS = st.lists(
    st.sampled_from(
        ["a", "b.com", "http://", "https://t.co/ab", "日", "。", *".-_@#$ /?=()1%!~&", "é", "e\u0301", "😀", "👍🏽"]
        + ["\u200d", "\ufe0f", "\ufe0e", "🇩", "\u202a", "x.co.jp", "中国", "\ud800", ":80", "xn--"]
    ),
    max_size=12,
).map("".join)
ANY_TEXT = st.text(st.characters(codec=None, categories=None)) | PARTS


@given(ANY_TEXT)
def test_no_text_crashes_a_measure(text: str) -> None:
    assert weighted_length(text) >= 0
    assert len(find_cashtags(text)) <= text.count("$")


@given(ANY_TEXT)
def test_links_stand_in_order_inside_the_text_and_hold_a_dot(text: str) -> None:
    last = 0
    for url in find_urls(text):
        assert last <= url.start < url.end <= len(text)
        assert "." in text[url.start : url.end]
        last = url.end


@given(ANY_TEXT)
def test_beside_its_links_a_text_weighs_at_most_two_a_code_point(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)  # may be longer than the text
    assert weighted_length(text) == weighted_length(composed)
    assert weighted_length(text) <= 2 * len(composed) + 23 * len(list(find_urls(composed)))


@given(ANY_TEXT, ANY_TEXT)
def test_texts_apart_weigh_at_least_what_their_links_weigh(one: str, other: str) -> None:
    joined = f"{one}\n{other}"
    assert weighted_length(joined) >= 23 * len(list(find_urls(joined)))


@given(st.text("abcdefg xyz", max_size=40), st.text("abcdefg xyz", max_size=40))
def test_plain_words_add_up(one: str, other: str) -> None:
    assert weighted_length(one + " " + other) == len(one) + 1 + len(other)


@pytest.mark.parametrize("url", ["{}.com", "a.com/{}", "http://a.com/{}", "a.com/?q={}"])
def test_no_link_has_more_than_4096_characters(url: str) -> None:
    """With a protocol or without: as in all of twitter-text's libraries but JavaScript's."""
    name = ".".join(["a" * 63] * 100)
    most = url.format(name[: 4096 - len(url) + 2])
    assert (len(most), [url.end - url.start for url in find_urls(most)]) == (4096, [4096])
    longer = url.format(name[: 4096 - len(url) + 3])
    assert list(find_urls(longer)) == []
    assert weighted_length(longer) == 4097


LONG = [
    "日",
    "a.",
    "a.com中",
    "_a.com ",
    "a-.com",
    "中.com_",
    "http://",
    "$A ",
    "(",
    "a.com,",
    "é.",
    "👩\u200d",
    "@a",
    "中com.",
]


@pytest.mark.matrix
@pytest.mark.parametrize("unit", LONG)
@pytest.mark.parametrize("before", ["", "http://a.com/", "@"])
def test_a_text_of_the_greatest_length_is_measured(before: str, unit: str) -> None:
    text = (before + unit * 100_000)[:100_000]  # quadratic work would take minutes (`isolation/test_text_growth.py`)
    assert 0 < weighted_length(text) <= 2 * len(text) + 23 * text.count(".")
    assert set(find_cashtags(text)) <= {"A"}


# --- twitter-text's own vectors --------------------------------------------------------------------------------------


@functools.cache
def loaded(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def vectors(file: str, *sections: str) -> list[Any]:
    path = UPSTREAM / file
    if not path.exists():
        return [pytest.param(None, marks=pytest.mark.skip(f"{path} is not here"))]
    tests = loaded(path)["tests"]
    return [pytest.param(case, id=f"{name}-{n}") for name in sections for n, case in enumerate(tests[name])]


@pytest.mark.upstream
@pytest.mark.parametrize(
    "case",
    vectors("validate.yml", "WeightedTweetsWithDiscountedEmojiCounterTest", "UnicodeDirectionalMarkerCounterTest"),
)
def test_weighted_length_equals_the_vectors(case: dict[str, Any]) -> None:
    assert weighted_length(case["text"]) == case["expected"]["weightedLength"]


@pytest.mark.upstream
@pytest.mark.parametrize("case", vectors("extract.yml", "urls", "tco_urls_with_params"))
def test_links_equal_the_vectors(case: dict[str, Any]) -> None:
    assert [case["text"][url.start : url.end] for url in find_urls(case["text"])] == case["expected"]


@pytest.mark.upstream
@pytest.mark.parametrize("case", vectors("extract.yml", "urls_with_indices", "urls_with_directional_markers"))
def test_places_of_links_equal_the_vectors(case: dict[str, Any]) -> None:
    assert [[url.start, url.end] for url in find_urls(case["text"])] == [each["indices"] for each in case["expected"]]


@pytest.mark.upstream
@pytest.mark.parametrize("case", vectors("extract.yml", "cashtags"))
def test_cashtags_equal_the_vectors(case: dict[str, Any]) -> None:
    assert find_cashtags(case["text"]) == case["expected"]


@pytest.mark.upstream
def test_the_top_level_domains_are_those_of_the_vectors() -> None:
    path = UPSTREAM / "tld_lib.yml"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    lists = loaded(path)
    assert {str(name) if name is not False else "no" for names in lists.values() for name in names} == TLDS


def test_ascii_characters_are_light_and_counted_by_length() -> None:
    text = "".join(map(chr, range(128)))
    assert weighted_length(text) == len(text) == len(_LIGHT.findall(text))
    assert _EMOJI.search(text) is None


@pytest.mark.parametrize("text, linked", [("no dot", False), ("a.b", False), ("see example.com", True), ("", False)])
def test_whether_there_is_a_link_is_whether_there_is_a_first_one(text: str, linked: bool) -> None:
    assert has_link(text) is (next(find_urls(text), None) is not None) is linked

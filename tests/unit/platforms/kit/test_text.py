"""Text measures and scanners: graphemes, bytes, UTF-16 units, hashtags, mentions, links."""

from __future__ import annotations

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from socialpub.platforms.kit.text import (
    escape_little_text,
    find_hashtags,
    find_links,
    find_mentions,
    graphemes,
    is_blank,
    normalize_copy,
    split_clusters,
    utf8_bytes,
    utf16_units,
)
from socialpub.platforms.threads.rules import threads_length, threads_length_strict

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
ANY_TEXT = st.text(st.characters(codec=None, categories=None))  # lone surrogates too
TRICKY = st.text(
    st.sampled_from([*"a #@_()\\.1é日", "🇩", "🇪", "\u0301", "\u200d", "👩", "🏽", "\r", "\n", "\ud800", "\u0600"])
)

GRAPHEMES = [
    ("", 0),
    ("abc", 3),
    (FAMILY, 1),
    ("🇩🇪🇫🇷", 2),
    ("🇩🇪🇫", 2),
    ("🇩🇪\u0301a", 2),
    ("\u0600🇩🇪", 1),
    ("e\u0301", 1),
    ("e\u0301\u0302\u0303", 1),
    ("\r\n", 1),
    ("\n\r", 2),
    ("👍🏽", 1),
    ("1\ufe0f\u20e3", 1),
    ("한국", 2),
    ("\u1112\u1161\u11ab", 1),
    ("नमस्ते", 3),
    ("\ud800", 1),
    ("\ud83d\ude00", 2),  # two lone surrogates, not an emoji
    ("\u200b", 1),
]


@pytest.mark.parametrize(("text", "count"), GRAPHEMES)
def test_graphemes_are_what_people_see_as_one_character(text: str, count: int) -> None:
    assert graphemes(text) == count
    assert "".join(split_clusters(text)) == text


BYTES_AND_UNITS = [("", 0, 0), ("a", 1, 1), ("é", 2, 1), ("日", 3, 1), ("🎉", 4, 2), (FAMILY, 25, 11), ("\ud800", 3, 1)]


@pytest.mark.parametrize(("text", "in_utf8", "in_utf16"), BYTES_AND_UNITS)
def test_bytes_and_units_count_the_encoded_text(text: str, in_utf8: int, in_utf16: int) -> None:
    assert (utf8_bytes(text), utf16_units(text)) == (in_utf8, in_utf16)


BLANKS = ["", " ", "\t\n\r\x0b\x0c", "\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\u0085"]
NOT_BLANK = [".", " a ", "\u200b", "\ufeff", "\u2060", "\x1c", "\x00", "\ud800"]


@pytest.mark.parametrize("text", BLANKS)
def test_unicode_white_space_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", NOT_BLANK)
def test_anything_else_is_not_blank(text: str) -> None:
    assert not is_blank(text)


# (text, as Threads says, with every code point counted)
THREADS = [
    ("abc", 3, 3),
    ("日本", 2, 2),
    ("🎉", 4, 4),
    (FAMILY, 25, 25),
    ("👍🏽", 8, 8),
    ("🇩🇪", 8, 8),
    ("1\ufe0f\u20e3", 7, 7),
    ("☺", 1, 1),
    ("☺\ufe0f", 6, 6),
    ("©", 1, 1),
    ("e\u0301", 1, 2),
    ("\r\n", 1, 2),
    ("", 0, 0),
]


@pytest.mark.parametrize(("text", "count", "strict"), THREADS)
def test_threads_counts_an_emoji_by_its_bytes(text: str, count: int, strict: int) -> None:
    assert (threads_length(text), threads_length_strict(text)) == (count, strict)


LITTLE = [
    ("Save 50% (today) *now*", r"Save 50% \(today\) \*now\*"),
    ("hi @bob", r"hi \@bob"),
    ("snake_case ~ a|b", r"snake\_case \~ a\|b"),
    ("C:\\temp", "C:\\\\temp"),
    ("<b>{x}", r"\<b\>\{x\}"),
    ("go #launch", "go #launch"),
    ("x #1 of [3]", r"x #1 of \[3\]"),
    ("C# rocks", r"C\# rocks"),
    ("#snake_tag", r"#snake\_tag"),
    ("## #", r"\#\# \#"),
    ("##tag", r"\##tag"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "escaped"), LITTLE)
def test_linkedins_little_text_escapes_what_is_meant_literally(text: str, escaped: str) -> None:
    assert escape_little_text(text) == escaped


HASHTAGS = [
    ("#a #b", ["#a", "#b"]),
    ("(#a)", ["#a"]),
    ("x#a", []),
    ("#1 #22", []),
    ("#1a #a1", ["#1a", "#a1"]),
    ("##a", ["#a"]),
    ("#größe #日本 #_", ["#größe", "#日本", "#_"]),
    ("&#39; #", []),
    ("#a-b", ["#a"]),
]


@pytest.mark.parametrize(("text", "found"), HASHTAGS)
def test_a_hashtag_is_a_word_with_a_non_digit(text: str, found: list[str]) -> None:
    assert find_hashtags(text) == found


MENTIONS = [
    ("@a and @b.c_d", ["@a", "@b.c_d"]),
    ("(@a)", ["@a"]),
    ("me@example.com", []),
    ("a.@b", []),
    ("@ @@ @.a", []),
    ("@@a", []),
]


@pytest.mark.parametrize(("text", "found"), MENTIONS)
def test_a_mention_is_a_name_after_an_at_sign(text: str, found: list[str]) -> None:
    assert find_mentions(text) == found


LINKS = [
    ("https://a.example/x", ["https://a.example/x"]),
    ("see (http://a.example/x). HTTPS://B.example!", ["http://a.example/x", "HTTPS://B.example"]),
    ("a.example ftp://a.example", []),
    ("https://a.example/x,https://b.example", ["https://a.example/x,https://b.example"]),
    ("<https://a.example>", ["https://a.example"]),
]


@pytest.mark.parametrize(("text", "found"), LINKS)
def test_links_are_http_addresses_without_the_end_of_the_sentence(text: str, found: list[str]) -> None:
    assert find_links(text) == found


# --- Laws ------------------------------------------------------------------------------------------------------------

MEASURES = [graphemes, utf8_bytes, utf16_units, threads_length, threads_length_strict]


@given(ANY_TEXT | TRICKY)
def test_no_measure_crashes_and_none_is_negative(text: str) -> None:
    assert all(measure(text) >= 0 for measure in MEASURES)
    assert is_blank(text) == (text.strip("".join(BLANKS)) == "")
    assert all("#" in tag for tag in find_hashtags(text))
    assert all("@" in name for name in find_mentions(text))
    assert all("://" in link for link in find_links(text))


@given(ANY_TEXT | TRICKY)
def test_clusters_are_at_most_code_points_at_most_units_at_most_bytes(text: str) -> None:
    assert graphemes(text) <= len(text) <= utf16_units(text) <= utf8_bytes(text)
    assert graphemes(text) <= threads_length(text) <= threads_length_strict(text) <= utf8_bytes(text)


@given(TRICKY, TRICKY)
def test_joining_texts_never_counts_more_clusters_than_both(one: str, other: str) -> None:
    assert max(graphemes(one), graphemes(other)) <= graphemes(one + other) <= graphemes(one) + graphemes(other)


@given(TRICKY, TRICKY)
def test_bytes_and_units_add_up(one: str, other: str) -> None:
    assert utf8_bytes(one + other) == utf8_bytes(one) + utf8_bytes(other)
    assert utf16_units(one + other) == utf16_units(one) + utf16_units(other)


@given(ANY_TEXT | TRICKY)
def test_little_text_only_adds_backslashes(text: str) -> None:
    escaped = escape_little_text(text)
    assert len(text) <= len(escaped) <= 2 * len(text)
    assert escaped.replace("\\", "") == text.replace("\\", "")


LONG = ["日", "🇩", "\u0600🇩", "a\u0301", "\u0301", "#", "#1", "@a.", "(", "http://", "👩\u200d", "1", "_"]


@pytest.mark.matrix
@pytest.mark.parametrize("unit", LONG)
def test_a_text_of_the_greatest_length_is_measured(unit: str) -> None:
    text = (unit * 100_000)[:100_000]  # quadratic work on it would take minutes (`tests/isolation/test_text_growth.py`)
    assert 0 < graphemes(text) <= len(text) <= threads_length_strict(text)
    assert 0 < threads_length(text) <= threads_length_strict(text)
    assert escape_little_text(text).replace("\\", "") == text
    assert all(found in text for measure in (find_hashtags, find_mentions, find_links) for found in measure(text)[:10])
    assert not is_blank(text)


def test_no_letter_and_no_digit_is_white_space() -> None:
    spaces = regex.findall(r"\p{White_Space}", "".join(map(chr, range(0x110000))))
    assert len(spaces) > 20
    assert not [char for char in spaces if char.isalnum()]


@given(st.text())
def test_a_text_is_the_same_after_what_platforms_do_to_it(text: str) -> None:
    same = normalize_copy(text)
    assert normalize_copy(same) == same
    assert normalize_copy(f"\n\ufeff{text}\r\n ") == same
    assert normalize_copy(text.replace("\r\n", "\n").replace("\n", "\r\n")) == same
    assert normalize_copy(unicodedata.normalize("NFC", text)) == same
    assert normalize_copy(text.replace(" ", "\u00a0 \u200b").replace("\ufe0f", "")) == same


def test_texts_that_differ_in_what_is_read_stay_different() -> None:
    assert len({normalize_copy(text) for text in ("hello", "Hello", "hel lo", "hello!", "h\u00e9llo", "\u2764")}) == 6

"""No text, however hostile, takes quadratic time: eight times the text takes about eight times the work, never 64.

What is counted is this thread's own processor time, of which a busy machine takes little more; a growth that looks too
steep is measured again.
"""

from __future__ import annotations

import itertools
import time
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from socialpub.base import guard
from socialpub.platforms.bluesky import text as bluesky_text
from socialpub.platforms.kit import linkcard, text
from socialpub.platforms.twitter import text as twitter_text
from socialpub.web import prefer

SMALL, LARGE = 2_000, 16_000
STEEP = 28  # between eight times and 64 times
NOISE = 0.02  # seconds of processor time; quadratic work on the large text takes more
TRIES = 4

UNITS = (
    *("com.", "a.", "e.g.", "xn--", "xn--a.", "a-", "a_", "..a", "a", "1", "1.", "-", "_", ".", "/", "/a"),
    *("@a", "@a.com ", "@", "@_", "#", "#!", "# ", "#1", "$A ", "$", "!", "%", "\\", "&", "&#", "&amp;"),
    *(
        "http://",
        "http://a.co ",
        "https://a.co/(",
        "http://a)",
        "a.co ",
        "(a.com/",
        "a.com/(",
        "?a=",
        "://",
        "http://a@",
    ),
    *(
        "((((",
        ")",
        ")))) ",
        "\"'",
        '" ',
        "[]",
        "='",
        "<",
        "<a ",
        "<!--",
        "<meta ",
        "<title>",
        "</",
        ";",
        "; a",
        " ",
        "\t\n",
    ),
    *("a\u0301", "\u0301", "\u0301\u0316", "\u0f73", "\u200d", "\U0001f469\u200d", "\U0001f1e6", "\ufe0f", "\r\n"),
    *("\U0001f3f4", "\U0001f3f4\U000e0067", "\uac00\u11a8", "\u0600\U0001f1e6", "\u4e2d", "\u4e2d.com", "a\u4e2d", "ß"),
    *("\u0130", "\ufeff", "\u200b", "\u3002", "\u0660"),
)
AROUND = (("", ""), ("#", "a"), ("http://", ".com "), ("", "\u4e2d.com"), ("a.com/(", ""), ("<!", ""), ('a; b="', ""))


def facets(value: str) -> object:
    return bluesky_text.facets(value, lambda handle: "did:plc:a")


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "grapheme clusters": text.graphemes,
    "white space": text.is_blank,
    "composed": text.composed,
    "LinkedIn's little text": text.little_text,
    "hashtags": text.hashtags,
    "mentions": text.mentions,
    "links": text.links,
    "X's weighted length": twitter_text.weighted_length.__wrapped__,
    "X's cashtags": twitter_text.cashtags,
    "Bluesky's facets": facets,
    "Bluesky's first link": bluesky_text.first_link,
    "a link card's page": lambda value: linkcard._read(value.encode(), "text/html"),  # noqa: SLF001
    "the header Prefer": lambda value: prefer.wait_of([value], 1.0),
    "an address": lambda value: guard.check_url(f"https://{value}"),
}


def worst() -> Iterator[tuple[str, str, str]]:
    return ((unit, *around) for unit, around in itertools.product(UNITS, AROUND))


def work(run: Callable[[str], object], size: int, case: tuple[str, str, str]) -> float:
    unit, before, after = case
    value = before + (unit * (size // len(unit) + 1))[:size] + after
    began = time.thread_time()
    run(value)
    return time.thread_time() - began


def is_steep(run: Callable[[str], object], case: tuple[str, str, str]) -> bool:
    return all(_seems_steep(run, case) for _ in range(TRIES))


def _seems_steep(run: Callable[[str], object], case: tuple[str, str, str]) -> bool:
    large = work(run, LARGE, case)
    return large > NOISE and large > STEEP * work(run, SMALL, case)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_text_takes_quadratic_time(name: str) -> None:
    steep = next((case for case in worst() if is_steep(FUNCTIONS[name], case)), None)
    assert steep is None


def test_quadratic_time_is_seen() -> None:
    assert is_steep(lambda value: [value.count("b", at) for at in range(len(value))], ("a", "", ""))


def test_marks_are_composed_as_unicode_says() -> None:
    for marks in ("\u0301\u0316", "\u0f73\u0316", "\u0344\u0327\u0345", "\u0308\u0301\u0323"):
        for count in (1, 20, 90):
            value = f"a{marks * count}e\u0301{marks * count}"
            assert text.composed(value) == unicodedata.normalize("NFC", value)

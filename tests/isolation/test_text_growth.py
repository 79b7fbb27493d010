"""Text processing never takes quadratic time in the length of a text.

Eight times the text takes about eight times the steps, never 64. Steps are counted (`steps.py`). A pattern that goes
back over a bounded stretch grows steeply up to that bound, so what looks steep is looked at again with longer texts.
"""

from __future__ import annotations

import difflib
import io
import itertools
import sys
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

import pytest
import regex

from socialpub.base.errors import ApiError
from socialpub.base.http import retry_after, ssrf
from socialpub.domain.posts import spreadsheets
from socialpub.domain.schemas import field_suggestions
from socialpub.domain.schemas.posts import PublishRequest
from socialpub.platforms.bluesky import text as bluesky_text
from socialpub.platforms.kit import charset, link_cards, text
from socialpub.platforms.twitter import text as twitter_text
from socialpub.store import casefold
from socialpub.web.http import file_response, page_cache, prefer_header
from tests.support.isolation.step_counter import CountedText, CountedUnicodeData, StepCount, counted_modules, pattern_of

TIMES, STEEP = 8, 28  # between eight times and 64 times
SIZES = (12, 200)  # of the shorter text
MODULES = (
    *(text, twitter_text, bluesky_text, charset, link_cards, prefer_header, ssrf, field_suggestions, casefold),
    *(file_response, page_cache, retry_after, spreadsheets),
    *(difflib, urllib.parse),
)

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
    return bluesky_text.build_facets(value, lambda handle: "did:plc:a")


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "grapheme clusters": text.graphemes,
    "white space": text.is_blank,
    "composed": text.normalize_nfc,
    "LinkedIn's little text": text.escape_little_text,
    "hashtags": text.find_hashtags,
    "mentions": text.find_mentions,
    "links": text.find_links,
    "X's weighted length": twitter_text.weighted_length.__wrapped__,
    "X's cashtags": twitter_text.find_cashtags,
    "Bluesky's facets": facets,
    "Bluesky's first link": bluesky_text.find_first_link,
    "a link card's page": lambda value: link_cards._read(value.encode(), "text/html"),  # noqa: SLF001
    "the header Prefer": lambda value: prefer_header.parse_wait([value], 1.0),
    "the header If-None-Match": lambda value: file_response.has_matching_tag(value, '"tag"'),
    "the header Accept-Encoding": lambda value: page_cache.is_gzip_accepted({"accept-encoding": value}),
    "the header Retry-After": lambda value: retry_after.parse_seconds(value, 0),
    "a file of CSV": lambda value: list(spreadsheets.lines(io.BytesIO(value.encode("utf-8", "surrogatepass")))),
    "an unknown field": lambda value: field_suggestions.suggest_field(PublishRequest, (value,)),
    "a text for the search": casefold.fold_for_storage,
    "an address": lambda value: ssrf.check_url(f"https://{value}"),
}


Case = tuple[str, str, str]  # what is repeated, and what stands before and after
ANYWHERE = ("an unknown field",)  # what stands around makes no difference


def worst(name: str) -> Iterator[Case]:
    return ((unit, *around) for unit, around in itertools.product(UNITS, AROUND[:1] if name in ANYWHERE else AROUND))


Seen = list[tuple[str, str]]  # texts, and what was found in them


def work(run: Callable[[str], object], size: int, case: Case, seen: Seen) -> int:
    """The steps."""
    unit, before, after = case
    value = before + (unit * (size // len(unit) + 1))[:size] + after
    StepCount.steps = 0
    found = told(run, CountedText(value))
    steps = StepCount.steps
    seen.append((value, str(found)))
    return steps


def told(run: Callable[[str], object], value: str) -> object:
    try:
        return run(value)
    except ApiError as error:
        return error.rule, error.message


def find_steep(run: Callable[[str], object], cases: Iterable[Case], sizes: tuple[int, ...] = SIZES) -> list[Case]:
    """Those that are; what was found is what is found without counting the steps."""
    seen: Seen = []

    def is_steep(case: Case) -> bool:
        return all(work(run, TIMES * size, case, seen) > STEEP * max(1, work(run, size, case, seen)) for size in sizes)

    with counted_modules(*MODULES):
        steep = list(itertools.islice(filter(is_steep, cases), 1))
    assert [(value, found) for value, found in seen if found != str(told(run, value))] == []
    return steep


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    """A matcher that goes back calls itself once for each time a group is repeated."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.matrix
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_text_takes_quadratic_time(name: str) -> None:
    assert find_steep(FUNCTIONS[name], worst(name)) == []


BACK = regex.compile("a+b")


@pytest.mark.parametrize(
    "run",
    [
        lambda value: [value.count("b", at) for at in range(len(value))],
        lambda value: [len(value[at:]) for at in range(len(value))],
        lambda value: pattern_of(BACK).search(value),
        lambda value: CountedUnicodeData.normalize("NFC", value.replace("a", "\u0316\u0301")),
    ],
    ids=["a method in a loop", "a slice in a loop", "a pattern that goes back", "marks that are sorted"],
)
def test_quadratic_time_is_seen(run: Callable[[str], object]) -> None:
    assert find_steep(run, [("a", "", "")], SIZES[:1])


def test_marks_are_composed_as_unicode_says() -> None:
    for marks in ("\u0301\u0316", "\u0f73\u0316", "\u0344\u0327\u0345", "\u0308\u0301\u0323"):
        for count in (1, 20, 90):
            value = f"a{marks * count}e\u0301{marks * count}"
            assert text.normalize_nfc(value) == unicodedata.normalize("NFC", value)

"""Hostile pages behind a link never hold the interpreter or slow its card down.

CPU time is measured, so that other work on the machine counts for little. The bounds are many times what is usual.
"""

from __future__ import annotations

import time

import pytest

from socialpub.platforms.kit import charset, html_tokens, link_cards
from tests.support.platforms.link_pages import HOSTILE_HTML, HOSTILE_XML
from tests.support.platforms.whatwg_encodings import LABELS

pytestmark = pytest.mark.slow

BEFORE = [
    "",
    "<title>",
    "<script>",
    "<script><!--",
    "<!--",
    "<a ",
    "<a b='",
    "<textarea>",
    "<svg><![CDATA[",
    "<!doctype ",
]
HELD_SECONDS = 0.05  # in one go; a slice takes about 1 ms
PAGE_SECONDS = 3.0  # for all of a page; usual is 0.3 s


def page_of(before: str, piece: str) -> str:
    return (before + piece * link_cards.PAGE_BYTES)[: link_cards.PAGE_BYTES]


@pytest.mark.parametrize("before", BEFORE)
def test_no_page_holds_the_interpreter(before: str) -> None:
    for piece in (*HOSTILE_HTML, *HOSTILE_XML):
        found, longest, began = html_tokens.tokens(page_of(before, piece)), 0.0, time.thread_time()
        while next(found, None) is not None:
            longest, began = max(longest, time.thread_time() - began), time.thread_time()
        assert longest < HELD_SECONDS, (before, piece)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml"])
def test_no_page_takes_long(before: str, content_type: str) -> None:
    for piece in (*HOSTILE_HTML, *HOSTILE_XML):
        raw, began = page_of(before, piece).encode(), time.thread_time()
        link_cards._read(raw, content_type)  # noqa: SLF001
        assert time.thread_time() - began < PAGE_SECONDS, (before, piece)


@pytest.mark.parametrize("encoding", LABELS)
def test_no_bytes_take_long_to_decode(encoding: str) -> None:
    for piece in (b"\xff", b"\x80", b"\x1b$B", b"\x81", b"\xf0\x9f", b"a\xff", b"\x81\x30", b"\xe4"):
        raw, began = (piece * link_cards.PAGE_BYTES)[: link_cards.PAGE_BYTES], time.thread_time()
        charset.decode(raw, f"text/html; charset={encoding}")
        assert time.thread_time() - began < HELD_SECONDS * 5, (encoding, piece)

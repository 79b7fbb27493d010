"""Link card extraction from HTML: title, description and first usable image."""

from __future__ import annotations

import html
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UnreadReason, UpstreamResponse
from socialpub.platforms.kit.link_cards import CardPicture, LinkCard, fetch, fetch_pictures
from tests.support.platforms.link_pages import HOSTILE_HTML, HOSTILE_XML, URL, page
from tests.support.platforms.scripted_upstream import ExpectedDownload, ScriptedTransport, make_response

LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)


def card(content: bytes | str, content_type: str = "text/html") -> LinkCard | None:
    with page(content, content_type=content_type) as http:
        return fetch(http, URL)


ROOT = "https://example.com/"
CARDS: list[tuple[str, LinkCard | None]] = [
    ("<title>Hello</title>", LinkCard("Hello")),
    ("<title>\n Hello \t world </title>", LinkCard("Hello world")),
    ("<title>a < b & c &amp; d</title>", LinkCard("a < b & c & d")),
    ('<meta property="og:title" content="OG"><title>T</title>', LinkCard("OG")),
    ('<title>T</title><meta name="twitter:title" content="TW">', LinkCard("TW")),
    ('<meta property="og:title" content=""><title>T</title>', LinkCard("T")),
    ('<meta property="og:title" content="1"><meta property="og:title" content="2">', LinkCard("1")),
    ("<META PROPERTY='OG:Title' CONTENT='Caps'/>", LinkCard("Caps")),
    ('<meta name="og:title" content="by name">', LinkCard("by name")),
    ('<title>T</title><meta name="description" content="D">', LinkCard("T", "D")),
    (
        '<title>T</title><meta name="description" content="D"><meta property="og:description" content="O">',
        LinkCard("T", "O"),
    ),
    ('<title>T</title><meta property="og:image" content="/b.png">', LinkCard("T", "", ("https://example.com/b.png",))),
    (
        '<title>T</title><meta property="og:image" content="//cdn.example/b.png">',
        LinkCard("T", "", ("https://cdn.example/b.png",)),
    ),
    (
        '<title>T</title><meta property="og:image" content="http://x.example/1">'
        '<meta property="og:image:secure_url" content="https://x.example/2">',
        LinkCard("T", "", ("https://x.example/2", "http://x.example/1")),
    ),
    ("<title>T</title></head><body><meta property='og:title' content='in the body'>", LinkCard("in the body")),
    ("<svg><title>Menu</title></svg><title>T</title>", LinkCard("T")),
    ("<title>T</title><svg><title>Menu</title></svg></svg></svg><title>late</title>", LinkCard("T")),
    ("<title>a <b>c</b> &lt;d&gt;</title>", LinkCard("a <b>c</b> <d>")),
    ("<title/><meta content=T></title>", LinkCard("<meta content=T>")),
    (
        "<title>T</title><meta property=og:image content=/1><meta property=og:image content=/1>",
        LinkCard("T", "", (f"{ROOT}1",)),
    ),
    (
        "<title>T</title><meta name=twitter:image content=/3><meta property=og:image content=/1>"
        "<meta property=og:image content=/2>",
        LinkCard("T", "", (f"{ROOT}1", f"{ROOT}2", f"{ROOT}3")),
    ),
    ("<title>T</title><![<![ broken <title>later</title>", LinkCard("T")),
    ("<title>" + "x" * 300 + "</title>", LinkCard("x" * 300)),
    ("<title>" + "x" * 301 + "</title>", LinkCard("x" * 299 + "…")),
    ("<title>T</title><meta name='description' content='" + "d" * 1001 + "'>", LinkCard("T", "d" * 999 + "…")),
]


@pytest.mark.parametrize(("content", "expected"), CARDS)
def test_it_reads_what_a_page_says_of_itself(content: str, expected: LinkCard | None) -> None:
    assert card(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain text",
        "<title></title>",
        "<title> \n</title>",
        "<p>no head</p>",
        '<meta property="og:image" content="/b">',
    ],
)
def test_a_page_without_a_title_has_no_card(content: str) -> None:
    assert card(content) is None


SELF_CLOSED = "<html><head><script src='a.js'/><style type='x' /><title>T</title></head>"


@pytest.mark.parametrize(("content_type", "expected"), [("application/xhtml+xml", LinkCard("T")), ("text/html", None)])
def test_an_empty_element_of_xml_ends_where_it_begins(content_type: str, expected: LinkCard | None) -> None:
    assert card(SELF_CLOSED, content_type) == expected


@pytest.mark.parametrize("content_type", ["image/png", "application/json", "text/plain"])
def test_what_is_no_page_has_no_card(content_type: str) -> None:
    assert card("<title>T</title>", content_type=content_type) is None


@pytest.mark.parametrize("status", [204, 404, 500])
def test_only_a_page_that_is_there_has_a_card(status: int) -> None:
    with page("" if status == 204 else "<title>T</title>", UpstreamResponse(status, {}, b"")) as http:
        assert fetch(http, URL) is None


@pytest.mark.parametrize("unread", UnreadReason)
def test_a_page_that_was_cut_off_behind_its_title_has_a_card(unread: UnreadReason) -> None:
    cut = "<title>T</title><meta property='og:image' content='/b.png'><body>" + "x" * 100
    with page(cut, unread=unread) as http:
        assert fetch(http, URL) == LinkCard("T", "", ("https://example.com/b.png",))


def test_a_character_cut_off_at_the_end_takes_nothing_away() -> None:
    with page("<title>T</title><p>é".encode()[:-1], unread=UnreadReason.TOO_LARGE) as http:
        assert fetch(http, URL) == LinkCard("T")


def test_a_page_in_an_unknown_content_encoding_is_read_as_it_came() -> None:
    """Servers send `Content-Encoding: utf-8`; what is really packed holds no title."""
    for content, expected in ((b"<title>T</title>", LinkCard("T")), (bytes(range(256)) * 9, None)):
        with page(content, unread=UnreadReason.UNDECODABLE) as http:
            assert fetch(http, URL) == expected


def test_a_page_that_cannot_be_had_has_no_card() -> None:
    with page("", LOST) as http:
        assert fetch(http, URL) is None


def test_addresses_in_a_page_are_relative_to_where_it_was_found_at_last() -> None:
    content = "<title>T</title><meta property='og:image' content='b.png'>"
    with page(content, at="https://other.example/deep/x") as http:
        assert fetch(http, URL) == LinkCard("T", "", ("https://other.example/deep/b.png",))


def test_an_address_that_is_none_is_no_picture() -> None:
    assert card("<title>T</title><meta property='og:image' content='http://['>") == LinkCard("T")


@pytest.mark.parametrize(
    ("piece", "content_type"),
    [*((piece, "text/html") for piece in HOSTILE_HTML), *((piece, "application/xhtml+xml") for piece in HOSTILE_XML)],
)
def test_a_hostile_page_is_read_without_failing(piece: str, content_type: str) -> None:
    """`tests/isolation/test_slow_link_pages.py` measures such pages of the greatest length."""
    content = ("<title>T</title><meta name=description content=D>" + piece * 65_536)[:65_536]
    assert card(content, content_type) == LinkCard("T", "D")


# --- Noise -----------------------------------------------------------------------------------------------------------

OG = '<meta property="og:title" content="Title"><meta property="og:description" content="Words">'
MISLEADING = '<meta property="og:title" content="no"><title>no</title></head><body class=x>'
NOISE = [
    f"<script>var a='{MISLEADING}'</script>",
    f'<script type="application/ld+json">{{"a": "{MISLEADING}"}}</script>',
    f"<script><!-- {MISLEADING} --></script>",
    f"<!-- keep this before </head> {MISLEADING} -->",
    f"<!--[if lt IE 9]>{MISLEADING}<![endif]-->",
    f"<style>/* {MISLEADING} */</style>",
    f"<textarea>{MISLEADING}</textarea>",
    f"<noscript>{MISLEADING}</noscript>",
    f"<iframe>{MISLEADING}</iframe>",
    f"<a title='{MISLEADING.replace(chr(39), '')}'>x</a>",
    f"<meta name=keywords content='{MISLEADING}'>",
    "<svg viewBox='0 0 1 1'><title>Icon</title></svg>",
    "<title>Site</title>",
    "<link rel=stylesheet href=/a.css>",
    "<meta property='og:title' content=''>",
    "<meta property='og:type' content='article'>",
    "</head>",
    "<body onload='a>b'>",
    "</body></html>",
    "<p>a < b && c > d &unknown; &#0;</p>",
    "<![CDATA[ x ]]>",
    "<!doctype html>",
    "<?php echo 1 ?>",
    '<p class=a"b>',
    "<table><tr><td>",
    "\0\ufffd",
]


@given(st.lists(st.sampled_from(NOISE), max_size=12), st.lists(st.sampled_from(NOISE), max_size=6))
def test_noise_around_the_tags_hides_none_and_adds_none(before: list[str], after: list[str]) -> None:
    found = card("".join([*before, OG, *after]))
    assert found is not None
    assert (found.title, found.description) == ("Title", "Words")


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn"), exclude_characters="\ufeff\ufffd"), min_size=1))
def test_any_words_in_a_tag_arrive(words: str) -> None:
    found = card(f'<meta property="og:title" content="{html.escape(words)}"><title>T</title>')
    assert found is not None
    assert found.title == (" ".join(words.split())[:300] or "T")


@pytest.mark.parametrize("before", [300_000, 700_000, 1_000_000])
@pytest.mark.parametrize("around", [("<style>", "</style>"), ("<script>", "</script>"), ("<!--", "-->"), ("", "")])
def test_tags_far_into_a_page_are_found(before: int, around: tuple[str, str]) -> None:
    content = f"<head><title></title>{around[0]}{'x=1;' * (before // 4)}{around[1]}{OG}</head>"
    assert card(content) == LinkCard("Title", "Words")


# --- Pictures --------------------------------------------------------------------------------------------------------


def png(**more: object) -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (4, 4)).save(into, "PNG", **more)
    return into.getvalue()


THUMBS = tuple(f"https://example.com/{number}.png" for number in range(1, 5))
FINE = CardPicture(png(), "image/png")


def shown(*given: tuple[bytes, UpstreamResponse | ApiError], seconds: tuple[float, ...], of: int) -> list[CardPicture]:
    """The pictures of a card that names `of`, which are downloaded so."""
    downloads = [
        ExpectedDownload(url, reply, content, 1_000_000, wait)
        for url, (content, reply), wait in zip(THUMBS, given, seconds, strict=False)
    ]
    with ScriptedTransport([*downloads]) as http:
        return list(fetch_pictures(http, LinkCard("T", "", THUMBS[:of])))


def test_a_picture_comes_without_metadata_and_with_the_type_that_it_is() -> None:
    exif = Image.Exif()
    exif[0x010F] = "SecretCam"
    assert shown((png(exif=exif), make_response(200, b"", content_type="image/jpeg")), seconds=(2.0,), of=1) == [FINE]


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>'
UNUSABLE = {
    "html": (b"<html>", make_response(200, b"")),
    "SVG": (SVG, make_response(200, b"", content_type="image/svg+xml")),
    "nothing": (b"", make_response(200, b"")),
    "404": (png(), make_response(404, b"")),
    "unreachable": (b"", LOST),
    "cut off": (png()[:40], UpstreamResponse(200, {}, b"", unread=UnreadReason.BROKEN)),
    "too large": (png(), UpstreamResponse(200, {}, b"", unread=UnreadReason.TOO_LARGE)),
    "damaged": (b"\xff\xd8\xff\xe1", make_response(200, b"")),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_where_a_picture_cannot_be_used_the_next_is_tried(case: str) -> None:
    bad, good = UNUSABLE[case], (png(), make_response(200, b""))
    assert shown(bad, seconds=(2.0,), of=1) == []
    assert shown(bad, good, seconds=(1.0, 1.0), of=2) == [FINE]
    assert shown(bad, bad, good, seconds=(1.0, 0.5, 0.5), of=4) == [FINE]
    assert shown(bad, bad, bad, seconds=(1.0, 0.5, 0.5), of=4) == []


def test_no_picture_is_downloaded_before_it_is_asked_for() -> None:
    with ScriptedTransport([ExpectedDownload(THUMBS[0], make_response(200, b""), png(), 1_000_000, 1.0)]) as http:
        assert next(fetch_pictures(http, LinkCard("T", "", THUMBS[:2]))) == FINE

from __future__ import annotations

import io

import pytest
from PIL import Image

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.net import Reply, Unread
from socialpub.platforms.kit.linkcard import Card, Picture, fetch, picture
from tests.platforms.upstream_kit import Download, Script, answer

URL = "https://example.com/a"
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
CUT = [Reply(200, {"content-type": "text/html"}, b"", URL, unread) for unread in Unread]


def page(content: bytes | str, reply: Reply | ApiError | None = None, content_type: str = "text/html") -> Script:
    raw = content if isinstance(content, bytes) else content.encode()
    told = reply or Reply(200, {"content-type": content_type}, b"", URL)
    return Script([Download(URL, told, raw, 256 * 1024, 3.0, whole=False)])


def card(content: bytes | str, **more: str) -> Card | None:
    with page(content, **more) as http:  # type: ignore[arg-type]
        return fetch(http, URL)


CARDS = [
    ("<title>Hello</title>", Card("Hello")),
    ("<title>\n Hello \t world </title>", Card("Hello world")),
    ("<title>a < b & c &amp; d</title>", Card("a < b & c & d")),
    ('<meta property="og:title" content="OG"><title>T</title>', Card("OG")),
    ('<title>T</title><meta name="twitter:title" content="TW">', Card("TW")),
    ('<meta property="og:title" content=""><title>T</title>', Card("T")),
    ('<meta property="og:title" content="1"><meta property="og:title" content="2">', Card("1")),
    ("<META PROPERTY='OG:Title' CONTENT='Caps'/>", Card("Caps")),
    ('<meta name="og:title" content="by name">', Card("by name")),
    ('<title>T</title><meta name="description" content="D">', Card("T", "D")),
    (
        '<title>T</title><meta name="description" content="D"><meta property="og:description" content="O">',
        Card("T", "O"),
    ),
    ('<title>T</title><meta property="og:image" content="/b.png">', Card("T", "", "https://example.com/b.png")),
    (
        '<title>T</title><meta property="og:image" content="//cdn.example/b.png">',
        Card("T", "", "https://cdn.example/b.png"),
    ),
    (
        '<title>T</title><meta property="og:image" content="http://x.example/1">'
        '<meta property="og:image:secure_url" content="https://x.example/2">',
        Card("T", "", "https://x.example/2"),
    ),
    ("<title>T</title></head><body><meta property='og:title' content='in the body'>", Card("T")),
    ("<title>T</title><![<![ broken <title>later</title>", Card("T")),
    ("<title>" + "x" * 300 + "</title>", Card("x" * 300)),
    ("<title>" + "x" * 301 + "</title>", Card("x" * 299 + "…")),
    ("<title>T</title><meta name='description' content='" + "d" * 1001 + "'>", Card("T", "d" * 999 + "…")),
]


@pytest.mark.parametrize(("content", "expected"), CARDS)
def test_it_reads_what_a_page_says_of_itself(content: str, expected: Card) -> None:
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


@pytest.mark.parametrize(
    ("title", "encoding", "content_type"),
    [
        ("Grüße", "utf-8", "text/html"),
        ("Grüße", "latin-1", "text/html; charset=ISO-8859-1"),
        ("漢字", "shift_jis", "text/html; charset=Shift_JIS"),
        ("Grüße", "utf-8", "text/html; charset=no-such-charset"),
        ("Grüße", "utf-8", "text/html; charset=windows-1"),
        ("Grüße", "utf-8", "text/html; charset=hex"),
        ("Grüße", "utf-8", "text/html; charset=punycode"),
        ("Grüße", "utf-8", "application/xhtml+xml"),
        ("Grüße", "utf-8", ""),
    ],
)
def test_it_reads_the_pages_own_encoding(title: str, encoding: str, content_type: str) -> None:
    assert card(f"<title>{title}</title>".encode(encoding), content_type=content_type) == Card(title)


def test_it_reads_an_encoding_that_the_page_itself_names() -> None:
    assert card('<meta charset="windows-1252"><title>Grüße</title>'.encode("cp1252")) == Card("Grüße")


@pytest.mark.parametrize("content_type", ["image/png", "application/json", "text/plain"])
def test_what_is_no_page_has_no_card(content_type: str) -> None:
    assert card("<title>T</title>", content_type=content_type) is None


@pytest.mark.parametrize("status", [204, 404, 500])
def test_only_a_page_that_is_there_has_a_card(status: int) -> None:
    with page("" if status == 204 else "<title>T</title>", Reply(status, {}, b"", URL)) as http:
        assert fetch(http, URL) is None


@pytest.mark.parametrize("reply", CUT)
def test_a_page_that_was_cut_off_behind_its_title_has_a_card(reply: Reply) -> None:
    with page("<title>T</title><meta property='og:image' content='/b.png'><body>" + "x" * 100, reply) as http:
        assert fetch(http, URL) == Card("T", "", "https://example.com/b.png")


def test_a_page_that_cannot_be_had_has_no_card() -> None:
    with page("", LOST) as http:
        assert fetch(http, URL) is None


def test_addresses_in_a_page_are_relative_to_where_it_was_found_at_last() -> None:
    content = "<title>T</title><meta property='og:image' content='b.png'>"
    with page(content, Reply(200, {"content-type": "text/html"}, b"", "https://other.example/deep/x")) as http:
        assert fetch(http, URL) == Card("T", "", "https://other.example/deep/b.png")


def test_an_address_that_is_none_is_no_picture() -> None:
    assert card("<title>T</title><meta property='og:image' content='http://['>") == Card("T")


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<![", "<a ", "<meta ", "</", "<?", "&", "<title>", "<script></scrip", '<meta charset="']
)
def test_a_hostile_page_is_read_without_failing(piece: str) -> None:
    assert card("<title>T</title>" + piece * (200_000 // len(piece))) == Card("T")


def png(**more: object) -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (4, 4)).save(into, "PNG", **more)
    return into.getvalue()


def fetched(content: bytes, reply: Reply | ApiError) -> Picture | None:
    with Script([Download(URL, reply, content, 1_000_000, 2.0)]) as http:
        return picture(http, URL)


def test_a_picture_comes_without_metadata_and_with_the_type_that_it_is() -> None:
    exif = Image.Exif()
    exif[0x010F] = "SecretCam"
    assert fetched(png(exif=exif), answer(200, b"", content_type="image/jpeg")) == Picture(png(), "image/png")


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        (b"<html>", answer(200, b"")),
        (b"", answer(200, b"")),
        (png(), answer(404, b"")),
        (png(), CUT[0]),
        (png(), CUT[3]),
        (b"\xff\xd8\xff\xe1", answer(200, b"")),
    ],
    ids=["html", "nothing", "404", "cut off", "too large", "damaged"],
)
def test_what_is_no_whole_picture_is_none(content: bytes, reply: Reply | ApiError) -> None:
    assert fetched(content, reply) is None

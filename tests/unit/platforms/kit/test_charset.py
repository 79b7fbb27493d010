"""Character encoding of web pages for link cards: headers, BOM, meta tags, WHATWG labels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.platforms.kit.charset import decode
from socialpub.platforms.kit.link_cards import LinkCard, fetch
from tests.support.platforms.link_pages import URL, page
from tests.support.platforms.whatwg_encodings import LABELS, titles

HTML, XHTML = "text/html", "application/xhtml+xml"
ASCII_PAGES = [name for name in LABELS if not name.startswith("utf-16") and name != "replacement"]
Way = Callable[[str, bytes], tuple[bytes, str]]
"""A label and a title in its encoding → a page that names it, and its Content-Type."""


def tag(title: bytes) -> bytes:
    return b"<title>" + title + b"</title>"


def meta(label: str, quote: str = '"') -> bytes:
    return f"<meta charset={quote}{label}{quote}>".encode()


WAYS: dict[str, Way] = {
    "header": lambda label, title: (tag(title), f"{HTML}; charset={label}"),
    "header, quoted and in capitals": lambda label, title: (tag(title), f'Text/HTML;Charset="{label.upper()}"'),
    "header against meta": lambda label, title: (meta("koi8-r") + tag(title), f"{HTML};charset={label}"),
    "header with an unknown label": lambda label, title: (meta(label) + tag(title), f"{HTML};charset=none-such"),
    "meta": lambda label, title: (meta(label) + tag(title), HTML),
    "meta without quotes": lambda label, title: (meta(label, "") + tag(title), HTML),
    "meta behind the title": lambda label, title: (tag(title) + meta(label, "'"), HTML),
    "meta behind 3 KB": lambda label, title: (b"<!-- " + b"x" * 3000 + b" -->" + meta(label) + tag(title), HTML),
    "meta behind one that a comment hides": lambda label, title: (
        b"<!-- <meta charset=koi8-r> -->" + meta(label) + tag(title),
        HTML,
    ),
    "meta behind an unknown label": lambda label, title: (meta("none-such") + meta(label) + tag(title), HTML),
    "meta against an XML declaration": lambda label, title: (
        b'<?xml version="1.0" encoding="koi8-r"?>' + meta(label) + tag(title),
        HTML,
    ),
    "http-equiv": lambda label, title: (
        f'<META content="text/html; charset={label}" HTTP-EQUIV=Content-Type>'.encode() + tag(title),
        HTML,
    ),
    "http-equiv with spaces": lambda label, title: (
        f"<meta http-equiv='content-type' content='text/html;CHARSET = \"{label}\"'>".encode() + tag(title),
        HTML,
    ),
    "XML declaration": lambda label, title: (
        f'<?xml version="1.0" encoding="{label}"?><html>'.encode() + tag(title),
        XHTML,
    ),
    "XML declaration against meta": lambda label, title: (
        f"<?xml version='1.0' encoding = '{label}' ?>".encode() + meta("koi8-r") + tag(title),
        XHTML,
    ),
    "XML declaration of an HTML page": lambda label, title: (
        f'<?xml version="1.0" encoding="{label}"?>'.encode() + tag(title),
        HTML,
    ),
}
BY_HEADER = ("header", "header, quoted and in capitals", "header against meta")


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_every_label_is_understood_however_it_is_named(way: str) -> None:
    for encoding in ASCII_PAGES:
        # What is declared within the page is read as ASCII, so it cannot mean this (html.spec.whatwg.org, prescan).
        meant = "windows-1252" if encoding == "x-user-defined" and way not in BY_HEADER else encoding
        for label in LABELS[encoding]:
            for title, words in titles(meant):
                raw, content_type = WAYS[way](label, title)
                with page(raw, content_type=content_type) as http:
                    assert fetch(http, URL) == LinkCard(words), (way, label)


@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
def test_utf_16_in_the_header_is_meant_and_within_an_ascii_page_is_utf_8(encoding: str) -> None:
    ((title, words),) = titles(encoding)
    wide = "<title>".encode(encoding) + title + "</title>".encode(encoding)
    for label in LABELS[encoding]:
        assert decode(wide, f"{HTML}; charset={label}") == f"<title>{words}</title>"
        for way in WAYS.keys() - {*BY_HEADER}:
            raw, content_type = WAYS[way](label, words.encode())
            assert words in decode(raw, content_type), (way, label)


MARKS = {"utf-8": b"\xef\xbb\xbf", "utf-16le": b"\xff\xfe", "utf-16be": b"\xfe\xff"}


@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("content_type", [HTML, f"{HTML}; charset=iso-8859-1", f"{XHTML}; charset=shift_jis", ""])
def test_a_byte_order_mark_wins_over_everything(encoding: str, content_type: str) -> None:
    text = "<meta charset=koi8-r><title>Überschrift 日本</title>"
    raw = MARKS[encoding] + text.encode(encoding)
    assert decode(raw, content_type) == text
    with page(raw, content_type=content_type) as http:
        assert fetch(http, URL) == LinkCard("Überschrift 日本")


@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
def test_an_xml_declaration_in_utf_16_needs_no_mark(encoding: str) -> None:
    text = '<?xml version="1.0"?><title>é 日本</title>'
    assert decode(text.encode(encoding), XHTML) == text


@pytest.mark.parametrize("label", LABELS["replacement"])
@pytest.mark.parametrize("way", WAYS)
def test_a_page_in_an_encoding_that_browsers_refuse_has_no_card(way: str, label: str) -> None:
    raw, content_type = WAYS[way](label, b"Hello")
    with page(raw, content_type=content_type) as http:
        assert fetch(http, URL) is None


@pytest.mark.parametrize("codec", ["latin-1", "cp1252", "cp1250", "utf-8"])
def test_an_encoding_that_nothing_names_is_utf_8_and_never_guessed(codec: str) -> None:
    with page(tag("Größe".encode(codec)) + b"<meta name=description content=ASCII>") as http:
        assert fetch(http, URL) == (LinkCard("Größe", "ASCII") if codec == "utf-8" else None)


@pytest.mark.parametrize(
    "raw",
    [
        tag("Größe".encode("latin-1")),
        tag(b"a\xff"),
        tag("日本".encode()[:-1]),
        tag("\ufffd".encode()),
        tag(b"&#xFFFD;"),
        tag(b"&#xD800;"),
        b"<meta property=og:title content='a\xff'>" + tag(b"\xff"),
    ],
)
def test_a_title_that_cannot_be_read_is_no_card(raw: bytes) -> None:
    with page(raw, content_type=f"{HTML}; charset=utf-8") as http:
        assert fetch(http, URL) is None


def test_of_what_a_page_says_the_readable_is_taken() -> None:
    raw = b"<meta property=og:title content='a\xff'><meta name=description content='\xe4'><title>Hello</title>"
    with page(raw, content_type=f"{HTML}; charset=utf-8") as http:
        assert fetch(http, URL) == LinkCard("Hello")


WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn"), exclude_characters="<&\ufffd\ufeff"), max_size=40)


@given(WORDS, st.sampled_from(["utf-8", "utf-16le", "utf-16be"]))
def test_any_title_arrives_in_every_encoding_that_has_all_characters(words: str, encoding: str) -> None:
    with page(f"<title>x {words}</title>".encode(encoding), content_type=f"{HTML};charset={encoding}") as http:
        assert fetch(http, URL) == LinkCard(" ".join(f"x {words}".split()))


@given(st.binary(max_size=400), st.sampled_from(sorted(LABELS)), st.sampled_from(sorted(WAYS)))
def test_no_bytes_publish_a_replacement_character(raw: bytes, encoding: str, way: str) -> None:
    made, content_type = WAYS[way](encoding, raw)
    with page(made, content_type=content_type) as http:
        card = fetch(http, URL)
    assert card is None or "\ufffd" not in card.title + card.description

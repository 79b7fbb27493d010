"""Link cards: title, description and picture of the page behind a link.

The page is untrusted: fetched through the guarded client, within a short time, and read no further than needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urljoin

from socialpub.base import image_formats
from socialpub.base.errors import ApiError
from socialpub.base.http import HttpClient, UpstreamResponse
from socialpub.platforms.kit import charset, html_tokens, images

PAGE_SECONDS = 3.0
PICTURE_SECONDS = {1: (2.0,), 2: (1.0, 1.0), 3: (1.0, 0.5, 0.5)}  # per picture tried; 5 s in all with the page
PAGE_BYTES = 1024 * 1024  # the rest is not read
PICTURE_BYTES = 1_000_000
PICTURES_MAX = max(PICTURE_SECONDS)
ADDRESS_MAX = 2048
TITLE_MAX = 300
DESCRIPTION_MAX = 1000

_TITLE = ("og:title", "twitter:title", "title")
_DESCRIPTION = ("og:description", "twitter:description", "description")
_PICTURE = ("og:image:secure_url", "og:image", "og:image:url", "twitter:image", "twitter:image:src")
_REPLACEMENT = "\ufffd"  # stands for bytes invalid in the page's encoding
# XML closes these elements where they begin; HTML would read what follows as their text.
_EMPTY_IN_XML = re.compile(r"<(script|style|title|textarea|iframe|noscript)(\s[^<>]*)?/>", re.IGNORECASE)

PageMetadata = Mapping[str, Sequence[str]]
"""Values of a page by name, in order."""


@dataclass(frozen=True)
class LinkCard:
    """Card of a page, with a non-empty title."""

    title: str
    description: str = ""
    image_urls: tuple[str, ...] = ()  # the first usable one is taken


@dataclass(frozen=True)
class CardPicture:
    """Image without metadata."""

    data: bytes
    content_type: str


def fetch(http: HttpClient, url: str) -> LinkCard | None:
    """Fetch the card of a page, from its first `PAGE_BYTES`.

    None if the page is too slow, not HTML, or has no title in an encoding that fits its bytes.
    """
    page, reply = _download(http, url, PAGE_BYTES, PAGE_SECONDS, whole=False)
    if reply is None or not reply.is_success or not _is_html(reply):
        return None
    found = _read(page, reply.headers.get("content-type", ""))
    title = _first(found, _TITLE, TITLE_MAX)
    if not title:
        return None
    return LinkCard(title, _first(found, _DESCRIPTION, DESCRIPTION_MAX), _addresses(found, str(reply.url)))


def fetch_pictures(http: HttpClient, card: LinkCard) -> Iterator[CardPicture]:
    """Yield the usable pictures of a card, fetching each on demand.

    Skipped if too slow, too large, damaged, or in no picture format (SVG is none).
    """
    urls = card.image_urls[:PICTURES_MAX]
    for url, seconds in zip(urls, PICTURE_SECONDS.get(len(urls), ()), strict=True):
        found = _fetch_picture(http, url, seconds)
        if found is not None:
            yield found


def _fetch_picture(http: HttpClient, url: str, seconds: float) -> CardPicture | None:
    data, reply = _download(http, url, PICTURE_BYTES, seconds, whole=True)
    content_type = image_formats.detect_type(data)
    if reply is None or not reply.is_success or reply.unread or content_type is None:
        return None
    try:
        return CardPicture(images.remove_metadata(data, content_type).data, content_type)
    except ApiError:
        return None


def _download(
    http: HttpClient, url: str, max_bytes: int, seconds: float, *, whole: bool
) -> tuple[bytes, UpstreamResponse | None]:
    """Return the received part of the body, and the response; None without one."""
    into = BytesIO()
    try:
        reply = http.download(url, into, max_bytes=max_bytes, timeout=seconds, whole=whole)
    except ApiError:
        return b"", None
    return into.getvalue(), reply


def _is_html(reply: UpstreamResponse) -> bool:
    kind = reply.headers.get("content-type", "text/html").split(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml", "")


def _read(page: bytes, content_type: str) -> PageMetadata:
    """Collect the titles and `<meta>` values of a page, wherever they are."""
    text = charset.decode(page, content_type)
    if charset.is_xml(content_type):
        text = _EMPTY_IN_XML.sub(r"<\1\2></\1>", text)
    found: dict[str, list[str]] = defaultdict(list)
    for name, value in _list_metadata(text):
        words = " ".join(value.split()).strip("\ufeff ")  # a byte order mark inside a title is meaningless
        if name and words and _REPLACEMENT not in words:
            found[name].append(words)
    return found


def _list_metadata(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each title and `<meta>`; a title inside an SVG is skipped."""
    from turbohtml import TokenType

    title: list[str] | None = None
    drawings = 0
    for token in html_tokens.tokens(text):
        kind, tag = token.type, token.tag
        if kind is TokenType.TEXT:
            if title is not None:
                title.append(token.data or "")
        elif kind is TokenType.START_TAG:
            if tag == "meta":
                name = token.attr("property") or token.attr("name") or ""
                yield name.strip().lower(), token.attr("content") or ""
            elif tag == "title":
                title = None if drawings else []
            elif tag == "svg":
                drawings += not token.self_closing
        elif kind is TokenType.END_TAG:
            if tag == "title" and title is not None:
                yield "title", "".join(title)
                title = None
            elif tag == "svg":
                drawings = max(0, drawings - 1)


def _first(found: PageMetadata, names: tuple[str, ...], longest: int) -> str:
    words = next((found[name][0] for name in names if name in found), "")
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def _addresses(found: PageMetadata, base: str) -> tuple[str, ...]:
    """List the picture URLs of a page, preferred ones first, without duplicates."""
    given = (value for name in _PICTURE if name in found for value in found[name])
    return tuple(dict.fromkeys(filter(None, (_joined(base, value) for value in given if len(value) <= ADDRESS_MAX))))


def _joined(base: str, url: str) -> str | None:
    try:
        return urljoin(base, url)
    except ValueError:
        return None

"""What the page behind a link says of itself: title, description and picture, for platforms that want a card.

The page is a stranger's: fetched through the guarded client only, within one short time, read no further than needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from io import BytesIO
from urllib.parse import urljoin

from socialpub.base.errors import ApiError
from socialpub.base.net import Http, Reply
from socialpub.platforms.kit import images

PAGE_SECONDS = 3.0
PICTURE_SECONDS = 2.0  # with the page: 5 s in all
PAGE_BYTES = 256 * 1024
PICTURE_BYTES = 1_000_000
TITLE_MAX = 300
DESCRIPTION_MAX = 1000

_TITLE = ("og:title", "twitter:title", "title")
_DESCRIPTION = ("og:description", "twitter:description", "description")
_PICTURE = ("og:image:secure_url", "og:image", "og:image:url", "twitter:image", "twitter:image:src")
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"' ]{0,3}([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_CHARSETS = re.compile(
    r"utf-?8|utf-16(le|be)?|us-ascii|latin-?1|(iso|windows)-\d+(-\d+)?|cp125\d|koi8-[ru]|shift[_-]jis|euc-(jp|kr|tw)"
    r"|iso-2022-(jp|kr)|gb2312|gbk|gb18030|big5(-hkscs)?|tis-620",
    re.IGNORECASE,
)
_HEAD_END = re.compile(rb"</head\b|<body\b", re.IGNORECASE)


@dataclass(frozen=True)
class Card:
    """What a page says of itself. The title is never empty."""

    title: str
    description: str = ""
    image_url: str | None = None


@dataclass(frozen=True)
class Picture:
    """An image without metadata."""

    data: bytes
    content_type: str


def fetch(http: Http, url: str) -> Card | None:
    """The card of a page; None when it cannot be had in time, is no HTML page or has no title."""
    page, reply = _download(http, url, PAGE_BYTES, PAGE_SECONDS, whole=False)
    if reply is not None and not (reply.ok and _is_html(reply)):
        return None
    found = _read(page, reply.headers.get("content-type", "") if reply else "")
    title = _first(found, _TITLE, TITLE_MAX)
    if not title:
        return None
    picture = _first(found, _PICTURE, 2048)
    base = reply.url if reply and reply.url else url
    return Card(title, _first(found, _DESCRIPTION, DESCRIPTION_MAX), _joined(base, picture) if picture else None)


def picture(http: Http, url: str) -> Picture | None:
    """A card's picture; None when it cannot be had in time, is too large or no image."""
    data, reply = _download(http, url, PICTURE_BYTES, PICTURE_SECONDS, whole=True)
    content_type = images.sniffed(data)
    if reply is None or not reply.ok or reply.unread or content_type is None:
        return None
    try:
        return Picture(images.cleaned(data, content_type).data, content_type)
    except ApiError:
        return None


def _download(http: Http, url: str, max_bytes: int, seconds: float, *, whole: bool) -> tuple[bytes, Reply | None]:
    """The bytes that arrived, and the response; None where there was none."""
    into = BytesIO()
    try:
        reply = http.download(url, into, max_bytes=max_bytes, deadline=seconds, whole=whole)
    except ApiError:
        return into.getvalue(), None
    return into.getvalue(), reply


def _is_html(reply: Reply) -> bool:
    kind = reply.headers.get("content-type", "text/html").split(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml", "")


def _read(page: bytes, content_type: str) -> dict[str, str]:
    """The page's own words by their names; the first of a name counts."""
    end = _HEAD_END.search(page)
    head = _Head()
    try:
        head.feed(_text(page[: end.start()] if end else page, content_type))
    except AssertionError:  # html.parser's answer to a malformed declaration; what came before it counts
        return head.found
    return head.found


def _text(page: bytes, content_type: str) -> str:
    declared = re.search(r"charset=[\"']?([A-Za-z0-9_-]{1,40})", content_type, re.IGNORECASE)
    inside = _CHARSET.search(page[:4096])
    name = declared[1] if declared else inside[1].decode("ascii") if inside else "utf-8"
    try:
        # Python knows codecs that are no character sets (zip, punycode): only the web's own names count.
        return page.decode(name if _CHARSETS.fullmatch(name) else "utf-8", "replace")
    except LookupError:
        return page.decode("utf-8", "replace")


class _Head(HTMLParser):
    """Collects `<title>` and `<meta>` of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, str] = {}
        self._title: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._title = []
        elif tag == "meta":
            values = dict(attrs)
            name = (values.get("property") or values.get("name") or "").strip().lower()
            self._keep(name, values.get("content") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title" and self._title is not None:
            self._keep("title", "".join(self._title))
            self._title = None

    def handle_data(self, data: str) -> None:
        if self._title is not None:
            self._title.append(data)

    def _keep(self, name: str, value: str) -> None:
        words = " ".join(value.split()).strip("\ufeff ")  # a byte order mark that went into a title says nothing
        if name and words:
            self.found.setdefault(name, words)


def _first(found: dict[str, str], names: tuple[str, ...], longest: int) -> str:
    words = next((found[name] for name in names if name in found), "")
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def _joined(base: str, url: str) -> str | None:
    try:
        return urljoin(base, url)
    except ValueError:
        return None

"""Rich text for Bluesky: links, mentions and tags of a text, as UTF-8 byte ranges.

The server links nothing by itself (docs.bsky.app, posts). The results match Bluesky's own client (`RichText` of
`@atproto/api`; compared in `tests/unit/platforms/test_official_libraries.py`), except:

- A link ends before punctuation that closes a sentence or quotation, in any script, and before invisible marks.
- A bare domain may have hyphens and capitals. It ends with its name unless a path, query, fragment or port follows, and
  is none before letters, digits, `_`, `@` or `-`.
- A mention counts if its handle resolves, in any case.
- A tag beyond the lexicon's limits is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal
from urllib.parse import urlsplit

from socialpub.platforms.contract import Json
from socialpub.platforms.kit.lazy_patterns import compile_lazily
from socialpub.platforms.kit.text import graphemes, utf8_bytes
from socialpub.platforms.kit.tlds import TLDS

TAG_GRAPHEMES = 64
TAG_BYTES = 640

SpanKind = Literal["link", "mention", "tag"]
ResolveHandle = Callable[[str], str | None]

BOM = "\ufeff"
_SPACE = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # ECMAScript's; Python's differs
_START = rf"(?<![^{_SPACE}(])"
# Characters that never belong to a URL are excluded.
_URL_CHAR = r"[^\s<>\ufeff\u200b\u200e\u200f\u2060\u202a-\u202e\u2066-\u2069]"
_LINK = compile_lazily(rf"{_START}[Hh][Tt][Tt][Pp][Ss]?://{_URL_CHAR}+")
_ALNUM = "A-Za-z0-9"  # a case-insensitive flag would admit ſ and K
_LABEL = f"[{_ALNUM}](?:[{_ALNUM}-]{{0,61}}[{_ALNUM}])?"
_LABELS = "{1,126}"  # RFC 1035: a name has 255 bytes; unbounded, backtracking takes quadratic time
# `(?>…)`: the whole name or nothing; otherwise a forbidden follower would only shorten the name.
_BARE = compile_lazily(
    rf"{_START}((?>(?:{_LABEL}\.){_LABELS}([A-Za-z]{{2,63}})))(?![{_ALNUM}_@-])(?:[:/?#]{_URL_CHAR}*)?"
)
_MENTION = compile_lazily(rf"{_START}@([{_ALNUM}.-]++)(?!_)")
_HANDLE = compile_lazily(rf"\A(?:{_LABEL}\.){_LABELS}[A-Za-z](?:[{_ALNUM}-]{{0,61}}[{_ALNUM}])?")
_HANDLE_MAX = 253
_TAG = compile_lazily(rf"(?<![^{_SPACE}])[#\uff03](?!\ufe0f)([^{_SPACE}\u00ad\u2060\u200b\u200c\u200d\u20e2]+)")
_CASHTAG = compile_lazily(rf"{_START}\$([A-Za-z][{_ALNUM}]{{0,4}})(?=$|[{_SPACE}.,;:!?)\"'\u2019])")
_CLOSING = compile_lazily(r"(?![)\]}])[\p{Terminal_Punctuation}\p{Pe}\p{Pf}\u2026\"']")
_BODY = compile_lazily(r"[^0-9\p{P}]")
_AUTHORITY = compile_lazily("[/?#]")
_AUTHORITY_MAX = 1000  # no host is that long; `urlsplit` normalizes it, which may take quadratic time
_PUNCTUATION = compile_lazily(r"\p{P}")


@dataclass(frozen=True)
class TextSpan:
    """Part of a text, in characters, and its meaning: URL, handle or tag."""

    start: int
    end: int
    kind: SpanKind
    value: str


def strip_bom(text: str) -> str:
    """Remove U+FEFF from the beginning, as in files saved on Windows.

    Servers (PDS 0.5.35) count and store the mark, but drop it when the post is read: facets would be three bytes too
    far right.
    """
    return text.lstrip(BOM)


def find_spans(text: str) -> list[TextSpan]:
    """Find links, mentions and tags in order, without overlaps; a link wins over its content."""
    found: list[TextSpan] = []
    taken = bytearray(len(text))  # comparing all spans would take quadratic time
    for span in chain(_links(text), _mentions(text), find_tags(text), _cashtags(text)):
        if taken.find(1, span.start, span.end) < 0:
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            found.append(span)
    return sorted(found, key=lambda span: span.start)


def build_facets(text: str, resolve: ResolveHandle) -> list[Json]:
    """Build the facets; `resolve` maps handle to DID. Unresolved and overlong ones stay text."""
    made, at, last = [], 0, 0
    for span in find_spans(text):
        at, last = at + utf8_bytes(text[last : span.start]), span.start
        feature = _feature(span, resolve)
        if feature:
            end = at + utf8_bytes(text[span.start : span.end])
            made.append({"index": {"byteStart": at, "byteEnd": end}, "features": [feature]})
    return made


def find_first_link(text: str) -> str | None:
    """Return the first link of a text."""
    return next((span.value for span in find_spans(text) if span.kind == "link"), None)


def is_valid_tag(tag: str) -> bool:
    """Return whether a tag is within the limits (lexicon app.bsky.richtext.facet#tag)."""
    return graphemes(tag) <= TAG_GRAPHEMES and utf8_bytes(tag) <= TAG_BYTES


def find_tags(text: str) -> Iterator[TextSpan]:
    """Find hashtags of any length."""
    for match in _TAG.finditer(text):
        tag = _strip_punctuation(match[1])
        if _BODY.search(tag):
            yield TextSpan(match.start(), match.start(1) + len(tag), "tag", tag)


def _strip_punctuation(tag: str) -> str:
    end = len(tag)
    while end and _PUNCTUATION.match(tag, end - 1):
        end -= 1
    return tag[:end]


def _cashtags(text: str) -> Iterator[TextSpan]:
    for match in _CASHTAG.finditer(text):
        yield TextSpan(match.start(), match.end(), "tag", match[0].upper())


def _mentions(text: str) -> Iterator[TextSpan]:
    for match in _MENTION.finditer(text):
        name = match[1].rstrip(".-")
        if len(name) <= _HANDLE_MAX and _HANDLE.fullmatch(name):
            yield TextSpan(match.start(), match.start() + 1 + len(name), "mention", name.lower())


def _links(text: str) -> Iterator[TextSpan]:
    for match in _LINK.finditer(text):
        url = _trim_url(match[0])
        if _has_host(url):
            yield TextSpan(match.start(), match.start() + len(url), "link", url)
    for match in _BARE.finditer(text):
        url = _trim_url(match[0])
        if match[2].lower() in TLDS and _has_host(f"https://{url}"):
            yield TextSpan(match.start(), match.start() + len(url), "link", f"https://{url}")


def _trim_url(url: str) -> str:
    """Strip closing punctuation and unbalanced `)` from a URL."""
    end, unopened = len(url), url.count(")") - url.count("(")
    while end:
        last = url[end - 1]
        if not _CLOSING.match(last) and not (last == ")" and unopened > 0):
            break
        end, unopened = end - 1, unopened - (last == ")")
    return url[:end]


def _has_host(url: str) -> bool:
    if len(_AUTHORITY.split(url, 3)[2]) > _AUTHORITY_MAX:
        return False
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return any(char.isalnum() for char in host)


def _feature(span: TextSpan, resolve: ResolveHandle) -> Json | None:
    if span.kind == "link":
        return {"$type": "app.bsky.richtext.facet#link", "uri": span.value}
    if span.kind == "tag":
        return {"$type": "app.bsky.richtext.facet#tag", "tag": span.value} if is_valid_tag(span.value) else None
    did = resolve(span.value)
    return {"$type": "app.bsky.richtext.facet#mention", "did": did} if did else None

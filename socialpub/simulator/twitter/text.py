"""Processing of texts on X: weighted length and short links."""

from __future__ import annotations

import hashlib
import html
import unicodedata
from dataclasses import dataclass

import regex

MAX, MAX_PAID = 280, 25_000
_LINK_WEIGHT = 23
_ENDINGS = "com|org|net|dev|app|io|co|de|eu|info|test"
_LINK = regex.compile(
    rf"(?<![\w@.$#/-])(?:https?://(?:[\w-]+\.)*[\w-]+(?::\d+)?|(?:[\w-]+\.)+(?:{_ENDINGS})(?![\w.]))(?:/[\w/~%.,;:+=&?#!-]*[\w/=#&-]|/)?",
    regex.IGNORECASE,
)
_PICTURE = r"\p{Extended_Pictographic}(?:\p{Emoji_Modifier}|\ufe0f)?"
_EMOJI = regex.compile(rf"[0-9#*]\ufe0f?\u20e3|\p{{RI}}{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*")
_HEAVY = regex.compile(r"[^\0-\u10ff\u2000-\u200d\u2010-\u201f\u2032-\u2037]")


@dataclass(frozen=True)
class Link:
    """URL in a text, with its short URL."""

    short: str
    target: str


def weight(text: str) -> int:
    """Return the weighted length, which the limit applies to."""
    rest, links = _without_links(_composed(text))
    if rest.isascii():
        return links * _LINK_WEIGHT + len(rest)
    rest, emoji = _EMOJI.subn("", rest)
    return int(links * _LINK_WEIGHT + emoji * 2) + len(rest) + len(_HEAVY.findall(rest))


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _without_links(text: str) -> tuple[str, int]:
    return _LINK.subn("", text) if _may_link(text) else (text, 0)


def _may_link(text: str) -> bool:
    """Return whether the text may contain a URL; a quick test that most texts fail."""
    return "." in text or "://" in text


def short(target: str) -> Link:
    """Make a short URL."""
    return Link(f"https://t.co/{hashlib.sha256(target.encode()).hexdigest()[:10]}", target)


def rewritten(text: str, tail: list[Link]) -> tuple[str, list[Link]]:
    """Return a text as X shows it, with `tail` appended, and all its links."""
    text = _composed(text).strip()
    links: list[Link] = []

    def shorten(found: regex.Match[str]) -> str:
        target = found[0] if found[0].lower().startswith("http") else f"http://{found[0]}"
        links.append(short(target))
        return f"\0{links[-1].short}\0"

    shown = _LINK.sub(shorten, text) if _may_link(text) else text
    escaped = html.escape(shown, quote=False).replace("\0", "")
    return " ".join(filter(None, [escaped, *(link.short for link in tail)])), [*links, *tail]

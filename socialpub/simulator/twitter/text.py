"""What X does with a text: it weighs it, and puts its own addresses in place of links."""

from __future__ import annotations

import hashlib
import html
import unicodedata
from collections.abc import Iterator
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
_LIGHT = ((0, 0x10FF), (0x2000, 0x200D), (0x2010, 0x201F), (0x2032, 0x2037))


@dataclass(frozen=True)
class Link:
    """An address in a text, and the short one that stands for it."""

    short: str
    target: str


def weight(text: str) -> int:
    """The length that is compared with the limit."""
    text = unicodedata.normalize("NFC", text)
    rest, links = _LINK.subn("", text)
    rest, emoji = _EMOJI.subn("", rest)
    return int(links * _LINK_WEIGHT + emoji * 2) + sum(1 if _is_light(ord(char)) else 2 for char in rest)


def _is_light(point: int) -> bool:
    return any(first <= point <= last for first, last in _LIGHT)


def short(target: str) -> Link:
    """X's own address for another."""
    return Link(f"https://t.co/{hashlib.sha256(target.encode()).hexdigest()[:10]}", target)


def rewritten(text: str, tail: list[Link]) -> tuple[str, list[Link]]:
    """A text as X shows it, with `tail` after it, and all links in it."""
    text = unicodedata.normalize("NFC", text).strip()
    links = list(_links(text))
    spots = iter(links)
    shown = _LINK.sub(lambda _: f"\0{next(spots).short}\0", text)
    escaped = html.escape(shown, quote=False).replace("\0", "")
    return " ".join(filter(None, [escaped, *(link.short for link in tail)])), [*links, *tail]


def _links(text: str) -> Iterator[Link]:
    for found in _LINK.finditer(text):
        target = found[0] if found[0].lower().startswith("http") else f"http://{found[0]}"
        yield short(target)

"""Text lengths in every unit that platforms count. Never fails, even on lone surrogates."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from socialpub.platforms.kit.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    import regex

# Flags first: \X alone takes quadratic time over a long run of regional indicators.
CLUSTER = compile_lazily(r"\p{Regional_Indicator}{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")
_BLANK = compile_lazily(r"\p{White_Space}*")


def graphemes(text: str) -> int:
    """Count extended grapheme clusters (UAX #29): family emoji, flag and CRLF are one each."""
    if text.isascii():
        return len(text) - text.count("\r\n")
    return sum(1 for _ in CLUSTER.finditer(text))


def split_clusters(text: str) -> list[str]:
    """Split a text into grapheme clusters."""
    return CLUSTER.findall(text)  # type: ignore[no-any-return]


def utf8_bytes(text: str) -> int:
    """Count bytes in UTF-8; a lone surrogate counts three."""
    return len(text.encode("utf-8", "surrogatepass"))


def utf16_units(text: str) -> int:
    """Count UTF-16 code units, JavaScript's length."""
    return len(text) + sum(1 for char in text if char > "\uffff")


def normalize_line_feeds(text: str) -> str:
    """Convert line breaks (CRLF, CR) to LF.

    So a text is counted, stored and sent alike: browsers send the line breaks of a form as CRLF.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_blank(text: str) -> bool:
    """Return whether there is only Unicode white space."""
    return not text[:1].isalnum() and _BLANK.fullmatch(text) is not None


# No language puts 30 marks on one character (UAX #15, stream-safe text). The three named decompose into marks.
_MANY_MARKS = compile_lazily(r"[\p{^Canonical_Combining_Class=0}\u0f73\u0f75\u0f81]{30,}+")


def normalize_nfc(text: str) -> str:
    """Convert to normalization form C in linear time: Python sorts long runs in quadratic time."""
    return text if text.isascii() else unicodedata.normalize("NFC", sort_marks(text))


def sort_marks(text: str) -> str:
    """Sort long runs of marks, keeping canonical equivalence: normalizing then is linear."""
    return _MANY_MARKS.sub(_sort_run, text)  # type: ignore[no-any-return]


def _sort_run(found: regex.Match[str]) -> str:
    """Sort marks canonically and stably."""
    apart = (mark for char in found[0] for mark in unicodedata.normalize("NFD", char))
    return "".join(sorted(apart, key=unicodedata.combining))


_INVISIBLE = compile_lazily(r"\p{Default_Ignorable_Code_Point}+")


def normalize_copy(text: object) -> str:
    """Normalize a text so that a platform's copy compares equal with ours.

    Platforms trim and collapse white space, convert line breaks, compose characters and drop invisible ones.
    """
    return " ".join(normalize_nfc(_INVISIBLE.sub("", str(text or ""))).split())


# --- LinkedIn --------------------------------------------------------------------------------------------------------

_RESERVED = compile_lazily(r"(?!(?<!\w)#\w)[|{}@\[\]()<>#\\*_~]")


def escape_little_text(text: str) -> str:
    """Escape LinkedIn's "little text": reserved characters, except the `#` of a hashtag.

    Source: learn.microsoft.com/linkedin/marketing/community-management/shares/little-text-format.
    """
    return _RESERVED.sub(r"\\\g<0>", text)  # type: ignore[no-any-return]


# --- Hashtags, mentions, links ---------------------------------------------------------------------------------------

_TAG = compile_lazily(r"(?<!\w)#(?=\d*[^\W\d])\w+")
_MENTION = compile_lazily(r"(?<![\w.@])@[A-Za-z0-9_][A-Za-z0-9_.]*")
_LINK = compile_lazily(r"https?://[^\s<>\"]+", "i")


def find_hashtags(text: str) -> list[str]:
    """Find hashtags: `#` at the start of a word that is not only digits."""
    return _TAG.findall(text)  # type: ignore[no-any-return]


def find_mentions(text: str) -> list[str]:
    """Find `@names`, except in e-mail addresses."""
    return _MENTION.findall(text)  # type: ignore[no-any-return]


def find_links(text: str) -> list[str]:
    """Find http(s) URLs, without sentence punctuation at the end."""
    return [found.rstrip(".,;:!?'\u2026)]}") for found in _LINK.findall(text)]

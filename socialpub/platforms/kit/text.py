"""How long a text is, in every unit that a platform counts in. No measure ever fails, not even on lone surrogates."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from socialpub.platforms.kit.patterns import late

if TYPE_CHECKING:
    import regex

# Flags first: \X alone takes quadratic time over a long run of regional indicators.
CLUSTER = late(r"\p{Regional_Indicator}{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")
_BLANK = late(r"\p{White_Space}*")


def graphemes(text: str) -> int:
    """Extended grapheme clusters (UAX #29): a family emoji, a flag and CRLF are one each."""
    if text.isascii():
        return len(text) - text.count("\r\n")
    return sum(1 for _ in CLUSTER.finditer(text))


def clusters(text: str) -> list[str]:
    """The text cut into its grapheme clusters."""
    return CLUSTER.findall(text)  # type: ignore[no-any-return]


def utf8_bytes(text: str) -> int:
    """Bytes in UTF-8; a lone surrogate counts the three bytes it would take."""
    return len(text.encode("utf-8", "surrogatepass"))


def utf16_units(text: str) -> int:
    """Code units in UTF-16, what JavaScript calls the length."""
    return len(text) + sum(1 for char in text if char > "\uffff")


def line_feeds(text: str) -> str:
    """Return the text with each of its line breaks (CRLF, CR) as one LF.

    So it is counted, kept and sent wherever it came from: browsers send each line break of a form as CRLF.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_blank(text: str) -> bool:
    """Whether there is nothing but Unicode white space."""
    return not text[:1].isalnum() and _BLANK.fullmatch(text) is not None


# No language puts 30 marks on one character (UAX #15, stream-safe text). The three named fall apart into marks.
_MANY_MARKS = late(r"[\p{^Canonical_Combining_Class=0}\u0f73\u0f75\u0f81]{30,}+")


def composed(text: str) -> str:
    """The text in normalization form C, in linear time: Python sorts long runs of marks in quadratic time."""
    return text if text.isascii() else unicodedata.normalize("NFC", with_sorted_marks(text))


def with_sorted_marks(text: str) -> str:
    """Return a canonically equivalent text whose long runs of marks are in order: to normalize it takes linear time."""
    return _MANY_MARKS.sub(_sorted_marks, text)  # type: ignore[no-any-return]


def _sorted_marks(found: regex.Match[str]) -> str:
    """The same marks in canonical order; those of one class stay in theirs."""
    apart = (mark for char in found[0] for mark in unicodedata.normalize("NFD", char))
    return "".join(sorted(apart, key=unicodedata.combining))


# --- LinkedIn --------------------------------------------------------------------------------------------------------

_RESERVED = late(r"(?!(?<!\w)#\w)[|{}@\[\]()<>#\\*_~]")


def little_text(text: str) -> str:
    """The text as LinkedIn's "little text" wants it: reserved characters escaped, but for the `#` of a hashtag.

    Source: learn.microsoft.com/linkedin/marketing/community-management/shares/little-text-format.
    """
    return _RESERVED.sub(r"\\\g<0>", text)  # type: ignore[no-any-return]


# --- What a text names -----------------------------------------------------------------------------------------------

_TAG = late(r"(?<!\w)#(?=\d*[^\W\d])\w+")
_MENTION = late(r"(?<![\w.@])@[A-Za-z0-9_][A-Za-z0-9_.]*")
_LINK = late(r"https?://[^\s<>\"]+", "i")


def hashtags(text: str) -> list[str]:
    """The hashtags: a `#` at the start of a word that is not only digits."""
    return _TAG.findall(text)  # type: ignore[no-any-return]


def mentions(text: str) -> list[str]:
    """The `@names`; what stands in an e-mail address is none."""
    return _MENTION.findall(text)  # type: ignore[no-any-return]


def links(text: str) -> list[str]:
    """The http(s) addresses, without the punctuation that ends a sentence."""
    return [found.rstrip(".,;:!?'\u2026)]}") for found in _LINK.findall(text)]

"""How long a text is, in every unit that a platform counts in. No measure ever fails, not even on lone surrogates."""

from __future__ import annotations

import regex

_CLUSTER = regex.compile(r"\X")
_BLANK = regex.compile(r"\p{White_Space}*")


def graphemes(text: str) -> int:
    """Extended grapheme clusters (UAX #29): a family emoji, a flag and CRLF are one each."""
    return sum(1 for _ in _CLUSTER.finditer(text))


def clusters(text: str) -> list[str]:
    """The text cut into its grapheme clusters."""
    return _CLUSTER.findall(text)  # type: ignore[no-any-return]


def utf8_bytes(text: str) -> int:
    """Bytes in UTF-8; a lone surrogate counts the three bytes it would take."""
    return len(text.encode("utf-8", "surrogatepass"))


def utf16_units(text: str) -> int:
    """Code units in UTF-16, what JavaScript calls the length."""
    return len(text) + sum(1 for char in text if char > "\uffff")


def is_blank(text: str) -> bool:
    """Whether there is nothing but Unicode white space."""
    return _BLANK.fullmatch(text) is not None

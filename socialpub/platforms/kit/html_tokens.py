"""HTML tokenizer that works like browsers, in linear time, without building a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turbohtml import Token

_SLICE = 64 * 1024  # characters read at once; other threads may run in between


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML, without a tag or text cut off at the end."""
    from turbohtml import Tokenizer  # imported late: few servers make link cards

    tokenizer = Tokenizer()
    for at in range(0, len(text), _SLICE):
        yield from tokenizer.feed(text[at : at + _SLICE])


def tags(text: str, *names: str) -> Iterator[Token]:
    """Yield the start tags with one of these names."""
    from turbohtml import TokenType

    start = TokenType.START_TAG
    return (token for token in tokens(text) if token.type is start and token.tag in names)

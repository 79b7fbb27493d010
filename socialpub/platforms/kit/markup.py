"""Cut HTML into tags and texts as browsers do, in time linear in its length: no tree is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turbohtml import Token

_SLICE = 64 * 1024  # characters that are read at a time; other threads may run in between


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML; a tag or text that its end cuts off is left out."""
    from turbohtml import Tokenizer  # imported where it is needed: few servers make link cards

    tokenizer = Tokenizer()
    for at in range(0, len(text), _SLICE):
        yield from tokenizer.feed(text[at : at + _SLICE])


def tags(text: str, *names: str) -> Iterator[Token]:
    """Yield the start tags of HTML that have one of these names."""
    from turbohtml import TokenType

    start = TokenType.START_TAG
    return (token for token in tokens(text) if token.type is start and token.tag in names)

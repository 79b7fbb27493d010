"""Bounds of what a platform returns: one table, applied where results are built.

A name is cut, since it is only shown. An id, a token or an address is never cut: what cannot be used as it is counts as
missing, and the response as unusable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from socialpub.base.errors import ApiError, Outcome
from socialpub_client.terminal_text import CONTROLS

ID_MAX = 1_000  # characters of an id: of an account, a post, a board, an upload
POST_ID_MAX = ID_MAX + 24  # of a post: an id, and what a connector puts before it
NAME_MAX = 640  # of a display name or a board's name, which is cut
FACT_MAX = 512  # of another fact about an account: user name, category, server
FACTS_MAX = 100  # facts in a list: the granted scopes
ADDRESS_MAX = 4_096  # of a URL or URI
TOKEN_MAX = 16_384
REFERENCE_MAX = 4_096  # of a description of a stored file, as JSON
MESSAGE_MAX = 2_000  # of a platform's text in an error
COUNT_MAX = (1 << 53) - 1  # of a number: a quota, an offset, seconds
INSTANT_MAX_MS = 253_402_300_799_999  # the end of the year 9999


def is_id(value: object, most: int = ID_MAX) -> TypeGuard[str]:
    """Return whether a value can be used as an id: visible characters without a space."""
    return isinstance(value, str) and 0 < len(value) <= most and value.isprintable() and " " not in value


def is_address(value: object) -> TypeGuard[str]:
    """Return whether a value can be used as a URL or URI."""
    return is_id(value, ADDRESS_MAX)


def is_token(value: str) -> bool:
    """Return whether a text can be sent as a token (RFC 6749, A.12). Empty: an anonymous call."""
    return len(value) <= TOKEN_MAX and value.isascii() and value.isprintable()


def to_line(text: str, most: int = NAME_MAX) -> str:
    """Return a text for people as one line of at most `most` characters."""
    return CONTROLS.sub(" ", text).strip()[:most].rstrip()


def to_fact(value: object) -> str | None:
    """Return a fact about an account as one line; None unless it is text that fits."""
    line = to_line(value, FACT_MAX + 1) if isinstance(value, str) else None
    return None if line is None or len(line) > FACT_MAX else line


def to_facts(values: Iterable[object]) -> list[str]:
    """Return the first facts of a list, without those that do not fit."""
    return [fact for fact in map(to_fact, values) if fact][:FACTS_MAX]


def build_unusable_error(what: str, value: object, outcome: Outcome) -> ApiError:
    """Build the error of a response with an unusable id or token, which is not shown."""
    size = len(value) if isinstance(value, str) else 0
    return ApiError(
        "platform_unavailable",
        f"The {what} from the platform cannot be used: it is empty, too long, or not of visible characters "
        f"(it has {size:,}).",
        platform_response={"unusable": what, "characters": size},
        outcome=outcome,
    )

"""When an upstream may be called again, by its headers: seconds, fractions of them, or a date (RFC 9110, 10.2.3)."""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

SECONDS_MAX = 366 * 24 * 3600
"""Seconds; whatever asks for longer asks for a year."""
_SECONDS = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,12})?")
_DATE_MAX = 64  # characters


def parse_seconds(text: str, now_ms: int | None) -> int | None:
    """Whole seconds to wait, from 0 to MAX; None for a text that is neither a number nor a date.

    `now_ms`: the time that a date is relative to; None: dates cannot be read.
    """
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return _clamp(float(text))
    at = parse_date_ms(text)
    return None if at is None or now_ms is None else _clamp((at - now_ms) / 1000)


def parse_reset_time(text: str, now_ms: int | None) -> int | None:
    """Whole seconds until a Unix time in seconds, from 0 to MAX; None for any other text, or where `now_ms` is None."""
    text = text.strip()
    if now_ms is None or not _SECONDS.fullmatch(text):
        return None
    return _clamp(float(text) - now_ms / 1000)


def parse_date_ms(text: str) -> int | None:
    """The instant of an HTTP date in any of its three forms, in milliseconds; None for any other text."""
    if not text or len(text) > _DATE_MAX:
        return None
    try:
        at = parsedate_to_datetime(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def _clamp(wait: float) -> int:
    return max(0, min(math.ceil(wait), SECONDS_MAX))

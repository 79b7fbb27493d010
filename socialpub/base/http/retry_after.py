"""Retry-After and reset headers: seconds, fractions of them, or a date (RFC 9110, 10.2.3)."""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

SECONDS_MAX = 366 * 24 * 3600
"""The longest wait, in seconds: a year."""
_SECONDS = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,12})?")
_DATE_MAX = 64  # characters


def parse_seconds(text: str, now_ms: int | None) -> int | None:
    """Return the whole seconds to wait, from 0 to SECONDS_MAX; None for a malformed text.

    `now_ms` is the time that a date is relative to; without it dates cannot be read.
    """
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return _clamp(float(text))
    at = parse_date_ms(text)
    return None if at is None or now_ms is None else _clamp((at - now_ms) / 1000)


def parse_reset_time(text: str, now_ms: int | None) -> int | None:
    """Return the whole seconds until a Unix time in seconds, from 0 to SECONDS_MAX.

    None for a malformed text, or without `now_ms`.
    """
    text = text.strip()
    if now_ms is None or not _SECONDS.fullmatch(text):
        return None
    return _clamp(float(text) - now_ms / 1000)


def parse_date_ms(text: str) -> int | None:
    """Return the instant of an HTTP date in milliseconds; None for a malformed text."""
    if not text or len(text) > _DATE_MAX:
        return None
    try:
        at = parsedate_to_datetime(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def _clamp(wait: float) -> int:
    return max(0, min(math.ceil(wait), SECONDS_MAX))

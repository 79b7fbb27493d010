"""IANA time zones."""

from __future__ import annotations

from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

_NO_ZONES = {"localtime", "Factory"}  # of this machine, and of one whose zone is not set


@cache
def list_zones() -> tuple[str, ...]:
    """List the IANA time zone names."""
    return tuple(sorted(available_timezones() - _NO_ZONES))


@lru_cache(1024)
def load_zone(name: str) -> ZoneInfo:
    """Load a time zone by name."""
    return ZoneInfo(name)

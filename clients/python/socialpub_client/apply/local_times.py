"""Local times of a calendar: those that do not exist or exist twice are refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}(?::\d{2})?) ?(Z|[+-]\d{2}:\d{2})?")


def parse_time(text: str, zone: ZoneInfo | None) -> datetime:
    """Return the instant of a time such as `2026-03-29 09:00`. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is no time; write it as 2026-03-29 09:00, or with an offset: 2026-03-29 09:00+02:00"
        )
    day, time, offset = found.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{time}{offset or ''}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: {error}") from None
    if offset:
        return local.astimezone(UTC)
    if zone is None:
        raise ValueError(f"{text!r} has no offset, and the calendar has no `zone`")
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first.astimezone(UTC)
    readings = " or ".join(_shown(each.astimezone(UTC).astimezone(zone)) for each in (first, second))
    exists = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == local
    fault = "exists twice" if exists else "does not exist"
    raise ValueError(f"{text!r} {fault} in {zone.key}, where the clock is changed; write {readings}")


def _shown(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="minutes")


def show_time(time: datetime, zone: str | None) -> str:
    """Return a time for people, in a zone."""
    return f"{_shown(time.astimezone(ZoneInfo(zone)) if zone else time)[:16]} {zone or 'UTC'}"

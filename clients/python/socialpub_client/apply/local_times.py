"""Local times of a calendar: those that do not exist or exist twice are refused."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from socialpub_client.commands.times import to_instant

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
    known = local.tzinfo or zone
    if known is None:
        raise ValueError(f"{text!r} has no offset, and the calendar has no `zone`")
    return to_instant(local, known)


def show_time(time: datetime, zone: str | None) -> str:
    """Return a time for people, in a zone."""
    shown = time.astimezone(ZoneInfo(zone)) if zone else time
    return f"{shown:%Y-%m-%d %H:%M} {zone or 'UTC'}"

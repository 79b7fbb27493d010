"""Times on the command line: with an offset, or local ones with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def parse_time(text: str, zone: str | None) -> datetime:
    """Parse a time. Raises ValueError, with the reason, if it is not exactly one instant."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time such as 2026-12-01T09:30+01:00, or 2026-12-01 09:30 with --zone"
        ) from None
    if found.tzinfo is not None:
        if zone:
            raise ValueError(f"{text!r} has an offset, so --zone is not needed")
        return found
    if not zone:
        raise ValueError(f"{text!r} has no offset: add one, such as +01:00, or give --zone")
    return _to_instant(found, zone)


def _to_instant(local: datetime, zone: str) -> datetime:
    """Return the local time in its zone. One that does not exist, or exists twice, is refused."""
    try:
        tz = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{zone!r} is no time zone, such as Europe/Berlin") from None
    first, second = (local.replace(tzinfo=tz, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    readings = f"{first.isoformat()} or {second.isoformat()}"
    if first.astimezone(UTC).astimezone(tz).replace(tzinfo=None) != local:
        readings = (
            f"{second.astimezone(UTC).astimezone(tz).isoformat()} or {first.astimezone(UTC).astimezone(tz).isoformat()}"
        )
        raise ValueError(f"{local} does not exist in {zone}: clocks go ahead over it. Say {readings}")
    raise ValueError(f"{local} exists twice in {zone}: clocks go back. Say {readings}")

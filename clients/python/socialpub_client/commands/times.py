"""Times on the command line: with an offset, or local ones with a time zone."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def parse_time(text: str, zone: str | None) -> datetime:
    """Parse a time. Raises ValueError, with the reason, if it is not exactly one instant."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time such as 2030-12-01T09:30+01:00, or 2030-12-01 09:30 with --zone"
        ) from None
    if found.tzinfo is not None:
        if zone:
            raise ValueError(f"{text!r} has an offset, so --zone is not needed")
        return found
    if not zone:
        raise ValueError(f"{text!r} has no offset: add one, such as +01:00, or give --zone")
    try:
        found_zone = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{zone!r} is no time zone, such as Europe/Berlin") from None
    return to_instant(found, found_zone)


def to_instant(local: datetime, zone: tzinfo) -> datetime:
    """Return the instant of a local time.

    Raises ValueError for one that does not exist, or exists twice.
    """
    try:
        first, second = sorted(local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:
        raise ValueError(f"{local} in {zone} is out of range") from None
    if not MINYEAR < first.year < MAXYEAR:  # it may have no local time
        raise ValueError(f"{local} in {zone} is out of range")
    if first == second:
        return first
    readings = [each.astimezone(zone) for each in (first, second)]
    fault = "exists twice" if readings[0].replace(tzinfo=None) == local else "does not exist"
    shown = " or ".join(each.isoformat(sep=" ", timespec="minutes") for each in readings)
    raise ValueError(f"'{local:%Y-%m-%d %H:%M}' {fault} in {zone}, where the clock is changed; write {shown}")

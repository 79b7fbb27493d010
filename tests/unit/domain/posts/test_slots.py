"""Instants of weekly slots, above all in the weeks in which the clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from socialpub.domain.posts.slots import DAYS, WeeklySlots, list_week
from socialpub.domain.schemas.slots import SlotBody

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut")
QUARTERS: list[SlotBody] = [
    {"day": day, "time": f"{minute // 60:02}:{minute % 60:02}"} for day in DAYS for minute in range(0, 1440, 15)
]


def quarters_of(zone: str, first_day: date) -> list[tuple[datetime, datetime]]:
    """Every quarter of an hour (UTC, local) of seven local days; each zone's offset is a multiple of one."""
    at = datetime(first_day.year, first_day.month, first_day.day, tzinfo=UTC) - timedelta(days=1)
    last_day, found = first_day + timedelta(days=6), []
    for _ in range(9 * 96):
        local = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        if first_day <= local.date() <= last_day:
            found.append((at, local))
        at += timedelta(minutes=15)
    return found


def change_days(zone: str, year: int) -> list[date]:
    """The days of a year on which the clock changes."""
    noons = [datetime(year, 1, 1, 12, tzinfo=ZoneInfo(zone)) + timedelta(days=n) for n in range(365)]
    pairs = zip(noons, noons[1:], strict=False)
    return [later.date() for before, later in pairs if before.utcoffset() != later.utcoffset()]


@pytest.mark.parametrize("zone", ZONES)
def test_each_time_is_once_in_a_week_in_which_the_clock_changes(zone: str) -> None:
    """The oracle walks through every quarter of an hour of the week, and converts from UTC only."""
    days = change_days(zone, 2027)
    assert len(days) == 2
    for change, offset in ((day, offset) for day in days for offset in (0, 3, 6)):
        first_day = change - timedelta(days=offset)
        seen: dict[datetime, datetime] = {}
        for at, local in quarters_of(zone, first_day):
            seen.setdefault(local, at)
        expected = [int(at.timestamp()) * 1000 for at in seen.values()]
        assert list_week(WeeklySlots(zone, QUARTERS), first_day) == sorted(expected)
        assert len(expected) in (len(QUARTERS), len(QUARTERS) - 2, len(QUARTERS) - 4)


@pytest.mark.parametrize(
    ("zone", "time", "day", "instants"),
    [
        ("Europe/Berlin", "02:30", "2027-03-28", []),
        ("Europe/Berlin", "03:00", "2027-03-28", ["2027-03-28T01:00"]),
        ("Europe/Berlin", "02:30", "2027-10-31", ["2027-10-31T00:30"]),
        ("America/New_York", "01:30", "2027-11-07", ["2027-11-07T05:30"]),
        ("Australia/Lord_Howe", "02:15", "2027-10-03", []),
        ("Australia/Lord_Howe", "01:45", "2027-04-04", ["2027-04-03T14:45"]),
        ("America/Santiago", "00:30", "2027-09-05", []),
        ("Pacific/Apia", "12:00", "2011-12-30", []),  # a whole day that Samoa left out
    ],
)
def test_a_known_change(zone: str, time: str, day: str, instants: list[str]) -> None:
    first = date.fromisoformat(day)
    name = DAYS[first.weekday()]
    found = list_week(WeeklySlots(zone, [{"day": name, "time": time}]), first)  # type: ignore[typeddict-item]
    assert found == [int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) * 1000 for at in instants]

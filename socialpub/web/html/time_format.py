"""Times for people: local time with its zone, and distances such as `5 minutes ago`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from markupsafe import Markup, escape

from socialpub.base.runtime import format_iso
from socialpub.base.time_zones import load_zone

TIME_UNITS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"))
_DAY_MINUTES_MAX = 25 * 60
_INSTANT = re.compile(r"(\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z)")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Instant = str | int
"""A time as the API writes it, or Unix milliseconds."""
Context = Mapping[str, Any]
"""The template's variables: `zone` and `now_ms` are used."""


def to_local(instant: Instant, zone: str) -> datetime:
    """Return the time in a zone."""
    text = format_iso(instant) if isinstance(instant, int) else instant
    return datetime.fromisoformat(text).astimezone(load_zone(zone))


def parse_ms(text: str | None) -> int | None:
    """Return the milliseconds that a form's hidden field holds; None for any other text."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= len("9999999999999") else None


def to_fields(instant: Instant, zone: str) -> dict[str, str]:
    """Return the fields `day` and `clock` of a form for a time in a zone."""
    local = to_local(instant, zone)
    return {"day": f"{local:%Y-%m-%d}", "clock": f"{local:%H:%M}"}


def parse_local(day: str, clock: str, zone: str) -> int | None:
    """Return the Unix milliseconds of a form's date and time in a zone, or None if invalid."""
    try:
        return int(datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=load_zone(zone)).timestamp() * 1000)
    except ValueError:
        return None


def list_instants(day: str, clock: str, zone: str) -> list[int]:
    """Return the instants that a zone's clocks show so: one, none if skipped, two if repeated.

    Unix milliseconds. Raises ValueError for an invalid day or clock.
    """
    local = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=load_zone(zone))
    instants = {local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)}
    shown = [
        at for at in sorted(instants) if at.astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)
    ]
    return [(at - EPOCH) // timedelta(milliseconds=1) for at in shown]


def add_days(at_ms: int, days: int, zone: str) -> tuple[int, str]:
    """Return the instant that many days later on a zone's clocks, and the skipped time or "".

    Where the clocks skip that time, the instant is as much later as they are set forward.
    """
    due = to_local(at_ms, zone) + timedelta(days=days)
    instant = int(due.timestamp() * 1000)
    return instant, "" if to_fields(instant, zone)["clock"] == f"{due:%H:%M}" else f"{due:%H:%M}"


def describe_clock_change(day: date, zone: str) -> str:
    """Return `The clock goes forward 1 hour at 02:00` for a day on which it is set, else ""."""
    start = datetime.combine(day, time(), load_zone(zone)).astimezone(UTC)
    before = (start - timedelta(seconds=1)).astimezone(load_zone(zone)).utcoffset() or timedelta()
    for minutes in range(0, _DAY_MINUTES_MAX, 15):
        at = (start + timedelta(minutes=minutes)).astimezone(load_zone(zone))
        change = (at.utcoffset() or timedelta()) - before
        if change and (at - timedelta(minutes=1)).date() <= day:
            way, length = ("forward", change) if change > timedelta() else ("back", -change)
            return f"The clock goes {way} {format_length(length.total_seconds())} at {at - change:%H:%M}"
    return ""


def format_instant(instant: Instant, zone: str) -> str:
    """Return the time as `Sun 22 Nov 2026, 19:05 CET`."""
    local = to_local(instant, zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M} {format_zone(instant, zone)}"


def format_zone(instant: Instant, zone: str) -> str:
    """Return the zone's usual name at that time, `CET`, or `UTC+03` if it only has a number."""
    name = to_local(instant, zone).tzname() or zone
    return name if name.isalpha() else f"UTC{name}"


def format_distance(instant: Instant, now_ms: int) -> str:
    """Return the distance to now: `5 minutes ago`, `in 2 hours`."""
    seconds = (now_ms / 1000) - to_local(instant, "UTC").timestamp()
    words = _rough_length(abs(seconds))
    if words is None:
        return "just now" if seconds >= 0 else "in a moment"
    return f"{words} ago" if seconds > 0 else f"in {words}"


def format_length(seconds: float) -> str:
    """Return a length of time in words: `1 day`."""
    return _rough_length(seconds) or "a moment"


def _rough_length(seconds: float) -> str | None:
    """Return a length as `5 minutes`, or None below 30 seconds."""
    if seconds < 30:
        return None
    amount = seconds
    for size, name in TIME_UNITS:
        if round(amount) < size:
            return pluralize(round(amount), name)
        amount /= size
    return pluralize(round(amount), "year")


def pluralize(number: int, name: str) -> str:
    """Format a number with its noun: `1 post`, `2 posts`."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def render_instant(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """Template filter: a time in the reader's zone, or `nothing` for None."""
    if instant is None:
        return nothing
    return _element(instant, format_instant(instant, context["zone"]), context["zone"])


def render_distance(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """Template filter: the distance to a time, with the time as its tooltip."""
    if instant is None:
        return nothing
    return _element(instant, format_distance(instant, context["now_ms"]), context["zone"])


def localize_instants(context: Context, text: str) -> Markup:
    """Template filter: a text with the API's times in it, each in the reader's zone."""
    parts = _INSTANT.split(text)
    pieces = [render_instant(context, part) if index % 2 else escape(part) for index, part in enumerate(parts)]
    return Markup("").join(pieces)


READER_FILTERS: dict[str, Callable[..., Any]] = {
    "when": render_instant,
    "ago": render_distance,
    "localized": localize_instants,
}
"""The filters that take the template's context first."""


def _element(instant: Instant, words: str, zone: str) -> Markup:
    exact = to_local(instant, "UTC").astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = '<time datetime="{}" title="{} ({})">{}</time>'
    return Markup(shown).format(exact, format_instant(instant, zone), zone, words)

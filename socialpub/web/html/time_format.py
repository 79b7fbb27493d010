"""Instants as people read them: local time with its zone named, and how long ago that was."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from socialpub.base.runtime import format_iso

TIME_UNITS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"))
_INSTANT = re.compile(r"(\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z)")
Instant = str | int
"""As the API writes it, or in milliseconds."""
Context = Mapping[str, Any]
"""What a template was given: whose zone, and what time it is."""


def to_local(instant: Instant, zone: str) -> datetime:
    """The instant on the clocks of a zone."""
    text = format_iso(instant) if isinstance(instant, int) else instant
    return datetime.fromisoformat(text).astimezone(_load_zone(zone))


@lru_cache(1024)
def _load_zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def parse_local(day: str, clock: str, zone: str) -> int | None:
    """The milliseconds of a day and a time of day as a form has them, on the clocks of a zone; None for none such."""
    try:
        return int(datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=_load_zone(zone)).timestamp() * 1000)
    except ValueError:
        return None


def format_instant(instant: Instant, zone: str) -> str:
    """`Sun 22 Nov 2026, 19:05 CET`."""
    local = to_local(instant, zone)
    return f"{local:%a} {_format_day(instant, zone)}, {local:%H:%M} {format_zone(instant, zone)}"


def _format_day(instant: Instant, zone: str) -> str:
    at = to_local(instant, zone)
    return f"{at.day} {at:%b %Y}"


def format_zone(instant: Instant, zone: str) -> str:
    """What people call the zone then: `CET`; where it has only a number, `UTC+03`."""
    name = to_local(instant, zone).tzname() or zone
    return name if name.isalpha() else f"UTC{name}"


def format_distance(instant: Instant, now_ms: int) -> str:
    """`5 minutes ago`, `in 2 hours`."""
    seconds = (now_ms / 1000) - to_local(instant, "UTC").timestamp()
    words = _rough_length(abs(seconds))
    if words is None:
        return "just now" if seconds >= 0 else "in a moment"
    return f"{words} ago" if seconds > 0 else f"in {words}"


def format_length(seconds: float) -> str:
    """`24 hours` are `1 day`; for templates."""
    return _rough_length(seconds) or "a moment"


def _rough_length(seconds: float) -> str | None:
    """`5 minutes`; None for less than half of one."""
    if seconds < 30:
        return None
    amount = seconds
    for size, name in TIME_UNITS:
        if round(amount) < size:
            return _pluralize(round(amount), name)
        amount /= size
    return _pluralize(round(amount), "year")


def _pluralize(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def render_instant(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """For templates: an instant in the reader's zone; without one `nothing`."""
    if instant is None:
        return nothing
    return _element(instant, format_instant(instant, context["zone"]), context["zone"])


def render_distance(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """For templates: how far away an instant is; pointing at it says when that is."""
    if instant is None:
        return nothing
    return _element(instant, format_distance(instant, context["now_ms"]), context["zone"])


def localize_instants(context: Context, text: str) -> Markup:
    """For templates: words with instants in them as the API writes them, each in the reader's zone."""
    parts = _INSTANT.split(text)
    shown = [render_instant(context, part) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(shown)


READER_FILTERS: dict[str, Callable[..., Any]] = {
    "when": render_instant,
    "ago": render_distance,
    "told": localize_instants,
}
"""The filters that are handed a template's context first."""


def _element(instant: Instant, words: str, zone: str) -> Markup:
    exact = to_local(instant, "UTC").astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = '<time datetime="{}" title="{} ({})">{}</time>'
    return Markup(shown).format(exact, format_instant(instant, zone), zone, words)

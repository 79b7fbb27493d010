"""Instants as people read them: local time with its zone named, and how long ago that was."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from socialpub.base.runtime import iso

STEPS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"))
_INSTANT = re.compile(r"(\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z)")
Instant = str | int
"""As the API writes it, or in milliseconds."""
Context = Mapping[str, Any]
"""What a template was given: whose zone, and what time it is."""


def moment(instant: Instant, zone: str) -> datetime:
    """The instant on the clocks of a zone."""
    text = iso(instant) if isinstance(instant, int) else instant
    return datetime.fromisoformat(text).astimezone(_zone(zone))


@lru_cache(1024)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def instant_of(day: str, clock: str, zone: str) -> int | None:
    """The milliseconds of a day and a time of day as a form has them, on the clocks of a zone; None for none such."""
    try:
        return int(datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=_zone(zone)).timestamp() * 1000)
    except ValueError:
        return None


def said(instant: Instant, zone: str) -> str:
    """`Sun 22 Nov 2026, 19:05 CET`."""
    return f"{moment(instant, zone):%a} {_day(instant, zone)}, {moment(instant, zone):%H:%M} {zone_said(instant, zone)}"


def _day(instant: Instant, zone: str) -> str:
    at = moment(instant, zone)
    return f"{at.day} {at:%b %Y}"


def zone_said(instant: Instant, zone: str) -> str:
    """What people call the zone then: `CET`; where it has only a number, `UTC+03`."""
    name = moment(instant, zone).tzname() or zone
    return name if name.isalpha() else f"UTC{name}"


def distance(instant: Instant, now_ms: int) -> str:
    """`5 minutes ago`, `in 2 hours`."""
    seconds = (now_ms / 1000) - moment(instant, "UTC").timestamp()
    words = _length(abs(seconds))
    if words is None:
        return "just now" if seconds >= 0 else "in a moment"
    return f"{words} ago" if seconds > 0 else f"in {words}"


def length(seconds: float) -> str:
    """`24 hours` are `1 day`; for templates."""
    return _length(seconds) or "a moment"


def _length(seconds: float) -> str | None:
    """`5 minutes`; None for less than half of one."""
    if seconds < 30:
        return None
    amount = seconds
    for size, name in STEPS:
        if round(amount) < size:
            return _counted(round(amount), name)
        amount /= size
    return _counted(round(amount), "year")


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def when(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """For templates: an instant in the reader's zone; without one `nothing`."""
    if instant is None:
        return nothing
    return _element(instant, said(instant, context["zone"]), context["zone"])


def ago(context: Context, instant: Instant | None, nothing: str = "never") -> Markup | str:
    """For templates: how far away an instant is; pointing at it says when that is."""
    if instant is None:
        return nothing
    return _element(instant, distance(instant, context["now_ms"]), context["zone"])


def told(context: Context, text: str) -> Markup:
    """For templates: words with instants in them as the API writes them, each in the reader's zone."""
    parts = _INSTANT.split(text)
    shown = [when(context, part) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(shown)


FOR_A_READER: dict[str, Callable[..., Any]] = {"when": when, "ago": ago, "told": told}
"""The filters that are handed a template's context first."""


def _element(instant: Instant, words: str, zone: str) -> Markup:
    exact = moment(instant, "UTC").astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = '<time datetime="{}" title="{} ({})">{}</time>'
    return Markup(shown).format(exact, said(instant, zone), zone, words)

"""The calendar: scheduled and published posts of a month or a week, in the user's zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import calendar
from socialpub.web.dashboard.parts.layout import show
from socialpub.web.dashboard.posts import to_view
from socialpub.web.html import time_format
from socialpub.web.http.handler import HandlerResponse, RequestContext

POSTS_PER_DAY_IN_MONTH, POSTS_PER_DAY_IN_WEEK = 16, 50
PUBLICATIONS_PER_DAY_IN_MONTH = 4
WORST_FIRST = ("failed", "rejected", "unknown", "overdue", "retrying", "publishing", "validated", "queued", "published")
"""States, by how much they matter to the reader of a calendar; the others matter least."""
YEARS = range(2000, 2200)
DAY = timedelta(days=1)


async def show_this_month(call: RequestContext) -> HandlerResponse:
    """GET /calendar."""
    return await _month(call, lambda today: today)


async def show_month(call: RequestContext) -> HandlerResponse:
    """GET /calendar/month/{2026-11}."""
    first = _parse_date(f"{call.path_value('month')}-01")
    return await _month(call, lambda today: first)


async def show_this_week(call: RequestContext) -> HandlerResponse:
    """GET /calendar/week."""
    return await _week(call, lambda today: today)


async def show_week(call: RequestContext) -> HandlerResponse:
    """GET /calendar/week/{2026-11-16}: the week that contains this day."""
    day = _parse_date(call.path_value("day"))
    return await _week(call, lambda today: day)


def _parse_date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise _not_found() from error
    if day.year not in YEARS:
        raise _not_found()
    return day


def _in_calendar(day: date) -> date | None:
    """Return the day, or None outside the calendar's range."""
    return day if day.year in YEARS else None


def _not_found() -> ApiError:
    return ApiError("not_found", "The calendar has no such page.")


async def _month(call: RequestContext, choose: Callable[[date], date]) -> HandlerResponse:
    def read(session: DashboardSession) -> dict[str, Any]:
        today = time_format.to_local(call.service.now_ms, session.zone).date()
        first = choose(today).replace(day=1)
        following = (first + 31 * DAY).replace(day=1)
        days = [first + number * DAY for number in range((following - first).days)]
        shown = _build_days(call, session, days, today, POSTS_PER_DAY_IN_MONTH)
        return {
            "first": first,
            "before": _in_calendar((first - DAY).replace(day=1)),
            "following": _in_calendar(following),
            "week": today if today in days else first,
            "days": [_gather(day) for day in shown],
        }

    return await show(call, "calendar/month.html", read)


async def _week(call: RequestContext, choose: Callable[[date], date]) -> HandlerResponse:
    def read(session: DashboardSession) -> dict[str, Any]:
        today = time_format.to_local(call.service.now_ms, session.zone).date()
        chosen = choose(today)
        monday = chosen - chosen.weekday() * DAY
        days = [monday + number * DAY for number in range(7)]
        return {
            "monday": monday,
            "sunday": days[-1],
            "before": _in_calendar(monday - DAY),
            "following": _in_calendar(monday + 7 * DAY),
            "today": today,
            "days": _build_days(call, session, days, today, POSTS_PER_DAY_IN_WEEK),
        }

    return await show(call, "calendar/week.html", read)


def _build_days(
    call: RequestContext, session: DashboardSession, days: list[date], today: date, most: int
) -> list[dict[str, Any]]:
    midnights = [time_format.parse_local(f"{day}", "00:00", session.zone) or 0 for day in [*days, days[-1] + DAY]]
    found = calendar.load_days(session.scope, list(zip(midnights, midnights[1:], strict=False)), most)
    return [
        {
            "date": day,
            "is_today": day == today,
            "posts": [_entry(call, session, dict(post)) for post in one.posts],
            "more": one.count - len(one.posts),
            "is_counted": one.is_counted,
        }
        for day, one in zip(days, found, strict=True)
    ]


def _gather(day: dict[str, Any]) -> dict[str, Any]:
    """Return a day of a month with one entry for the posts of a batch.

    It is the post in the worst state, with the posts of all targets.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for post in day["posts"]:
        found.setdefault((post["batchId"], post["clock"]), []).append(post)
    shown = list(found.values())[:PUBLICATIONS_PER_DAY_IN_MONTH]
    hidden = len(day["posts"]) - sum(map(len, shown))
    entries = [min(posts, key=_severity) | {"targets": posts} for posts in shown]
    return day | {"entries": entries, "more": day["more"] + hidden}


def _severity(post: dict[str, Any]) -> int:
    state = post["state"]
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def _entry(call: RequestContext, session: DashboardSession, post: dict[str, Any]) -> dict[str, Any]:
    at = time_format.to_local(post["scheduledAt"] or post["createdAt"], session.zone)
    can_move = post["status"] == "queued" and at.timestamp() * 1000 > call.service.now_ms
    return to_view(post, call.service.now_ms) | {"clock": f"{at:%H:%M}", "day": f"{at:%Y-%m-%d}", "can_move": can_move}

"""Posts by day: scheduled ones by their time, immediate ones by creation.

The work per day is bounded, however many posts it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from socialpub.domain.access.authentication import Scope
from socialpub.domain.posts import post_log_schedule
from socialpub.domain.posts.post_log_query import PostFilter
from socialpub.domain.schemas.posts import PostBody
from socialpub.store.engine import sql
from socialpub.store.queries import calendar, drafts, post_json

SCAN_MAX = 300  # posts created on a day that are scanned for immediate ones
DRAFTS_MAX = 200  # on a page


@dataclass(frozen=True)
class CalendarDay:
    """First posts of a day and a count, exact if `is_counted`, otherwise a lower bound."""

    posts: list[PostBody]
    count: int
    is_counted: bool


def load_days(scope: Scope, bounds: Sequence[tuple[int, int]], most: int) -> list[CalendarDay]:
    """Load up to `most` posts, earliest first, for each (start, end) day."""
    accounts = post_log_schedule.list_accounts(PostFilter(scope.organization, scope.profile))
    if scope.profile is None:
        statement, owner = calendar.DAYS_OF_ORGANIZATION, scope.organization
    else:
        statement, owner = calendar.DAYS_OF_PROFILE, scope.profile
    values = (sql.dump_json(bounds), sql.dump_json(accounts), owner, most, SCAN_MAX)
    found = [_select_rows(*each, most=most) for each in sql.load_json(sql.fetch_value(statement, values))]
    posts = _load_posts([number for one in found for number in one.numbers])
    return [CalendarDay([posts[number] for number in one.numbers], one.total, one.is_counted) for one in found]


_Position = tuple[int, int]  # (time, post number)


class _DayRows(NamedTuple):
    total: int
    numbers: list[int]
    is_counted: bool


def _select_rows(
    total: int, scheduled: list[_Position], immediate: list[tuple[int, int | None]], *, most: int
) -> _DayRows:
    at_once = [(at, number) for at, number in immediate if number is not None]
    first = sorted([*((at, number) for at, number in scheduled), *at_once])[:most]
    return _DayRows(total + len(at_once), [number for _, number in first], len(immediate) < SCAN_MAX)


class PlannedDraft(NamedTuple):
    """Unpublished draft with a time, in the column order of the SQL."""

    id: str
    title: str | None
    text: str | None
    status: str
    scheduled_at: int
    targets: str | None  # JSON

    @property
    def account_ids(self) -> list[str]:
        """The accounts that it names by their ids."""
        return [target["accountId"] for target in sql.load_json(self.targets or "[]") if "accountId" in target]


def load_drafts(scope: Scope, from_ms: int, to_ms: int) -> list[PlannedDraft]:
    """Load the unpublished drafts with a time in [from, to), earliest first, up to a limit."""
    values = (scope.organization, scope.profile, from_ms, to_ms, DRAFTS_MAX)
    return [PlannedDraft._make(row) for row in sql.fetch_all(drafts.FIND_SCHEDULED, values)]


def _load_posts(numbers: list[int]) -> dict[int, PostBody]:
    shown = sql.fetch_value(post_json.FIND_BY_NUMBERS, (sql.dump_json(numbers),)) or ""
    bodies: list[PostBody] = json.loads(f"[{shown}]")
    return dict(zip(numbers, bodies, strict=True))

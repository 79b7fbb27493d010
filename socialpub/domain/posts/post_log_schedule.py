"""Post log by scheduled time: in that order, or within a range.

An index has this order per account and status, so each account of the scope is probed with each requested status, and
the database merges the results. Filters outside that index come first if they find few posts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from socialpub.domain.posts import post_log_query
from socialpub.domain.posts.post_log_query import (
    PostFilter,
    ScheduleRange,
    combine_conditions,
    external_id_conditions,
    find_by_probes,
    has_few,
    schedule_conditions,
)
from socialpub.store import search
from socialpub.store.engine import sql
from socialpub.store.rows import PostStatus
from socialpub.store.schema.models import Account
from socialpub.store.search import SearchHit, SqlCondition, in_scope, match_all, match_any

SORT_MAX = 2000  # posts sorted in memory
_STATUSES: tuple[str, ...] = get_args(PostStatus)
_POSITION_COLUMNS = "post.scheduled_at AS at, post.number AS number"


class SchedulePosition(NamedTuple):
    """Position in the order of scheduled time."""

    at: int
    number: int


def find_earliest(wanted: PostFilter, count: int) -> list[SchedulePosition]:
    """Find the first `count` scheduled posts of the filter, earliest first."""
    if wanted.is_empty:
        return []
    if _should_filter_first(wanted):
        hits = post_log_query.find_newest(wanted, SORT_MAX + 1)
        if len(hits) <= SORT_MAX:
            return _sort_hits(hits, count)
    spots: list[SchedulePosition] = []
    for statement, values in combine_conditions(_build_probes(wanted, *_row_conditions(wanted)), _POSITION_COLUMNS):
        spots += _fetch_positions(statement, (*values, count))
    return sorted(spots)[:count]


def find_newest(wanted: PostFilter, count: int) -> list[SearchHit]:
    """Find the newest `count` posts within bounds on the scheduled time, newest first."""
    if wanted.is_empty:
        return []
    is_bounded = wanted.schedule != ScheduleRange() and not wanted.is_named
    if is_bounded and has_few(_build_probes(wanted)):
        return find_by_probes(_build_probes(wanted, *_row_conditions(wanted)), count)
    return post_log_query.find_newest(wanted, count)


def _should_filter_first(wanted: PostFilter) -> bool:
    """Return whether other indexes serve the filter better; for text, only if much is to read."""
    if wanted.batch is not None or wanted.error_codes or wanted.is_named:
        return True
    is_searched = wanted.text is not None and search.is_indexed(wanted.text)
    return is_searched and not has_few(_build_probes(wanted))


def _sort_hits(hits: list[SearchHit], count: int) -> list[SchedulePosition]:
    statement = f"SELECT {_POSITION_COLUMNS} FROM json_each(?) AS hit CROSS JOIN post ON post.number = hit.value"
    return _fetch_positions(statement, (sql.dump_json([hit.number for hit in hits]), count))


def _fetch_positions(statement: str, values: tuple[Any, ...]) -> list[SchedulePosition]:
    found = sql.fetch_value(
        f"SELECT json_group_array(json_array(at, number)) FROM ({statement} ORDER BY 1, 2 LIMIT ?)", values
    )
    return [SchedulePosition._make(row) for row in sql.load_json(found)]


def _build_probes(wanted: PostFilter, *rest: SqlCondition) -> Iterator[SqlCondition]:
    states = tuple(dict.fromkeys(wanted.statuses)) or _STATUSES
    for account, status in itertools.product(list_accounts(wanted), states):
        spot = [in_scope("account", account), match_any("post.status", [status])]
        yield match_all([*spot, *schedule_conditions(wanted.schedule, "post.scheduled_at"), *rest])


def list_accounts(wanted: PostFilter) -> list[str]:
    """List the accounts that match the filter, including disconnected ones."""
    if wanted.accounts is not None:
        return [account.id for account in wanted.matching_accounts]
    query = Account.select(Account.id).where(Account.organization == wanted.organization)
    if wanted.profile is not None:
        query = query.where(Account.profile == wanted.profile)
    if wanted.platforms:
        query = query.where(Account.platform.in_(wanted.platforms))
    return [id for (id,) in query.tuples()]


def _row_conditions(wanted: PostFilter) -> Iterator[SqlCondition]:
    """Yield conditions checked on the row (`+`)."""
    if wanted.batch is not None:
        yield match_any("+post.batch", [wanted.batch])
    if wanted.error_codes:
        yield match_any("+post.error_code", wanted.error_codes)
    yield from external_id_conditions(wanted, "+")
    if wanted.after is not None:
        yield SqlCondition("+post.created_at > ?", (wanted.after,))
    if wanted.below is not None:
        yield SqlCondition("(+post.created_at, post.number) < (?, ?)", wanted.below)
    if wanted.text is not None:
        yield search.match_text(wanted.text)

"""Post log by scheduled time: in that order, or within a range.

An index has this order per account and status, so each account of the scope is probed with each requested status, and
the database merges the results. Filters outside that index come first if they find few posts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from socialpub.domain.posts import postlog_query
from socialpub.domain.posts.postlog_query import Filter, Schedule, are_few, scheduled, together
from socialpub.store import search
from socialpub.store.engine import sql
from socialpub.store.rows import PostStatus
from socialpub.store.schema.models import Account
from socialpub.store.search import HIT_COLUMNS, SearchHit, SqlCondition, in_scope, match_all, match_any

SOUGHT = 2000  # posts sorted in memory
_STATUSES: tuple[str, ...] = get_args(PostStatus)
_SPOT = "post.scheduled_at AS at, post.number AS number"


class Spot(NamedTuple):
    """Position in the order of scheduled time."""

    at: int
    number: int


def earliest(wanted: Filter, count: int) -> list[Spot]:
    """Find the first `count` scheduled posts of the filter, earliest first."""
    if wanted.is_empty:
        return []
    if _is_sought(wanted):
        hits = postlog_query.newest(wanted, SOUGHT + 1)
        if len(hits) <= SOUGHT:
            return _in_order(hits, count)
    spots: list[Spot] = []
    for statement, values in together(_probes(wanted, *_rest(wanted)), _SPOT):
        spots += _spots(statement, (*values, count))
    return sorted(spots)[:count]


def newest(wanted: Filter, count: int) -> list[SearchHit]:
    """Find the newest `count` posts within bounds on the scheduled time, newest first."""
    if wanted.is_empty:
        return []
    if wanted.schedule != Schedule() and are_few(together(_probes(wanted), "1")):
        hits: list[SearchHit] = []
        for statement, values in together(_probes(wanted, *_rest(wanted)), HIT_COLUMNS):
            hits += search.find_hits(f"{statement} ORDER BY 1 DESC, 2 DESC LIMIT ?", (*values, count))
        return sorted(hits, reverse=True)[:count]
    return postlog_query.newest(wanted, count)


def _is_sought(wanted: Filter) -> bool:
    """Return whether other indexes serve the filter better; for text, only if much is to read."""
    if wanted.batch is not None or wanted.error_codes:
        return True
    return wanted.text is not None and search.is_indexed(wanted.text) and not are_few(together(_probes(wanted), "1"))


def _in_order(hits: list[SearchHit], count: int) -> list[Spot]:
    statement = f"SELECT {_SPOT} FROM json_each(?) AS hit CROSS JOIN post ON post.number = hit.value"
    return _spots(statement, (sql.dump_json([hit.number for hit in hits]), count))


def _spots(statement: str, values: tuple[Any, ...]) -> list[Spot]:
    found = sql.fetch_value(
        f"SELECT json_group_array(json_array(at, number)) FROM ({statement} ORDER BY 1, 2 LIMIT ?)", values
    )
    return [Spot._make(row) for row in sql.load_json(found)]


def _probes(wanted: Filter, *rest: SqlCondition) -> Iterator[SqlCondition]:
    states = tuple(dict.fromkeys(wanted.statuses)) or _STATUSES
    for account, status in itertools.product(accounts_of(wanted), states):
        spot = [in_scope("account", account), match_any("post.status", [status])]
        yield match_all([*spot, *scheduled(wanted.schedule, "post.scheduled_at"), *rest])


def accounts_of(wanted: Filter) -> list[str]:
    """List the accounts that match the filter, including disconnected ones."""
    if wanted.account is not None:
        return [wanted.account.id]
    query = Account.select(Account.id).where(Account.organization == wanted.organization)
    if wanted.profile is not None:
        query = query.where(Account.profile == wanted.profile)
    if wanted.platforms:
        query = query.where(Account.platform.in_(wanted.platforms))
    return [id for (id,) in query.tuples()]


def _rest(wanted: Filter) -> Iterator[SqlCondition]:
    """Yield conditions checked on the row (`+`)."""
    if wanted.batch is not None:
        yield match_any("+post.batch", [wanted.batch])
    if wanted.error_codes:
        yield match_any("+post.error_code", wanted.error_codes)
    if wanted.after is not None:
        yield SqlCondition("+post.created_at > ?", (wanted.after,))
    if wanted.below is not None:
        yield SqlCondition("(+post.created_at, post.number) < (?, ?)", wanted.below)
    if wanted.text is not None:
        yield search.match_text(wanted.text)

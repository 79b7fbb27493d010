"""Text search in posts: an FTS5 index of trigrams filed under `Post.number`. SQLite only.

Posts are filed behind their acceptance, many at once, which costs a tenth: `post_search_filed` says up to which number,
and a search reads the rows of those that are not filed yet, newer than everything that is.

The index proposes and never decides: each candidate's row is looked at again. A few trigrams are asked for first,
which is cheap and often leaves few posts; else all of them, one after the other. Candidates come in falling order of
`number`, which is the order of `created_at` too, except where the clock was set back; by how much is kept (`disorder`),
and the walk goes on for that long, so that the newest first are the newest.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.store.database import proxy
from socialpub.store.engine import sql
from socialpub.store.queries import search_index
from socialpub.store.queries.id_columns import select_number

GRAM_CHARS = 3
SPARSE_GRAMS = 4  # trigrams that are asked for first
CANDIDATES_MAX = 2000  # candidates that are looked at all at once
_NUMBER_MAX = 2**63 - 1
INDEX_BATCH = 128  # posts that are filed in one write


class SearchHit(NamedTuple):
    """Where a post stands in the log."""

    created_at: int
    number: int


@dataclass(frozen=True)
class SqlCondition:
    """Part of a WHERE over `post`, with its values."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SearchQuery:
    """What the index is asked: a fold (`folding.py`), in one organization, or one profile of it; empty is everything.

    `after` and `upto` bound `created_at` (None: unbounded), both loosely: the exact bounds belong to the condition.
    """

    fold: str
    organization: str
    profile: str | None = None
    platforms: Sequence[str] = ()
    statuses: Sequence[str] = ()
    error_codes: Sequence[str] = ()
    after: int | None = None
    upto: int | None = None


def match_any(column: str, values: Sequence[Any]) -> SqlCondition:
    """That a column has one of these values."""
    marks = ", ".join("?" * len(values))
    return SqlCondition(f"{column} = ?" if len(values) == 1 else f"{column} IN ({marks})", tuple(values))


def in_scope(column: str, id: str, *, helped: bool = True) -> SqlCondition:
    """That a post is of the organization, profile or account with this id; `helped`: an index of that may be used."""
    return SqlCondition(f"{'' if helped else '+'}post.{column} = {select_number(column, '?')}", (id,))


def match_all(conditions: Sequence[SqlCondition]) -> SqlCondition:
    """All of them."""
    return SqlCondition(
        " AND ".join(condition.sql for condition in conditions),
        tuple(value for condition in conditions for value in condition.values),
    )


def find_hits(statement: str, values: Sequence[Any]) -> list[SearchHit]:
    """The posts that a SELECT of PLACE finds, in its order: as one row, since each costs a change of threads."""
    found = sql.fetch_value(f"SELECT json_group_array(json_array(created_at, number)) FROM ({statement})", values)
    return [SearchHit._make(row) for row in sql.load_json(found)]


def is_indexed(fold: str) -> bool:
    """Whether the index finds this text: one shorter than a trigram is looked for in the rows."""
    return len(fold) >= GRAM_CHARS


def match_text(fold: str) -> SqlCondition:
    """That a post has this text, told from its row."""
    return SqlCondition(f"instr({search_index.FOLDED_TEXT}, ?) > 0", (fold,))


def record_clock_skew(newest: int | None, now: int) -> None:
    """Keep how far the clock was set back. `find_newest`: when the newest post of the organization was made, before
    now.
    """
    if newest is not None and newest > now:
        sql.execute(search_index.SET_DISORDER, (newest - now,))


# --- Filing ----------------------------------------------------------------------------------------------------------


class IndexProgress(NamedTuple):
    """Up to which number posts are filed, and the newest number there is."""

    texts: int
    newest: int

    @property
    def is_whole(self) -> bool:
        """Whether what is not filed is too little to begin with."""
        return self.behind < INDEX_BATCH

    @property
    def behind(self) -> int:
        """How many posts are not filed."""
        return self.newest - self.texts


def get_progress() -> IndexProgress:
    """What is filed, in a read or a write."""
    return IndexProgress._make(sql.fetch_one(search_index.FIND_PROGRESS))


def index_batch() -> bool:
    """File the next SLICE of posts; in a write. Whether there were so many."""
    now = get_progress()
    if now.is_whole:
        return False
    sql.execute(search_index.INSERT_POSTS, (now.texts, now.texts + INDEX_BATCH))
    sql.execute(search_index.SET_PROGRESS, (now.texts + INDEX_BATCH,))
    return True


def remove(numbers: str) -> None:
    """Take posts, a JSON list of numbers, out of the index; in the write that deletes them, before it does."""
    sql.execute(search_index.DELETE_POSTS, (numbers,))


def rebuild() -> None:
    """File every post again; in one write."""
    newest = get_progress().newest
    proxy.execute_sql("INSERT INTO post_search (post_search) VALUES ('delete-all')")
    sql.execute(search_index.INSERT_POSTS, (0, newest))
    sql.execute(search_index.SET_PROGRESS, (newest,))
    proxy.execute_sql(
        "UPDATE post_search_order SET disorder = (SELECT coalesce(max(newest - created_at), 0) FROM "
        "(SELECT created_at, max(created_at) OVER (PARTITION BY organization ORDER BY number) AS newest FROM post))"
    )


# --- Finding ---------------------------------------------------------------------------------------------------------


def find_newest(sought: SearchQuery, others: SqlCondition, count: int) -> list[SearchHit]:
    """The newest `count` posts that have the text, of a trigram or more, and meet the condition, newest first."""
    condition = match_all([match_text(sought.fold), others])
    disorder = _fetch_value("SELECT disorder FROM post_search_order", ()) or 0
    fresh = _find_unindexed(get_progress().texts, condition)
    first, last = _find_number_range(sought, disorder)
    count_of_few, few = sql.fetch_one(
        "SELECT count(*), json_group_array(number) FROM "
        f"(SELECT rowid AS number FROM post_search WHERE {_MATCHES} LIMIT ?)",
        (_build_match(sought, _build_sparse_match(sought.fold)), first, last, CANDIDATES_MAX + 1),
    )
    if count_of_few <= CANDIDATES_MAX:
        return heapq.nlargest(count, fresh + _check_candidates(few, condition))
    state = _join_state(sought)
    found = proxy.execute_sql(
        f"SELECT {HIT_COLUMNS} FROM post_search {state.sql} CROSS JOIN post ON post.number = post_search.rowid "
        f"WHERE {condition.sql} AND {_MATCHES}",
        (*state.values, *condition.values, _build_match(sought, _quote(sought.fold)), first, last),
    )
    with contextlib.closing(found):
        return _select_newest(fresh, map(SearchHit._make, found), count, disorder)


def _find_unindexed(after: int, condition: SqlCondition) -> list[SearchHit]:
    """Those of the posts after a number that meet the condition."""
    return find_hits(
        f"SELECT {HIT_COLUMNS} FROM post NOT INDEXED WHERE post.number > ? AND {condition.sql}",
        (after, *condition.values),
    )


HIT_COLUMNS = "post.created_at, post.number"
_MATCHES = "post_search MATCH ? AND post_search.rowid > ? AND post_search.rowid < ? ORDER BY post_search.rowid DESC"


def _check_candidates(numbers: str, condition: SqlCondition) -> list[SearchHit]:
    """Those of the posts with these numbers, a JSON list, that meet the condition."""
    return find_hits(
        f"SELECT {HIT_COLUMNS} FROM json_each(?) AS candidate CROSS JOIN post ON post.number = candidate.value "
        f"WHERE {condition.sql}",
        (numbers, *condition.values),
    )


def _join_state(sought: SearchQuery) -> SqlCondition:
    """A look at status and error code in a narrow index before the row, for what all candidates may fail."""
    looks = {"state.status": sought.statuses, "state.error_code": sought.error_codes}
    chosen = [match_any(column, values) for column, values in looks.items() if values]
    if not chosen:
        return SqlCondition("", ())
    on = match_all([SqlCondition("state.number = post_search.rowid", ()), *chosen])
    return SqlCondition(f"CROSS JOIN post AS state INDEXED BY post_number_status_error_code ON {on.sql}", on.values)


def _select_newest(fresh: Sequence[SearchHit], hits: Iterable[SearchHit], count: int, disorder: int) -> list[SearchHit]:
    best = heapq.nlargest(count, fresh)
    heapq.heapify(best)
    for hit in hits:
        if len(best) < count:
            heapq.heappush(best, hit)
        elif hit.created_at + disorder < best[0].created_at:
            break  # whatever still comes is older than all of them
        else:
            heapq.heappushpop(best, hit)
    return sorted(best, reverse=True)


def _find_number_range(sought: SearchQuery, disorder: int) -> tuple[int, int]:
    """Numbers between which everything within the bounds is, so that the index is entered there."""
    first, last = None, None
    if sought.after is not None:
        older = (sought.organization, sought.after - disorder)
        first = _fetch_value(f"{_SELECT_NUMBER} created_at < ? ORDER BY created_at DESC LIMIT 1", older)
    if sought.upto is not None:
        newer = (sought.organization, sought.upto + disorder)
        last = _fetch_value(f"{_SELECT_NUMBER} created_at > ? ORDER BY created_at LIMIT 1", newer)
    return first or 0, last or _NUMBER_MAX


_SELECT_NUMBER = f"SELECT number FROM post WHERE organization = {select_number('organization', '?')} AND"


def _build_sparse_match(fold: str) -> str:
    """A few trigrams spread over the text: whatever has the text has them, and often little else."""
    last, gaps = len(fold) - GRAM_CHARS, min(SPARSE_GRAMS - 1, len(fold) - GRAM_CHARS) or 1
    places = [last * place // gaps for place in range(gaps + 1)]
    return "(" + " AND ".join(dict.fromkeys(_quote(fold[place : place + GRAM_CHARS]) for place in places)) + ")"


def _build_match(sought: SearchQuery, text: str) -> str:
    """The FTS5 expression: `text`, among whose it is."""
    parts = [f"fold : {text}"]
    if sought.profile is None:
        parts.append(f"organization : {_quote(_shorten_id(sought.organization))}")
    else:
        parts.append(f"profile : {_quote(_shorten_id(sought.profile))}")
    if sought.platforms:
        parts.append(f"platform : ({' OR '.join(_quote(name[:GRAM_CHARS]) for name in sought.platforms)})")
    return " AND ".join(parts)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _shorten_id(owner: str) -> str:
    """What is filed of an owner's id: its random end. Equal ones only cost time."""
    return owner[-GRAM_CHARS:]


def _fetch_value(sql: str, values: Sequence[Any]) -> int | None:
    row = proxy.execute_sql(sql, values).fetchone()
    return None if row is None else row[0]

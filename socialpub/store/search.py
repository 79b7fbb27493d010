"""Text search in posts: an FTS5 index of trigrams with `Post.number` as its rowid.

Posts are indexed after their acceptance, in batches, which costs a tenth: `post_search_filed` stores up to which
number, and a search scans the newer rows.

The index only proposes candidates: each one's row is checked. A search first uses a few trigrams, which is fast and
often leaves few posts; else it uses all of them. Candidates come in descending order of `number`, which is the order of
`created_at` except where the clock was set back. The largest such step is stored (`disorder`), and the search continues
for that long, so that it returns the newest posts.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.store.engine import sql
from socialpub.store.queries import search_index
from socialpub.store.queries.id_columns import select_number

GRAM_CHARS = 3
SPARSE_GRAMS = 16  # trigrams of the first search
CANDIDATES_MAX = 2000  # candidates that are checked at once
_NUMBER_MAX = 2**63 - 1
RUN_CHARS = GRAM_CHARS + 1  # of a longer run of one character, so many at each end are looked up
INDEX_BATCH = 128  # posts indexed in one write


class SearchHit(NamedTuple):
    """The position of a post in the log."""

    created_at: int
    number: int


@dataclass(frozen=True)
class SqlCondition:
    """A part of a WHERE clause over `post`, with its parameters."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SearchQuery:
    """A search in one organization, or one of its profiles; empty sequences match everything.

    `fold` is the folded text (`casefold.py`). `after` and `upto` bound `created_at` (None: unbounded) approximately;
    the exact bounds belong to the condition.
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
    """Return the condition that a column has one of these values."""
    marks = ", ".join("?" * len(values))
    return SqlCondition(f"{column} = ?" if len(values) == 1 else f"{column} IN ({marks})", tuple(values))


def in_scope(column: str, id: str, *, use_index: bool = True) -> SqlCondition:
    """Return the condition that a post belongs to an organization, profile or account.

    `use_index`: SQLite may use an index on that column.
    """
    return SqlCondition(f"{'' if use_index else '+'}post.{column} = {select_number(column, '?')}", (id,))


def match_all(conditions: Sequence[SqlCondition]) -> SqlCondition:
    """Return the conjunction of conditions."""
    return SqlCondition(
        " AND ".join(condition.sql for condition in conditions),
        tuple(value for condition in conditions for value in condition.values),
    )


def find_hits(statement: str, values: Sequence[Any]) -> list[SearchHit]:
    """Return the posts of a SELECT of HIT_COLUMNS, in its order.

    They are read as one row, since each row releases the interpreter lock.
    """
    hits = sql.fetch_value(f"SELECT json_group_array(json_array(created_at, number)) FROM ({statement})", values)
    return [SearchHit._make(row) for row in sql.load_json(hits)]


def is_indexed(fold: str) -> bool:
    """Return whether the index can find this text; shorter ones than a trigram need a scan."""
    return len(fold) >= GRAM_CHARS


def match_text(fold: str) -> SqlCondition:
    """Return the condition that a post has this text, by its row."""
    return SqlCondition(f"instr({search_index.FOLDED_TEXT}, ?) > 0", (fold,))


def record_clock_skew(newest: int | None, now: int) -> None:
    """Store how far the clock was set back.

    `newest` is when the organization's newest post was created before now.
    """
    if newest is not None and newest > now:
        sql.execute(search_index.SET_DISORDER, (newest - now,))


# --- Indexing -------------------------------------------------------------------------------------------------------


class IndexProgress(NamedTuple):
    """The number of the last indexed post, and of the newest post."""

    texts: int
    newest: int

    @property
    def is_whole(self) -> bool:
        """True if there are too few new posts for a batch."""
        return self.behind < INDEX_BATCH

    @property
    def behind(self) -> int:
        """The number of posts that are not indexed."""
        return self.newest - self.texts


def get_progress() -> IndexProgress:
    """Return the progress of the index, in a read or a write."""
    return IndexProgress._make(sql.fetch_one(search_index.FIND_PROGRESS))


def index_batch() -> bool:
    """Index the next INDEX_BATCH posts, in a write; return False if there are fewer."""
    now = get_progress()
    if now.is_whole:
        return False
    sql.execute(search_index.INSERT_POSTS, (now.texts, now.texts + INDEX_BATCH))
    sql.execute(search_index.SET_PROGRESS, (now.texts + INDEX_BATCH,))
    return True


def remove(numbers: str) -> None:
    """Remove posts, a JSON list of numbers, in the write that deletes or edits them."""
    sql.execute(search_index.DELETE_POSTS, (numbers,))


def add_again(numbers: str) -> None:
    """Add removed posts, a JSON list of numbers, with their new texts, in the same write."""
    sql.execute(search_index.INSERT_AGAIN, (numbers,))


# --- Finding --------------------------------------------------------------------------------------------------------


def find_newest(query: SearchQuery, others: SqlCondition, count: int) -> list[SearchHit]:
    """Return the `count` newest posts with the text (a trigram or more) and the condition.

    Newest first.
    """
    condition = match_all([match_text(query.fold), others])
    disorder = sql.fetch_value("SELECT disorder FROM post_search_order") or 0
    unindexed = _find_unindexed(get_progress().texts, condition)
    first, last = _find_number_range(query, disorder)
    candidate_count, candidates = sql.fetch_one(
        "SELECT count(*), json_group_array(number) FROM "
        f"(SELECT rowid AS number FROM post_search WHERE {_MATCHES} LIMIT ?)",
        (_build_match(query, _build_sparse_match(query.fold)), first, last, CANDIDATES_MAX + 1),
    )
    if candidate_count <= CANDIDATES_MAX:
        return heapq.nlargest(count, unindexed + _check_candidates(candidates, condition))
    state = _join_state(query)
    hits = sql.execute(
        f"SELECT {HIT_COLUMNS} FROM post_search {state.sql} CROSS JOIN post ON post.number = post_search.rowid "
        f"WHERE {condition.sql} AND {_MATCHES}",
        (*state.values, *condition.values, _build_match(query, _build_whole_match(query.fold)), first, last),
    )
    with contextlib.closing(hits):
        return _select_newest(unindexed, map(SearchHit._make, hits), count, disorder)


def _find_unindexed(after: int, condition: SqlCondition) -> list[SearchHit]:
    """Return the posts after a number that meet the condition."""
    return find_hits(
        f"SELECT {HIT_COLUMNS} FROM post NOT INDEXED WHERE post.number > ? AND {condition.sql}",
        (after, *condition.values),
    )


HIT_COLUMNS = "post.created_at, post.number"
_MATCHES = "post_search MATCH ? AND post_search.rowid > ? AND post_search.rowid < ? ORDER BY post_search.rowid DESC"


def _check_candidates(numbers: str, condition: SqlCondition) -> list[SearchHit]:
    """Return those of the posts with these numbers, a JSON list, that meet the condition."""
    return find_hits(
        f"SELECT {HIT_COLUMNS} FROM json_each(?) AS candidate CROSS JOIN post ON post.number = candidate.value "
        f"WHERE {condition.sql}",
        (numbers, *condition.values),
    )


def _join_state(query: SearchQuery) -> SqlCondition:
    """Return a join that checks status and error code in a narrow index before the row."""
    columns = {"state.status": query.statuses, "state.error_code": query.error_codes}
    conditions = [match_any(column, values) for column, values in columns.items() if values]
    if not conditions:
        return SqlCondition("", ())
    on = match_all([SqlCondition("state.number = post_search.rowid", ()), *conditions])
    return SqlCondition(f"CROSS JOIN post AS state INDEXED BY post_number_status_error_code ON {on.sql}", on.values)


def _select_newest(
    unindexed: Sequence[SearchHit], hits: Iterable[SearchHit], count: int, disorder: int
) -> list[SearchHit]:
    best = heapq.nlargest(count, unindexed)
    heapq.heapify(best)
    for hit in hits:
        if len(best) < count:
            heapq.heappush(best, hit)
        elif hit.created_at + disorder < best[0].created_at:
            break  # all further hits are older
        else:
            heapq.heappushpop(best, hit)
    return sorted(best, reverse=True)


def _find_number_range(query: SearchQuery, disorder: int) -> tuple[int, int]:
    """Return the numbers between which all posts within the bounds are.

    They limit the index scan.
    """
    first, last = None, None
    if query.after is not None:
        older = (query.organization, query.after - disorder)
        first = sql.fetch_value(f"{_SELECT_NUMBER} created_at < ? ORDER BY created_at DESC LIMIT 1", older)
    if query.upto is not None:
        newer = (query.organization, query.upto + disorder)
        last = sql.fetch_value(f"{_SELECT_NUMBER} created_at > ? ORDER BY created_at LIMIT 1", newer)
    return first or 0, last or _NUMBER_MAX


_SELECT_NUMBER = f"SELECT number FROM post WHERE organization = {select_number('organization', '?')} AND"


def _build_sparse_match(fold: str) -> str:
    """Return a few trigrams spread over the text, which few other texts contain."""
    last, steps = len(fold) - GRAM_CHARS, min(SPARSE_GRAMS - 1, len(fold) - GRAM_CHARS) or 1
    offsets = [last * offset // steps for offset in range(steps + 1)]
    return "(" + " AND ".join(dict.fromkeys(_quote(fold[offset : offset + GRAM_CHARS]) for offset in offsets)) + ")"


def _build_whole_match(fold: str) -> str:
    """Return the text as a phrase, cut within each long run of one character.

    A phrase takes time for each of its trigrams in each post that has them, and "----------" would have eight.
    """
    starts, ends, at = [0], [], 0
    for _, run in itertools.groupby(fold):
        begin, at = at, at + sum(1 for _ in run)
        if at - begin > RUN_CHARS:
            ends.append(begin + RUN_CHARS)
            starts.append(at - RUN_CHARS)
    ends.append(len(fold))
    pieces = (fold[start:end] for start, end in zip(starts, ends, strict=True))
    return "(" + " AND ".join(dict.fromkeys(map(_quote, pieces))) + ")"


def _build_match(query: SearchQuery, text: str) -> str:
    """Return the FTS5 expression for `text` in the scope of the search."""
    parts = [f"fold : {text}"]
    if query.profile is None:
        parts.append(f"organization : {_quote(_shorten_id(query.organization))}")
    else:
        parts.append(f"profile : {_quote(_shorten_id(query.profile))}")
    if query.platforms:
        parts.append(f"platform : ({' OR '.join(_quote(name[:GRAM_CHARS]) for name in query.platforms)})")
    return " AND ".join(parts)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _shorten_id(owner: str) -> str:
    """Return the indexed part of an id: its random end. Collisions only cost time."""
    return owner[-GRAM_CHARS:]

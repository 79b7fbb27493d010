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

from socialpub.store import sql
from socialpub.store.db import proxy
from socialpub.store.statements import searching
from socialpub.store.statements.ids import number_of

GRAM = 3
THIN = 4  # trigrams that are asked for first
FEW = 2000  # candidates that are looked at all at once
_NUMBER_MAX = 2**63 - 1
SLICE = 128  # posts that are filed in one write


class Hit(NamedTuple):
    """Where a post stands in the log."""

    created_at: int
    number: int


@dataclass(frozen=True)
class Condition:
    """Part of a WHERE over `post`, with its values."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Sought:
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


def among(column: str, values: Sequence[Any]) -> Condition:
    """That a column has one of these values."""
    marks = ", ".join("?" * len(values))
    return Condition(f"{column} = ?" if len(values) == 1 else f"{column} IN ({marks})", tuple(values))


def whose(column: str, id: str, *, helped: bool = True) -> Condition:
    """That a post is of the organization, profile or account with this id; `helped`: an index of that may be used."""
    return Condition(f"{'' if helped else '+'}post.{column} = {number_of(column, '?')}", (id,))


def every(conditions: Sequence[Condition]) -> Condition:
    """All of them."""
    return Condition(
        " AND ".join(condition.sql for condition in conditions),
        tuple(value for condition in conditions for value in condition.values),
    )


def hits(statement: str, values: Sequence[Any]) -> list[Hit]:
    """The posts that a SELECT of PLACE finds, in its order: as one row, since each costs a change of threads."""
    found = sql.value(f"SELECT json_group_array(json_array(created_at, number)) FROM ({statement})", values)
    return [Hit._make(row) for row in sql.loads(found)]


def is_indexed(fold: str) -> bool:
    """Whether the index finds this text: one shorter than a trigram is looked for in the rows."""
    return len(fold) >= GRAM


def containing(fold: str) -> Condition:
    """That a post has this text, told from its row."""
    return Condition(f"instr({searching.FOLD}, ?) > 0", (fold,))


def note_order(newest: int | None, now: int) -> None:
    """Keep how far the clock was set back. `newest`: when the newest post of the organization was made, before now."""
    if newest is not None and newest > now:
        sql.execute(searching.GONE_BACK, (newest - now,))


# --- Filing ----------------------------------------------------------------------------------------------------------


class Filed(NamedTuple):
    """Up to which number posts are filed, and the newest number there is."""

    texts: int
    newest: int

    @property
    def is_whole(self) -> bool:
        """Whether what is not filed is too little to begin with."""
        return self.behind < SLICE

    @property
    def behind(self) -> int:
        """How many posts are not filed."""
        return self.newest - self.texts


def filed() -> Filed:
    """What is filed, in a read or a write."""
    return Filed._make(sql.first(searching.FILED))


def file_some() -> bool:
    """File the next SLICE of posts; in a write. Whether there were so many."""
    now = filed()
    if now.is_whole:
        return False
    sql.execute(searching.FILE_TEXTS, (now.texts, now.texts + SLICE))
    sql.execute(searching.TEXTS_FILED, (now.texts + SLICE,))
    return True


def unfile(numbers: str) -> None:
    """Take posts, a JSON list of numbers, out of the index; in the write that deletes them, before it does."""
    sql.execute(searching.UNFILE_TEXTS, (numbers,))


def rebuild() -> None:
    """File every post again; in one write."""
    newest = filed().newest
    proxy.execute_sql("INSERT INTO post_search (post_search) VALUES ('delete-all')")
    sql.execute(searching.FILE_TEXTS, (0, newest))
    sql.execute(searching.TEXTS_FILED, (newest,))
    proxy.execute_sql(
        "UPDATE post_search_order SET disorder = (SELECT coalesce(max(newest - created_at), 0) FROM "
        "(SELECT created_at, max(created_at) OVER (PARTITION BY organization ORDER BY number) AS newest FROM post))"
    )


# --- Finding ---------------------------------------------------------------------------------------------------------


def newest(sought: Sought, others: Condition, count: int) -> list[Hit]:
    """The newest `count` posts that have the text, of a trigram or more, and meet the condition, newest first."""
    condition = every([containing(sought.fold), others])
    disorder = _one("SELECT disorder FROM post_search_order", ()) or 0
    fresh = _not_filed(filed().texts, condition)
    first, last = _numbers(sought, disorder)
    count_of_few, few = sql.first(
        "SELECT count(*), json_group_array(number) FROM "
        f"(SELECT rowid AS number FROM post_search WHERE {_MATCHES} LIMIT ?)",
        (_match(sought, _thin(sought.fold)), first, last, FEW + 1),
    )
    if count_of_few <= FEW:
        return heapq.nlargest(count, fresh + _looked_at(few, condition))
    state = _state(sought)
    found = proxy.execute_sql(
        f"SELECT {PLACE} FROM post_search {state.sql} CROSS JOIN post ON post.number = post_search.rowid "
        f"WHERE {condition.sql} AND {_MATCHES}",
        (*state.values, *condition.values, _match(sought, _phrase(sought.fold)), first, last),
    )
    with contextlib.closing(found):
        return _best(fresh, map(Hit._make, found), count, disorder)


def _not_filed(after: int, condition: Condition) -> list[Hit]:
    """Those of the posts after a number that meet the condition."""
    return hits(
        f"SELECT {PLACE} FROM post NOT INDEXED WHERE post.number > ? AND {condition.sql}", (after, *condition.values)
    )


PLACE = "post.created_at, post.number"
_MATCHES = "post_search MATCH ? AND post_search.rowid > ? AND post_search.rowid < ? ORDER BY post_search.rowid DESC"


def _looked_at(numbers: str, condition: Condition) -> list[Hit]:
    """Those of the posts with these numbers, a JSON list, that meet the condition."""
    return hits(
        f"SELECT {PLACE} FROM json_each(?) AS candidate CROSS JOIN post ON post.number = candidate.value "
        f"WHERE {condition.sql}",
        (numbers, *condition.values),
    )


def _state(sought: Sought) -> Condition:
    """A look at status and error code in a narrow index before the row, for what all candidates may fail."""
    looks = {"state.status": sought.statuses, "state.error_code": sought.error_codes}
    chosen = [among(column, values) for column, values in looks.items() if values]
    if not chosen:
        return Condition("", ())
    on = every([Condition("state.number = post_search.rowid", ()), *chosen])
    return Condition(f"CROSS JOIN post AS state INDEXED BY post_number_status_error_code ON {on.sql}", on.values)


def _best(fresh: Sequence[Hit], hits: Iterable[Hit], count: int, disorder: int) -> list[Hit]:
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


def _numbers(sought: Sought, disorder: int) -> tuple[int, int]:
    """Numbers between which everything within the bounds is, so that the index is entered there."""
    first, last = None, None
    if sought.after is not None:
        older = (sought.organization, sought.after - disorder)
        first = _one(f"{_NUMBER} created_at < ? ORDER BY created_at DESC LIMIT 1", older)
    if sought.upto is not None:
        newer = (sought.organization, sought.upto + disorder)
        last = _one(f"{_NUMBER} created_at > ? ORDER BY created_at LIMIT 1", newer)
    return first or 0, last or _NUMBER_MAX


_NUMBER = f"SELECT number FROM post WHERE organization = {number_of('organization', '?')} AND"


def _thin(fold: str) -> str:
    """A few trigrams spread over the text: whatever has the text has them, and often little else."""
    last, gaps = len(fold) - GRAM, min(THIN - 1, len(fold) - GRAM) or 1
    places = [last * place // gaps for place in range(gaps + 1)]
    return "(" + " AND ".join(dict.fromkeys(_phrase(fold[place : place + GRAM]) for place in places)) + ")"


def _match(sought: Sought, text: str) -> str:
    """The FTS5 expression: `text`, among whose it is."""
    parts = [f"fold : {text}"]
    if sought.profile is None:
        parts.append(f"organization : {_phrase(_of(sought.organization))}")
    else:
        parts.append(f"profile : {_phrase(_of(sought.profile))}")
    if sought.platforms:
        parts.append(f"platform : ({' OR '.join(_phrase(name[:GRAM]) for name in sought.platforms)})")
    return " AND ".join(parts)


def _phrase(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _of(owner: str) -> str:
    """What is filed of an owner's id: its random end. Equal ones only cost time."""
    return owner[-GRAM:]


def _one(sql: str, values: Sequence[Any]) -> int | None:
    row = proxy.execute_sql(sql, values).fetchone()
    return None if row is None else row[0]

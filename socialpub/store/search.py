"""Text search in posts: an FTS5 index of trigrams filed under `Post.number`. SQLite only, and the only such module.

The index proposes and never decides: each candidate's row is looked at again. Candidates come in falling order of
`number`, which is the order of `created_at` too, except where the clock was set back; by how much is kept (`disorder`),
and the walk goes on for that long, so that the newest first are the newest.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.store.db import proxy

GRAM = 3
_NUMBER_MAX = 2**63 - 1
_FILE = "INSERT INTO post_search (rowid, fold, organization, profile, platform)"


class Hit(NamedTuple):
    """Where a post stands in the log."""

    created_at: int
    id: str
    number: int


@dataclass(frozen=True)
class Condition:
    """Part of a WHERE over `post`, with its values."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Sought:
    """What the index is asked: a casefolded text, in one organization, or one profile of it, on some platforms or all.

    `after` and `upto` bound `created_at` (None: unbounded), both loosely: the exact bounds belong to the condition.
    """

    fold: str
    organization: str
    profile: str | None = None
    platforms: Sequence[str] = ()
    after: int | None = None
    upto: int | None = None


def is_indexed(fold: str) -> bool:
    """Whether the index can find this text; shorter ones are looked for in the rows."""
    return len(fold) >= GRAM


def containing(fold: str) -> Condition:
    """That a post has this text, told from its row."""
    return Condition("instr(post.text_fold, ?) > 0", (fold,))


def add(number: int, row: Mapping[str, Any]) -> None:
    """File a new post's text; in the transaction that inserts the row."""
    proxy.execute_sql(
        f"{_FILE} VALUES (?, ?, ?, ?, ?)",
        (number, row["text_fold"], _of(row["organization"]), _of(row["profile"]), row["platform"][:GRAM]),
    )
    newest = _one(
        "SELECT created_at FROM post WHERE organization = ? ORDER BY created_at DESC LIMIT 1", (row["organization"],)
    )
    if newest is not None and newest > row["created_at"]:
        gone_back = newest - row["created_at"]
        proxy.execute_sql("UPDATE post_search_order SET disorder = max(disorder, ?)", (gone_back,))


def rebuild() -> None:
    """File every post anew; in one write."""
    proxy.execute_sql("INSERT INTO post_search (post_search) VALUES ('delete-all')")
    proxy.execute_sql(
        f"{_FILE} SELECT number, text_fold, substr(organization, -{GRAM}), substr(profile, -{GRAM}), "
        f"substr(platform, 1, {GRAM}) FROM post ORDER BY number"
    )
    proxy.execute_sql(
        "UPDATE post_search_order SET disorder = (SELECT coalesce(max(newest - created_at), 0) FROM "
        "(SELECT created_at, max(created_at) OVER (PARTITION BY organization ORDER BY number) AS newest FROM post))"
    )


def newest(sought: Sought, condition: Condition, count: int) -> list[Hit]:
    """The newest `count` posts that have the text and meet the condition, newest first."""
    disorder = _one("SELECT disorder FROM post_search_order", ()) or 0
    first, last = _numbers(sought, disorder)
    has_text = containing(sought.fold)
    found = proxy.execute_sql(
        "SELECT post.created_at, post.id, post.number FROM post_search "
        "CROSS JOIN post ON post.number = post_search.rowid "
        "WHERE post_search MATCH ? AND post_search.rowid > ? AND post_search.rowid < ? "
        f"AND {has_text.sql} AND {condition.sql} ORDER BY post_search.rowid DESC",
        (_match(sought), first, last, *has_text.values, *condition.values),
    )
    with contextlib.closing(found):
        return _best(map(Hit._make, found), count, disorder)


def _best(hits: Iterable[Hit], count: int, disorder: int) -> list[Hit]:
    best: list[Hit] = []
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


_NUMBER = "SELECT number FROM post WHERE organization = ? AND"


def _match(sought: Sought) -> str:
    """The FTS5 expression."""
    parts = [f"fold : {_phrase(sought.fold)}"]
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

"""Running statements whose SQL is text made once: what the hot paths do.

A query builder makes the same text again for every call, which costs fifty times what running it does. The texts are
constants in `statements/`; SQLite keeps them compiled for each connection. sqlite3 gives the interpreter away at every
row that it steps to, and has to win it back from whoever runs then: so a statement that gives or takes many rows at
once does it as one JSON value (`json_each(?)` with `dump_json`, `json_group_array` with `load_json`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import orjson

from socialpub.store.engine.sqlite import proxy, read_limits
from socialpub.store.queries.bulk import BulkInsert, BulkUpdate, SqlRow

Params = Sequence[Any]
R = TypeVar("R")

load_json: Callable[[str | bytes], Any] = orjson.loads


def execute(text: str, params: Params = ()) -> sqlite3.Cursor:
    """Run a statement on this thread's connection, within its transaction or snapshot."""
    if read_limits.check is not None:
        read_limits.check()
    cursor: sqlite3.Cursor = proxy.connection().execute(text, params)
    return cursor


def fetch_one(text: str, params: Params = ()) -> Any:
    """The first row as a tuple, or None."""
    cursor = execute(text, params)
    try:
        return cursor.fetchone()
    finally:
        cursor.close()  # a statement that is not at its end keeps its snapshot, also where a value cannot be read


def fetch_value(text: str, params: Params = ()) -> Any:
    """The one value of the first row, or None."""
    found = fetch_one(text, params)
    return None if found is None else found[0]


def fetch_all(text: str, params: Params = ()) -> list[Any]:
    """All rows as tuples."""
    cursor = execute(text, params)
    try:
        return cursor.fetchall()
    finally:
        cursor.close()


def to_row(shape: type[R], values: Params) -> R:
    """The columns of a table, in the order in which its type in `rows.py` names them, as that type."""
    return cast(R, dict(zip(shape.__annotations__, values, strict=True)))


def update(text: str, params: Params = ()) -> int:
    """How many rows a writing statement has changed."""
    return execute(text, params).rowcount


def insert(rows: BulkInsert, values: Sequence[SqlRow], shared: SqlRow = ()) -> int | None:
    """Write rows in this order; the rowid of the last."""
    last = None
    for text, params in rows.calls(values, shared):
        last = execute(text, params).lastrowid
    return last


def update_all(changes: BulkUpdate, values: Sequence[SqlRow], shared: SqlRow = ()) -> int:
    """How many of these rows a statement has changed."""
    return sum(update(text, params) for text, params in changes.calls(values, shared))


def dump_json(rows: Any) -> str:
    """Rows as the one parameter of a statement that reads `json_each(?)`."""
    return orjson.dumps(rows).decode()

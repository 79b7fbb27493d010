"""Runs the constant statements of `store.queries`, for the hot paths.

A query builder's text costs fifty times its execution; SQLite caches the compiled statements per connection. sqlite3
releases the interpreter lock at every row, so statements with many rows pass them as one JSON value (`json_each(?)`
with `dump_json`, `json_group_array` with `load_json`).
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
    """Return the first row as a tuple, or None."""
    cursor = execute(text, params)
    try:
        return cursor.fetchone()
    finally:
        cursor.close()  # an unfinished statement would keep its snapshot


def fetch_value(text: str, params: Params = ()) -> Any:
    """Return the only value of the first row, or None."""
    row = fetch_one(text, params)
    return None if row is None else row[0]


def fetch_all(text: str, params: Params = ()) -> list[Any]:
    """Return all rows as tuples."""
    cursor = execute(text, params)
    try:
        return cursor.fetchall()
    finally:
        cursor.close()


def to_row(shape: type[R], values: Params) -> R:
    """Return the columns of a table as its type in `rows.py`, in the order of that type."""
    return cast(R, dict(zip(shape.__annotations__, values, strict=True)))


def update(text: str, params: Params = ()) -> int:
    """Run a writing statement; return the number of changed rows."""
    return execute(text, params).rowcount


def insert(rows: BulkInsert, values: Sequence[SqlRow], shared: SqlRow = ()) -> int | None:
    """Insert rows in this order; return the rowid of the last one."""
    last = None
    for text, params in rows.calls(values, shared):
        last = execute(text, params).lastrowid
    return last


def update_all(changes: BulkUpdate, values: Sequence[SqlRow], shared: SqlRow = ()) -> int:
    """Run a statement for several rows; return the number of changed rows."""
    return sum(update(text, params) for text, params in changes.calls(values, shared))


def dump_json(rows: Any) -> str:
    """Return rows as JSON, the parameter of a statement that reads `json_each(?)`."""
    return orjson.dumps(rows).decode()


def load_optional_json(text: str | None) -> Any:
    """Return the value of a JSON column that may be null."""
    return None if text is None else load_json(text)

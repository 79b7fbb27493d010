"""Bulk statements: insert, change or delete any number of rows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

ROWS_MAX = 64  # rows per statement
SqlValue = str | bytes | int | float | None
SqlRow = tuple[SqlValue, ...]


class BulkInsert:
    """An INSERT of rows, each with `own` values and some shared ones.

    `values`: the values of a row, if not its own ones followed by the shared ones; `{0}` is the first own value,
    `{last}` the last. The first own value is never null: there are statements for 1, 2, 4, ... rows only, so that each
    connection can cache them all compiled, and missing rows are filled up with nulls.
    """

    def __init__(self, into: str, own: int, shared: int = 0, values: str = "") -> None:
        self._into, self._own, self._shared = into, own, shared
        self._values = values or ("{own}, {shared}" if shared else "{own}")

    def calls(self, rows: Sequence[SqlRow], shared: SqlRow = ()) -> Iterator[tuple[str, SqlRow]]:
        """Yield the statements that insert these rows in order, each with its parameters."""
        for padded_count, values in _split_and_pad(rows, self._own):
            yield self.text(padded_count), (*shared, *values)

    @functools.cache  # noqa: B019 - instances are constants of the program
    def text(self, count: int) -> str:
        """Return the statement for `count` rows; the shared values come first."""
        shared = [f"?{index + 1}" for index in range(self._shared)]
        if count == 1:
            own = [f"?{self._shared + index + 1}" for index in range(self._own)]
            return f"{self._into} VALUES ({self._format_row(own, shared)})"
        named = [f"column{index + 1}" for index in range(self._own)]
        rows = _build_values(count, self._own, self._shared)
        return f"{self._into} SELECT {self._format_row(named, shared)} FROM ({rows}) WHERE column1 IS NOT NULL"

    def _format_row(self, own: Sequence[str], shared: Sequence[str]) -> str:
        return self._values.format(*own, own=", ".join(own), shared=", ".join(shared), last=own[-1])


class BulkUpdate:
    """A statement that changes or deletes rows, each by `own` values and some shared ones.

    `text` is the statement with `{rows}` for a table of the own values, with the columns column1, column2 and so on;
    the shared values are its first parameters. column1 identifies a row and is never null; missing rows are filled up
    with nulls, which no row equals.
    """

    def __init__(self, text: str, own: int, shared: int = 0) -> None:
        self._text, self._own, self._shared = text, own, shared

    def calls(self, rows: Sequence[SqlRow], shared: SqlRow = ()) -> Iterator[tuple[str, SqlRow]]:
        """Yield the statements that change these rows, each with its parameters."""
        for padded_count, values in _split_and_pad(rows, self._own):
            yield self.text(padded_count), (*shared, *values)

    @functools.cache  # noqa: B019 - as above
    def text(self, count: int) -> str:
        """Return the statement for `count` rows; the shared values come first."""
        return self._text.format(rows=f"({_build_values(count, self._own, self._shared)})")


def _split_and_pad(rows: Sequence[SqlRow], own: int) -> Iterator[tuple[int, SqlRow]]:
    """Yield the rows in parts with a power of two of rows, padded with nulls, as parameters."""
    for first in range(0, len(rows), ROWS_MAX):
        part = rows[first : first + ROWS_MAX]
        padded_count = 1 << (len(part) - 1).bit_length()
        yield padded_count, (*itertools.chain.from_iterable(part), *(None,) * (own * (padded_count - len(part))))


def _build_values(count: int, own: int, shared: int) -> str:
    """Return a VALUES table of `count` rows of parameters."""
    firsts = range(shared + 1, shared + 1 + count * own, own)
    rows = (", ".join(f"?{first + index}" for index in range(own)) for first in firsts)
    return "VALUES " + ", ".join(f"({row})" for row in rows)

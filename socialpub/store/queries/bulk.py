"""Rows that are written, or changed, by one statement, however many they are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

ROWS_MAX = 64  # rows of one statement
SqlValue = str | bytes | int | float | None
SqlRow = tuple[SqlValue, ...]


class BulkInsert:
    """An INSERT of rows, each with `own` values, which share some others.

    `values`: what each row writes, where that is not its own values followed by the shared ones; `{0}` is the first of
    its own, `{last}` the last. The first of a row's own values is never null: there are texts for 1, 2, 4, ... rows
    only, so that each connection keeps them all compiled, and what is over is filled with nulls.
    """

    def __init__(self, into: str, own: int, shared: int = 0, values: str = "") -> None:
        self._into, self._own, self._shared = into, own, shared
        self._values = values or ("{own}, {shared}" if shared else "{own}")

    def calls(self, rows: Sequence[SqlRow], shared: SqlRow = ()) -> Iterator[tuple[str, SqlRow]]:
        """The statements that write these rows, in their order, each with its values."""
        for room, values in _split_and_pad(rows, self._own):
            yield self.text(room), (*shared, *values)

    @functools.cache  # noqa: B019 - one for each statement of the program, which is there as long as it runs
    def text(self, count: int) -> str:
        """The statement for so many rows; the shared values come first."""
        shared = [f"?{place + 1}" for place in range(self._shared)]
        if count == 1:
            own = [f"?{self._shared + place + 1}" for place in range(self._own)]
            return f"{self._into} VALUES ({self._written(own, shared)})"
        named = [f"column{place + 1}" for place in range(self._own)]
        rows = _build_values(count, self._own, self._shared)
        return f"{self._into} SELECT {self._written(named, shared)} FROM ({rows}) WHERE column1 IS NOT NULL"

    def _written(self, own: Sequence[str], shared: Sequence[str]) -> str:
        return self._values.format(*own, own=", ".join(own), shared=", ".join(shared), last=own[-1])


class BulkUpdate:
    """A statement that changes or deletes rows, each by `own` values, which share some others.

    `text`: the statement, with `{rows}` where its own values stand as a table, whose columns are column1, column2 and
    so on; the shared values are its first parameters. column1 says which row it is: none is null, and what is over is
    filled with nulls, which no row equals.
    """

    def __init__(self, text: str, own: int, shared: int = 0) -> None:
        self._text, self._own, self._shared = text, own, shared

    def calls(self, rows: Sequence[SqlRow], shared: SqlRow = ()) -> Iterator[tuple[str, SqlRow]]:
        """The statements that change these rows, each with its values."""
        for room, values in _split_and_pad(rows, self._own):
            yield self.text(room), (*shared, *values)

    @functools.cache  # noqa: B019 - as above
    def text(self, count: int) -> str:
        """The statement for so many rows; the shared values come first."""
        return self._text.format(rows=f"({_build_values(count, self._own, self._shared)})")


def _split_and_pad(rows: Sequence[SqlRow], own: int) -> Iterator[tuple[int, SqlRow]]:
    """The rows in parts, for each of which there is a text: for how many, and their values with the nulls."""
    for first in range(0, len(rows), ROWS_MAX):
        some = rows[first : first + ROWS_MAX]
        room = 1 << (len(some) - 1).bit_length()
        yield room, (*itertools.chain.from_iterable(some), *(None,) * (own * (room - len(some))))


def _build_values(count: int, own: int, shared: int) -> str:
    """So many rows of parameters, as a table."""
    firsts = range(shared + 1, shared + 1 + count * own, own)
    rows = (", ".join(f"?{first + place}" for place in range(own)) for first in firsts)
    return "VALUES " + ", ".join(f"({row})" for row in rows)

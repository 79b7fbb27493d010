"""Rows that are written by one statement, however many they are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

MOST = 64  # rows of one statement
Value = str | bytes | int | float | None
Row = tuple[Value, ...]


class Rows:
    """An INSERT of rows, each with `own` values, which share some others.

    `values`: what each row writes, where that is not its own values followed by the shared ones; `{0}` is the first of
    its own, `{last}` the last. The first of a row's own values is never null: there are texts for 1, 2, 4, ... rows
    only, so that each connection keeps them all compiled, and what is over is filled with nulls.
    """

    def __init__(self, into: str, own: int, shared: int = 0, values: str = "") -> None:
        self._into, self._own, self._shared = into, own, shared
        self._values = values or ("{own}, {shared}" if shared else "{own}")

    def calls(self, rows: Sequence[Row], shared: Row = ()) -> Iterator[tuple[str, Row]]:
        """The statements that write these rows, in their order, each with its values."""
        for first in range(0, len(rows), MOST):
            some = rows[first : first + MOST]
            room = 1 << (len(some) - 1).bit_length()
            nothing = (None,) * (self._own * (room - len(some)))
            yield self.text(room), (*shared, *itertools.chain.from_iterable(some), *nothing)

    @functools.cache  # noqa: B019 - one for each statement of the program, which is there as long as it runs
    def text(self, count: int) -> str:
        """The statement for so many rows; the shared values come first."""
        shared = [f"?{place + 1}" for place in range(self._shared)]
        if count == 1:
            own = [f"?{self._shared + place + 1}" for place in range(self._own)]
            return f"{self._into} VALUES ({self._written(own, shared)})"
        named = [f"column{place + 1}" for place in range(self._own)]
        firsts = range(self._shared + 1, self._shared + 1 + count * self._own, self._own)
        rows = ", ".join(f"({', '.join(f'?{first + place}' for place in range(self._own))})" for first in firsts)
        return f"{self._into} SELECT {self._written(named, shared)} FROM (VALUES {rows}) WHERE column1 IS NOT NULL"

    def _written(self, own: Sequence[str], shared: Sequence[str]) -> str:
        return self._values.format(*own, own=", ".join(own), shared=", ".join(shared), last=own[-1])

"""The index of terms too short for trigrams: of one or two letters.

Posts stand on shelves, in the order of their numbers: on that of their organization, and on that of their profile and
platform. Each CHUNK of a shelf's posts is filed once, when there are so many, with the set of short terms that are in
their texts; a text never changes. A search looks at the posts of the chunks that have its term, newest first, until it
has found enough: a frequent term is in the first chunks, and a rare one in few.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from socialpub.store import sql
from socialpub.store.statements import searching

CHUNK = 128  # posts
SEGMENT = 63  # chunks: the bits of an integer without its sign
LONGEST = 2  # letters
SHELVES = 16  # that are looked at for a search; where it would be more, the organization's


Place = tuple[int, int]
"""Of a chunk: its shelf, and its place there."""
BEFORE_ALL = (0, -1)
_ABOVE_ALL = 2**63  # numbers of posts


class Chunk(NamedTuple):
    at: Place
    is_gone: bool  # all of its posts


def terms_of(folds: Iterable[str]) -> set[str]:
    """Everything of one or two letters that these texts have, each word looked at once.

    And perhaps a letter beside a space that stands in none of them: then they are looked at for nothing.
    """
    words = set[str]().union(*(fold.split(" ") for fold in folds))
    line = f" {' '.join(words)} "
    return {*line, *map(operator.concat, line, line[1:])}


# --- Filing ----------------------------------------------------------------------------------------------------------


def file(after: int, upto: int) -> None:
    """Put the posts with these numbers on their shelves; in a write."""
    for *key, numbers in sql.every(searching.ARRIVED, (after, upto)):
        shelf, chunks, still_open = sql.first(searching.OPEN_SHELF, key)
        there = sql.loads(still_open) + sorted(sql.loads(numbers))
        whole = len(there) // CHUNK
        for place in range(whole):
            _file_chunk(shelf, chunks + place, there[place * CHUNK : (place + 1) * CHUNK])
        sql.execute(searching.LEAVE_SHELF, (chunks + whole, sql.json_of(there[whole * CHUNK :]), shelf))
    sql.execute(searching.TERMS_FILED, (upto,))


def clear() -> None:
    """Empty every shelf; in a write."""
    for statement in searching.CLEAR_TERMS:
        sql.execute(statement)


def _file_chunk(shelf: int, place: int, numbers: Sequence[int]) -> None:
    newest, texts = sql.first(searching.TEXTS_OF, (sql.json_of(numbers),))
    terms = terms_of(sql.loads(texts))
    first = numbers[0]
    offsets = sql.json_of([number - first for number in numbers])
    sql.execute(searching.ADD_CHUNK, (shelf, place, first, newest, offsets))
    segment, bit = divmod(place, SEGMENT)
    sql.execute(searching.ADD_TERMS, (shelf, segment, 1 << bit, sql.json_of(sorted(terms))))


# --- Forgetting ------------------------------------------------------------------------------------------------------


def chunks_after(place: Place, count: int) -> list[Chunk]:
    """The next chunks in the order of shelf and place; in a read."""
    found = sql.every(searching.PART_OF_CHUNKS, (*place, count))
    return [Chunk((shelf, place), bool(gone)) for shelf, place, gone in found]


def forget(chunks: Iterable[Place]) -> None:
    """Delete chunks whose posts are gone, and the terms of segments that have no other; in a write."""
    for shelf, place in chunks:
        sql.execute(searching.FORGET_CHUNK, (shelf, place))
        segment = place // SEGMENT
        sql.execute(searching.FORGET_TERMS, (shelf, segment, segment * SEGMENT, (segment + 1) * SEGMENT))


# --- Finding ---------------------------------------------------------------------------------------------------------


class Shelf:
    """The chunks of one shelf that have a term and begin below a number, newest first; `numbers` are in no chunk."""

    def __init__(self, row: tuple[int, int, str], term: str, below: int) -> None:
        self.id, chunks, still_open = row
        self.numbers: list[int] = sql.loads(still_open)
        self._term = term
        end = bisect.bisect_left(range(chunks), below, key=self._first)
        self._places = self._with_term(end)
        self.newest: int | None = None  # of the last chunk that was taken
        self.is_over = False

    def take(self, count: int) -> list[tuple[int, int]]:
        """The next chunks."""
        taken = list(itertools.islice(self._places, count))
        if len(taken) < count:
            self.is_over = True
        if taken:
            self.newest = sql.value(searching.NEWEST_OF_CHUNK, (self.id, taken[-1]))
        return [(self.id, place) for place in taken]

    def _first(self, place: int) -> int:
        found: int | None = sql.value(searching.FIRST_OF_CHUNK, (self.id, place))
        return _ABOVE_ALL if found is None else found

    def _with_term(self, end: int) -> Iterator[int]:
        segments = sql.json_of(list(range((end - 1) // SEGMENT, -1, -1)))
        for segment, bits in sql.loads(sql.value(searching.SEGMENTS_WITH, (self.id, self._term, segments))):
            for bit in reversed(range(SEGMENT)):
                place = segment * SEGMENT + bit
                if bits >> bit & 1 and place < end:
                    yield place


def shelves(term: str, organization: str, profile: str | None, platforms: Sequence[str], below: int) -> Iterable[Shelf]:
    """Those on which everything of an organization, profile and platforms is, with what else is there."""
    found = []
    if profile is not None or platforms:
        names = sql.json_of(list(platforms)) if platforms else None
        found = sql.every(searching.SHELVES, (organization, profile, names, SHELVES + 1))
        if not found:
            return []
    if not found or len(found) > SHELVES:
        found = sql.every(searching.SHELF_OF_ORGANIZATION, (organization,))
    return [Shelf(row, term, below) for row in found]

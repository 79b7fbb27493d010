"""What was read once and holds for as long as nothing is committed, by this process or any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from socialpub.store.place import LostError, Place

T = TypeVar("T")


class Unchanged(Generic[T]):
    """Values by their names, all forgotten at the next commit; for one thread, and at most so much in all.

    `size`: what each takes of that, by its measure; what would take more than a tenth is not kept.
    """

    def __init__(self, place: Place, most: int, size: Callable[[T], int] = lambda value: 1) -> None:
        self._place, self._most, self._size = place, most, size
        self._commits, self._values, self._kept = b"", dict[Hashable, T](), 0

    async def get(self, name: Hashable, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """What is kept, or else what `read` gives, which is kept unless it is None.

        How far the commits were is looked at before it is read: what changes meanwhile is read again the next time.
        """
        commits = self._place.commits()
        if commits != self._commits:
            self._commits, self._values, self._kept = commits, {}, 0
        found = self._values.get(name)
        if found is None:
            found = await read()
            if found is not None and commits and commits == self._commits:
                self._keep(name, found)
        return found

    async def get_in_place(self, name: Hashable, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """The same, and nothing is told from memory once the files are lost: then `read` says what there is to say."""
        try:
            self._place.look_once()
        except LostError:
            return await read()
        return await self.get(name, read)

    def _keep(self, name: Hashable, value: T) -> None:
        size = self._size(value)
        if size <= max(1, self._most // 10) and self._kept + size <= self._most and name not in self._values:
            self._values[name], self._kept = value, self._kept + size

"""What was read once and holds for as long as nothing is committed, by this process or any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from socialpub.store.place import Place

T = TypeVar("T")


class Unchanged(Generic[T]):
    """Values by their names, all forgotten at the next commit; for one thread, and at most so many."""

    def __init__(self, place: Place, most: int) -> None:
        self._place, self._most = place, most
        self._commits, self._values = b"", dict[str, T]()

    async def get(self, name: str, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """What is kept, or else what `read` gives, which is kept unless it is None.

        How far the commits were is looked at before it is read: what changes meanwhile is read again the next time.
        """
        commits = self._place.commits()
        if commits != self._commits:
            self._commits, self._values = commits, {}
        found = self._values.get(name)
        if found is None:
            found = await read()
            if found is not None and commits and commits == self._commits and len(self._values) < self._most:
                self._values[name] = found
        return found

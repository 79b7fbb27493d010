"""What was read once, kept for as long as it holds: until the next commit, or until what rarely changes has changed."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from socialpub.store.place import LostError, Place

T = TypeVar("T")


class Unchanged(Generic[T]):
    """Values by their names, all forgotten with the next `version`, and at most so much in all. Any thread may ask.

    `version`: what is another once something was committed (`Place.commits`), by this process or any other; or once
    something that rarely changes was (`Settled.version`). Where it is nothing, nothing is kept. `size`: what each value
    takes of `most`, by its measure; what would take more than a tenth is not kept.
    """

    def __init__(self, version: Callable[[], Hashable], most: int, size: Callable[[T], int] = lambda value: 1) -> None:
        self._version_now, self._most, self._size = version, most, size
        self._version: Hashable = None
        self._values, self._kept = dict[Hashable, T](), 0
        self._keeping = threading.Lock()

    def found(self, name: Hashable) -> T | None:
        """What is kept, or None."""
        return self._of(self._version_now()).get(name)

    def keep(self, name: Hashable, value: T, version: Hashable) -> None:
        """Keep what was read after the version was asked for: what has changed meanwhile has made a new one."""
        size = self._size(value)
        with self._keeping:
            if not version or version != self._version or size > max(1, self._most // 10):
                return
            self._drop(name)
            while self._kept + size > self._most:
                self._drop(next(iter(self._values)))  # the oldest
            self._values[name], self._kept = value, self._kept + size

    def replace(self, name: Hashable, value: T) -> None:
        """What is kept under this name, if anything is, is this now, and takes as much."""
        with self._keeping:
            if name in self._values:
                self._values[name] = value

    def get_now(self, name: Hashable, read: Callable[[], T]) -> T:
        """What is kept, or else what `read` gives, which is kept."""
        version = self._version_now()
        found = self._of(version).get(name)
        if found is None:
            found = read()
            self.keep(name, found, version)
        return found

    async def get(self, name: Hashable, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """What is kept, or else what `read` gives, which is kept unless it is None."""
        version = self._version_now()
        found = self._of(version).get(name)
        if found is None:
            found = await read()
            if found is not None:
                self.keep(name, found, version)
        return found

    def _of(self, version: Hashable) -> dict[Hashable, T]:
        """What is kept of this version, which is the newest."""
        if version != self._version:
            with self._keeping:
                self._version, self._values, self._kept = version, {}, 0
        return self._values

    def _drop(self, name: Hashable) -> None:
        if (value := self._values.pop(name, None)) is not None:
            self._kept -= self._size(value)


class Answers(Unchanged[T]):
    """The same of what is read from the open files, and is told as long as they are in their place."""

    def __init__(self, place: Place, most: int, size: Callable[[T], int]) -> None:
        super().__init__(place.commits, most, size)
        self._place = place

    async def get_in_place(self, name: Hashable, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """The same, and nothing is told from memory once the files are lost: then `read` says what there is to say."""
        try:
            self._place.look_once()
        except LostError:
            return await read()
        return await self.get(name, read)

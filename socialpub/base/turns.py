"""Who is served next on the loop: some of each organization at once, the others in the order in which they came."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass
class _Queue:
    places: asyncio.Semaphore
    people: int = 0  # who have a place or wait for one


class Turns:
    """So many of one owner are let in at once. However many more there are, others' work is in nobody's queue before
    theirs. "" is nobody, who never waits."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._lines: dict[str, _Queue] = {}

    def of(self, owner: str) -> Turn:
        """A place, which is waited for and then held while the block runs."""
        return Turn(self, owner)

    def waiting(self, owner: str) -> int:
        """How many of theirs have no place yet."""
        line = self._lines.get(owner)
        return max(0, line.people - self.at_once) if line else 0


class Turn:
    """One's place in the line of an owner. A class of its own: a generator would take three times as long."""

    __slots__ = ("_line", "_owner", "_turns")

    def __init__(self, turns: Turns, owner: str) -> None:
        self._turns, self._owner = turns, owner
        self._line: _Queue | None = None

    async def __aenter__(self) -> None:
        if not self._owner:
            return
        lines = self._turns._lines
        line = lines.get(self._owner)
        if line is None:
            line = lines[self._owner] = _Queue(asyncio.Semaphore(self._turns.at_once))
        line.people += 1
        try:
            await line.places.acquire()
        except BaseException:  # who goes while he waits had no place
            self._leave(line)
            raise
        self._line = line

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.places.release()
            self._leave(self._line)

    def _leave(self, line: _Queue) -> None:
        line.people -= 1
        if not line.people:
            del self._turns._lines[self._owner]

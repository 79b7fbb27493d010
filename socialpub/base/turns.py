"""Who is served next on the loop: some of each organization at once, the others in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque


class _Queue:
    """Not a Semaphore, which is a coroutine of its own for everybody, though hardly anybody waits."""

    __slots__ = ("free", "people", "waiting")

    def __init__(self, places: int) -> None:
        self.free, self.people = places, 0  # places, and who have one or wait for one
        self.waiting: deque[asyncio.Future[None]] = deque()

    def hand_over(self) -> None:
        """A place is free: it is the next one's. Whoever has gone meanwhile is passed over."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


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
            line = lines[self._owner] = _Queue(self._turns.at_once)
        line.people += 1
        if line.free:
            line.free -= 1
        else:
            await self._wait(line)
        self._line = line

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            self._leave(self._line, has_place=True)

    async def _wait(self, line: _Queue) -> None:
        """Until somebody hands over his place."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn
        except BaseException:  # who goes while he waits had no place, or has got one as he went
            self._leave(line, has_place=not turn.cancelled())
            raise

    def _leave(self, line: _Queue, *, has_place: bool) -> None:
        line.people -= 1
        if not line.people:
            del self._turns._lines[self._owner]
        elif has_place:
            line.hand_over()

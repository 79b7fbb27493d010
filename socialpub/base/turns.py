"""Who is served next on the loop: some of each organization at once, the others in the order in which they came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
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

    @contextlib.asynccontextmanager
    async def of(self, owner: str) -> AsyncIterator[None]:
        """Wait for a place, and have it while the block runs."""
        if not owner:
            yield
            return
        line = self._lines.setdefault(owner, _Queue(asyncio.Semaphore(self.at_once)))
        line.people += 1
        try:
            async with line.places:
                yield
        finally:
            line.people -= 1
            if not line.people:
                del self._lines[owner]

    def waiting(self, owner: str) -> int:
        """How many of theirs have no place yet."""
        line = self._lines.get(owner)
        return max(0, line.people - self.at_once) if line else 0

"""Places that callers share: one owner never holds all of them, and who holds fewest is next."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator


class Shares:
    """`places` holders at a time, of whom one owner is at most all but one.

    A place that comes free goes to the owner who holds fewest, among equals to who was served longest ago; so an owner
    who asks for one place waits for one holder at most, however many others wait.
    """

    def __init__(self, places: int) -> None:
        self._free, self._most = places, max(1, places - 1)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, list[threading.Event]] = {}  # by owner, in the order of their turns

    @contextlib.contextmanager
    def hold(self, owner: str) -> Iterator[None]:
        """One place, once there is one for this owner."""
        turn = threading.Event()
        with self._lock:
            self._waiting.setdefault(owner, []).append(turn)
            self._serve()
        turn.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._held[owner] -= 1
                self._held += Counter()  # forgets owners that hold nothing
                self._serve()

    def waiting(self) -> int:
        """How many wait for a place."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _serve(self) -> None:
        while self._free and (owner := self._next()) is not None:
            turns = self._waiting.pop(owner)
            turns.pop(0).set()
            if turns:
                self._waiting[owner] = turns  # behind the others
            self._free -= 1
            self._held[owner] += 1

    def _next(self) -> str | None:
        able = [owner for owner in self._waiting if self._held[owner] < self._most]
        return min(able, key=lambda owner: self._held[owner], default=None)

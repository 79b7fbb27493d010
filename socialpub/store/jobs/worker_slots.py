"""How many jobs of each kind may be at work at once, and the bell that wakes the worker that waits for the next one."""

from __future__ import annotations

import threading
from collections import defaultdict

SLEEP_SECONDS_MAX = 5.0  # the longest sleep: a clock that was set, or a job put by a command, is noticed after it
_NO_DEADLINE = float("inf")


class WorkerSlots:
    """How many jobs of each kind may be at work at once, and how many are: no kind takes the place of another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._most: dict[str, int] = {}
        self._taken: dict[str, int] = defaultdict(int)

    def reserve(self, kind: str, most: int) -> None:
        """Reserve so many places for a kind."""
        self._most[kind] = most

    def free(self, kind: str) -> int:
        with self._lock:
            return self._most[kind] - self._taken[kind]

    def try_enter(self, kind: str) -> bool:
        with self._lock:
            if kind and self._taken[kind] >= self._most[kind]:
                return False
            self._taken[kind] += 1
            return True

    def leave(self, kind: str) -> None:
        with self._lock:
            self._taken[kind] -= 1


class WakeupEvent:
    """Wakes the worker that waits for the next due job."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._until = _NO_DEADLINE  # when whoever waits looks anyway

    def ring(self) -> None:
        self._rung.set()

    def ring_for(self, at_ms: int) -> None:
        """The same for a job that is due then: nobody is woken who looks before that anyway."""
        if at_ms < self._until:
            self._rung.set()

    def wait(self, seconds: float, until_ms: float = _NO_DEADLINE) -> None:
        """`until_ms`: what is due from then on need not ring, since it is looked for by then.

        While nobody waits every ring is kept, and whoever then begins to wait is woken at once: a job that was put
        while the last look was under way is not waited over.
        """
        self._until = until_ms
        self._rung.wait(max(0.0, seconds))
        self._until = _NO_DEADLINE
        self._rung.clear()

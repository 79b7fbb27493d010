"""Slots per job kind, and the event that wakes the worker that waits for the next due job."""

from __future__ import annotations

import threading

SLEEP_SECONDS_MAX = 5.0  # the longest sleep, after which a set clock or a job of a command is noticed
_NO_DEADLINE = float("inf")


class WorkerSlots:
    """The number of jobs of each kind that may run at once, and how many do.

    No kind takes the slots of another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._taken = {"": 0}  # by kind; "" is none

    def reserve(self, kind: str, count: int) -> None:
        """Set the number of slots of a kind."""
        self._counts[kind] = count
        self._taken.setdefault(kind, 0)

    def free(self, kind: str) -> int:
        with self._lock:
            return self._counts[kind] - self._taken[kind]

    def try_enter(self, kind: str) -> bool:
        with self._lock:
            if kind and self._taken[kind] >= self._counts[kind]:
                return False
            self._taken[kind] += 1
            return True

    def leave(self, kind: str) -> None:
        with self._lock:
            self._taken[kind] -= 1


class WakeupEvent:
    """Wakes the worker that waits for the next due job."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._until = _NO_DEADLINE  # when the waiting worker wakes up by itself

    def wake(self) -> None:
        self._event.set()

    def wake_for(self, at_ms: int) -> None:
        """Wake the worker unless it wakes up by itself before `at_ms`."""
        if at_ms < self._until:
            self._event.set()

    def wait(self, seconds: float, until_ms: float = _NO_DEADLINE) -> None:
        """Wait until woken, at most `seconds`.

        Jobs that are due at `until_ms` or later need not wake the worker. A wake-up while no worker waits is stored, so
        that a job put during the last check is not missed.
        """
        self._until = until_ms
        self._event.wait(max(0.0, seconds))
        self._until = _NO_DEADLINE
        self._event.clear()

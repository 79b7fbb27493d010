"""Serial groups: the jobs of one account run one at a time.

A group may rest for some seconds between two jobs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from socialpub.base.runtime import Clock
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX

TurnCallback = Callable[[bool], None]
"""Called with True once the group is entered, with False after a timeout. Must be short and not raise."""


class SerialGroups:
    """The busy and resting groups: one publish at a time per account.

    `on_free` is called when a group becomes free.
    """

    def __init__(self, clock: Clock, on_free: Callable[[], None] = lambda: None) -> None:
        self._clock, self._lock, self._on_free = clock, threading.Lock(), on_free
        self._waiting: dict[str, deque[tuple[float, TurnCallback]]] = {}  # (deadline, callback) in order of arrival
        self._busy: set[str] = set()
        self._rest_until: dict[str, float] = {}

    def try_enter(self, group: str, *, rested: bool = False) -> bool:
        """Enter a group and return True if it is free. `rested` ignores its rest."""
        with self._lock:
            return self._enter(group, rested=rested)

    def when_free(self, group: str, seconds: float, callback: TurnCallback) -> None:
        """Call `callback` with True once the group is entered: now, or in the leaving thread.

        Callers enter in order of arrival and ignore rests. `callback` gets False after `seconds`, at the next
        `expire_waiters`.
        """
        with self._lock:
            if not self._enter(group, rested=True):
                deadline = self._clock.monotonic() + seconds
                self._waiting.setdefault(group, deque()).append((deadline, callback))
                return
        callback(True)

    def expire_waiters(self) -> None:
        """Call back, with False, the waiters whose time is over; to be called regularly."""
        now, expired = self._clock.monotonic(), list[TurnCallback]()
        with self._lock:
            for group, waiting in list(self._waiting.items()):
                expired += [callback for deadline, callback in waiting if deadline <= now]
                rest = deque(each for each in waiting if each[0] > now)
                if rest:
                    self._waiting[group] = rest
                else:
                    del self._waiting[group]
        for callback in expired:
            callback(False)

    def _enter(self, group: str, *, rested: bool = False) -> bool:
        if not group:
            return True
        rested = rested or self._rest_until.get(group, 0) <= self._clock.monotonic()
        if group in self._busy or not rested:
            return False
        self._busy.add(group)
        return True

    def leave(self, group: str, rest_seconds: float = 0) -> None:
        """Leave a group, which may then rest; call `on_free` unless a waiter enters it."""
        if not self.give_back(group, rest_seconds):
            self._on_free()

    def give_back(self, group: str, rest_seconds: float = 0) -> bool:
        """Leave a group without calling `on_free`; return whether a waiter entered it."""
        with self._lock:
            if rest_seconds and group:
                self._rest_until[group] = self._clock.monotonic() + rest_seconds
            waiting = self._waiting.get(group)
            if waiting is None:
                self._busy.discard(group)
                return False
            _, callback = waiting.popleft()
            if not waiting:
                del self._waiting[group]
        callback(True)
        return True

    def closed(self) -> tuple[set[str], float]:
        """Return the groups that cannot be entered now, and the seconds until the next rest ends."""
        now = self._clock.monotonic()
        with self._lock:
            self._rest_until = {group: deadline for group, deadline in self._rest_until.items() if deadline > now}
            soonest = min(self._rest_until.values(), default=now + SLEEP_SECONDS_MAX)
            return self._busy | set(self._rest_until), soonest - now

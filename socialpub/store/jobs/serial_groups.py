"""Lanes: the jobs of one account run one after another, with a rest between two of them where it is asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from socialpub.base.runtime import Clock
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX

TurnCallback = Callable[[bool], None]
"""Called when the lane is the caller's, with True, or with False when that took too long; short, and must not raise."""


class SerialGroups:
    """Which lanes are in use, and which rest: one publish at a time for each account."""

    def __init__(self, clock: Clock, left: Callable[[], None] = lambda: None) -> None:
        self._clock, self._lock, self._left = clock, threading.Lock(), left
        self._waiting: dict[
            str, deque[tuple[float, TurnCallback]]
        ] = {}  # until when each waits, in the order they came in
        self._busy: set[str] = set()
        self._rest_until: dict[str, float] = {}

    def try_enter(self, lane: str, *, rested: bool = False) -> bool:
        """Whether the lane is free, and now the caller's. `rested`: as if it had rested."""
        with self._lock:
            return self._enter(lane, rested=rested)

    def when_free(self, lane: str, seconds: float, turn: TurnCallback) -> None:
        """Call `turn` with True once the lane is the caller's: at once, or in the thread of whoever leaves it.

        Whoever comes first is next, and rests are not waited for. With False after `seconds`, or a little later: when
        somebody looks (`tell_late`).
        """
        with self._lock:
            if not self._enter(lane, rested=True):
                until = self._clock.monotonic() + seconds
                self._waiting.setdefault(lane, deque()).append((until, turn))
                return
        turn(True)

    def tell_late(self) -> None:
        """Tell those who have waited for too long; to be called now and then."""
        now, late = self._clock.monotonic(), list[TurnCallback]()
        with self._lock:
            for lane, waiting in list(self._waiting.items()):
                late += [turn for until, turn in waiting if until <= now]
                rest = deque(each for each in waiting if each[0] > now)
                if rest:
                    self._waiting[lane] = rest
                else:
                    del self._waiting[lane]
        for turn in late:
            turn(False)

    def _enter(self, lane: str, *, rested: bool = False) -> bool:
        if not lane:
            return True
        rested = rested or self._rest_until.get(lane, 0) <= self._clock.monotonic()
        if lane in self._busy or not rested:
            return False
        self._busy.add(lane)
        return True

    def leave(self, lane: str, rest_seconds: float = 0) -> None:
        if not self.give_back(lane, rest_seconds):
            self._left()

    def give_back(self, lane: str, rest_seconds: float = 0) -> bool:
        """The same for who has entered in vain, and tells nobody. Whether somebody had waited: it is theirs now."""
        with self._lock:
            if rest_seconds and lane:
                self._rest_until[lane] = self._clock.monotonic() + rest_seconds
            waiting = self._waiting.get(lane)
            if waiting is None:
                self._busy.discard(lane)
                return False
            _, turn = waiting.popleft()
            if not waiting:
                del self._waiting[lane]
        turn(True)
        return True

    def closed(self) -> tuple[set[str], float]:
        """The lanes that cannot be entered now, and the seconds until the next one has rested (or a nap)."""
        now = self._clock.monotonic()
        with self._lock:
            self._rest_until = {lane: until for lane, until in self._rest_until.items() if until > now}
            soonest = min(self._rest_until.values(), default=now + SLEEP_SECONDS_MAX)
            return self._busy | set(self._rest_until), soonest - now

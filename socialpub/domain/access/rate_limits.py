"""Rate limits: sliding windows of 60 s, in memory."""

from __future__ import annotations

import math
import threading
from collections import defaultdict, deque
from typing import NamedTuple

from socialpub.base.runtime import Clock

WINDOW_SECONDS = 60


class RateLimitState(NamedTuple):
    """State of a rate limit window after this request, counted only if allowed."""

    limit: int
    remaining: int
    reset: int  # seconds until the oldest request leaves the window
    allowed: bool


class SlidingWindowLimiter:
    """In-memory sliding windows of 60 s: a durable write per GET would cost more than the GET."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._hits: dict[str, deque[float]] = defaultdict(deque)
        self._swept = clock.monotonic()

    def spend(self, name: str, limit: int, *, dry: bool = False) -> RateLimitState:
        """Count one request of `name`; `dry` only checks."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._swept >= WINDOW_SECONDS:
                self._sweep(now)
            hits = self._hits[name]
            while hits and hits[0] <= now - WINDOW_SECONDS:
                hits.popleft()
            allowed = len(hits) < limit
            if allowed and not dry:
                hits.append(now)
            oldest = hits[0] if hits else now
            left = math.ceil(oldest + WINDOW_SECONDS - now)
            reset = min(max(1, left), WINDOW_SECONDS)  # rounding up may exceed the window
            return RateLimitState(limit, max(0, limit - len(hits)), reset, allowed)

    def _sweep(self, now: float) -> None:
        self._swept = now
        stale = [name for name, hits in self._hits.items() if not hits or hits[-1] <= now - WINDOW_SECONDS]
        for name in stale:
            del self._hits[name]

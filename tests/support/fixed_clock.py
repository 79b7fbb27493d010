"""Clock that stands."""

from __future__ import annotations

from dataclasses import dataclass

NOON = 1_795_176_000_000  # 2026-11-20T12:00:00Z


@dataclass
class FixedClock:
    """A clock that stands until a test moves it."""

    ms: int = NOON

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

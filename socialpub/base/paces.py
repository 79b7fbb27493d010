"""Turns at a pace: who asks more often waits, and nobody waits for what another asks."""

from __future__ import annotations

LONGEST_SECONDS = 1.0
MOST = 1000  # whose next turn is remembered


class Paces:
    """One turn in so many seconds for each owner; for one thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next: dict[str, float] = {}

    def wait(self, owner: str, now: float) -> float:
        """The seconds until the owner's next turn, which is taken: none for who asks seldom, and never very many."""
        if len(self._next) >= MOST:
            self._next = {name: at for name, at in self._next.items() if at > now}
        at = min(max(self._next.get(owner, now), now), now + LONGEST_SECONDS)
        self._next[owner] = at + self._seconds
        return at - now


class Pace:
    """So many bytes a second, of all who keep to it together."""

    def __init__(self, speed: float) -> None:
        self._speed, self._over_at = speed, 0.0

    def wait(self, now: float, count: int) -> float:
        """The seconds after which whoever took `count` may take more."""
        self._over_at = max(self._over_at, now) + count / self._speed
        return self._over_at - now

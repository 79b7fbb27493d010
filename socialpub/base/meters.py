"""What is counted as it happens, for `/metrics`: since the start of this process.

Prometheus' own package puts it into words (`web/pages/metrics.py`). It is read only then: to count takes a list and a
lock, and the package more than a megabyte.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field


class Series:
    """One row of a meter: how often, and for values how often in each bucket, the last of which has no bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._lock = bounds, threading.Lock()
        self._counts, self._total = [0] * (len(bounds) + 1), 0.0

    def inc(self) -> None:
        """It has happened once more."""
        with self._lock:
            self._counts[-1] += 1

    def observe(self, value: float) -> None:
        """It has happened with this value."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[bucket] += 1
            self._total += value

    def read(self) -> tuple[list[int], float]:
        """What each bucket has, and the sum of all values."""
        with self._lock:
            return list(self._counts), self._total


class Meter:
    """Something that is counted, by its labels. `buckets`: the bounds of its values; none where it has no values."""

    def __init__(self, name: str, about: str, labels: Sequence[str] = (), buckets: Sequence[float] = ()) -> None:
        self.name, self.about, self.names, self.buckets = name, about, labels, buckets
        self._lock = threading.Lock()
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> Series:
        """The row of these labels."""
        found = self._series.get(values)
        if found is None:
            with self._lock:
                found = self._series.setdefault(values, Series(self.buckets))
        return found

    def observe(self, value: float) -> None:
        """It has happened with this value, where there are no labels."""
        self.labels().observe(value)

    def rows(self) -> list[tuple[tuple[str, ...], Series]]:
        """Every row, in the order in which they began."""
        with self._lock:
            return list(self._series.items())


@dataclass
class Gauge:
    """How something stands, by its labels; it is read when it is asked for."""

    name: str
    about: str
    labels: Sequence[str] = ()
    value: float | None = None  # of one without labels
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def add(self, labels: tuple[str, ...], value: float) -> None:
        self.samples.append((labels, value))


OUTCOMES = Meter("socialpub_posts", "Outcomes of posts.", ("platform", "outcome"))
UPSTREAM = Meter(
    "socialpub_upstream_seconds",
    "How long calls to a platform took, until their answer or their failure.",
    ("platform",),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
TOGETHER = Meter(
    "socialpub_commit_changes",
    "How many changes one transaction wrote.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
ALL = (OUTCOMES, UPSTREAM, TOGETHER)

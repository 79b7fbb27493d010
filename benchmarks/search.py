"""Searching through the front door: every text of the post log's measurement, one request after another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks import postlog
from benchmarks.goals import SEARCH, Result
from benchmarks.stage import Stage

TIMES, QUICK_TIMES = 5, 2


def measure(stage: Stage) -> Iterator[Result]:
    """The slowest text, in the middle of its times."""
    medians = {text: _milliseconds(stage, text) for texts in postlog.TEXTS.values() for text in texts}
    slowest = sorted(medians, key=lambda text: -medians[text])
    told = ", ".join(f"{text[:30]!r} {medians[text]:.1f} ms" for text in slowest[:4])
    yield Result(SEARCH, medians[slowest[0]], f"{told}; of {len(medians)} texts")


def _milliseconds(stage: Stage, text: str) -> float:
    took = []
    for _ in range(QUICK_TIMES if stage.quick else TIMES):
        began = time.perf_counter()
        stage.first.get("/v1/posts", q=text)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)

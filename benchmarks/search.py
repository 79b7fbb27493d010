"""Benchmark of post searches by HTTP: every text, one request after another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import httpx

from benchmarks import post_list
from benchmarks.goals import SEARCH, SHORT_SEARCH, BenchmarkGoal, BenchmarkResult
from benchmarks.servers import BenchmarkSetup

TIMES, QUICK_TIMES = 5, 2


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """The slowest text, in the middle of its times; one that is given up counts with the time until then."""
    with httpx.Client(
        base_url=stage.first.url, headers=stage.first.people.headers, trust_env=False, timeout=60
    ) as http:
        for goal, kind in ((SEARCH, "search"), (SHORT_SEARCH, "short")):
            yield _slowest(goal, {text: _asked(stage, http, text) for text in post_list.TEXTS[kind]})


def _slowest(goal: BenchmarkGoal, found: dict[str, tuple[float, int]]) -> BenchmarkResult:
    slowest = sorted(found, key=lambda text: -found[text][0])
    told = ", ".join(f"{text[:30]!r} {found[text][0]:.1f} ms" for text in slowest[:4])
    given_up = [text for text, (_, status) in found.items() if status != 200]
    note = f"; given up: {', '.join(map(repr, given_up))}" if given_up else ""
    return BenchmarkResult(goal, found[slowest[0]][0], f"{told}; of {len(found)} texts{note}")


def _asked(stage: BenchmarkSetup, http: httpx.Client, text: str) -> tuple[float, int]:
    """Milliseconds, and the worst status."""
    took, statuses = [], []
    for _ in range(QUICK_TIMES if stage.quick else TIMES):
        began = time.perf_counter()
        statuses.append(http.get("/v1/posts", params={"q": text}).status_code)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), max(statuses)

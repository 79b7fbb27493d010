"""Benchmark of steady load: memory, threads and descriptors must not grow in minutes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from benchmarks import wrk_load
from benchmarks.goals import LOADED, STEADY, BenchmarkResult
from benchmarks.processes import ProcessHoldings
from benchmarks.servers import BenchmarkSetup
from benchmarks.throughput import later, pages_of

BETWEEN_SECONDS = 1.0


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """Some list, some publish now, some for later; the first third of the time warms up, the others are compared."""
    side, seconds = stage.first, stage.steady_seconds
    key, accounts = side.people.key, side.people.accounts
    loads = (
        (wrk_load.get(pages_of(side), key), 4),
        (wrk_load.post("/v1/posts", key, accounts), 4),
        (wrk_load.post("/v1/posts", key, accounts, at=later()), 4),
    )
    samples: list[ProcessHoldings] = []
    with contextlib.ExitStack() as stack:
        for script, connections in loads:
            stack.enter_context(wrk_load.beside(script, side.url, stage.folder, seconds + 60, connections=connections))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(BETWEEN_SECONDS)
            samples.append(side.running.held())
    third = len(samples) // 3
    middle, end = samples[third : 2 * third], samples[2 * third :]
    for goal, of in zip(STEADY, _HELD, strict=True):
        before, after = (min(map(of, some)) for some in (middle, end))
        yield BenchmarkResult(goal, after - before, f"from {before:.0f} to {after:.0f}, in {seconds} s")


# The least that is there: where something is lost for good, it grows. Threads and kept connections come and go with how
# many calls happen to be under way, and stay half a minute; garbage stays until the server gives memory back, once a
# minute.
_HELD: tuple[Callable[[ProcessHoldings], float], ...] = (
    lambda held: held.mib,
    lambda held: held.threads,
    lambda held: held.descriptors,
)


def loaded(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """What is held when everything else was measured."""
    held = stage.first.running.held()
    yield BenchmarkResult(LOADED, held.mib, f"{held.threads} threads, {held.descriptors} descriptors")

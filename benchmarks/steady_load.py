"""Benchmark of steady load: memory, threads and descriptors must not grow in minutes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from benchmarks import wrk_load
from benchmarks.goals import LOADED, STEADY, BenchmarkResult
from benchmarks.processes import BenchmarkProcess, ProcessHoldings
from benchmarks.servers import BenchmarkSetup
from benchmarks.throughput import later, pages_of

BETWEEN_SECONDS = 1.0
WARM_SECONDS = 10  # of the load, for what is opened once and kept
REST_SECONDS = 100  # idle threads end after half a minute, idle connections within a minute more


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """Some list, some publish now, some for later.

    Threads and descriptors are counted at rest, before and after: under load they come and go with the calls that
    happen to be under way. Memory is compared within the load: the first third warms up, then the least of each third
    counts, since garbage stays until the server gives memory back, once a minute.
    """
    process, seconds = stage.first.running, stage.steady_seconds
    _load(stage, WARM_SECONDS)
    before = _rest(process)
    samples = _load(stage, seconds)
    after = _rest(process)
    third = len(samples) // 3
    middle, end = (min(held.mib for held in part) for part in (samples[third : 2 * third], samples[2 * third :]))
    memory, *counts = STEADY
    yield BenchmarkResult(memory, end - middle, f"from {middle:.0f} to {end:.0f}, in {seconds} s")
    for goal, first, last in zip(counts, before, after, strict=True):
        yield BenchmarkResult(goal, last - first, f"at rest {first} before and {last} after {seconds} s of load")


def _load(stage: BenchmarkSetup, seconds: int) -> list[ProcessHoldings]:
    """What the server holds under the load, once a second."""
    side = stage.first
    key, accounts = side.people.key, side.people.accounts
    loads = (
        (wrk_load.get(pages_of(side), key), 4),
        (wrk_load.post("/v1/posts", key, accounts), 4),
        (wrk_load.post("/v1/posts", key, accounts, at=later()), 4),
    )
    with contextlib.ExitStack() as stack:
        for script, connections in loads:
            stack.enter_context(wrk_load.beside(script, side.url, stage.folder, seconds + 60, connections=connections))
        return _sample(side.running, seconds)


def _rest(process: BenchmarkProcess) -> tuple[int, int]:
    """The fewest threads and descriptors that it holds while nothing is asked of it."""
    samples = _sample(process, REST_SECONDS)
    return min(held.threads for held in samples), min(held.descriptors for held in samples)


def _sample(process: BenchmarkProcess, seconds: float) -> list[ProcessHoldings]:
    """What it holds, once a second for so long."""
    samples: list[ProcessHoldings] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(BETWEEN_SECONDS)
        samples.append(process.held())
    return samples


def loaded(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """What is held when everything else was measured."""
    held = stage.first.running.held()
    yield BenchmarkResult(LOADED, held.mib, f"{held.threads} threads, {held.descriptors} descriptors")

"""Benchmark of due posts: delay until the platform has them, by its own clock."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import load_client, wrk_load
from benchmarks.goals import GOALS, BenchmarkResult
from benchmarks.processes import BenchError
from benchmarks.servers import BenchmarkSetup
from benchmarks.throughput import later, pages_of
from benchmarks.wrk_load import CONNECTIONS
from socialpub.base.runtime import format_iso

PATIENCE_SECONDS = 180.0
ROUNDS, QUICK_ROUNDS = 3, 1
PROBE = 64
SETTLE_SECONDS = 3.0  # from the last acceptance to the moment
_numbers = itertools.count(1)


@dataclass(frozen=True)
class DueWave:
    """So many posts, of as many accounts, at a platform that takes its time."""

    count: int
    upstream_ms: int = 0
    listing: bool = False  # while others read


@dataclass(frozen=True)
class WaveResult:
    """What came of one wave: seconds."""

    late: list[float]  # in rising order
    accepted: float

    def p99(self) -> float:
        return self.late[math.ceil(0.99 * len(self.late)) - 1]

    def last(self) -> float:
        return self.late[-1]


WAVES = {
    "due_200": DueWave(200),
    "due_1000": DueWave(1000, upstream_ms=2000),
    "due_100": DueWave(100, upstream_ms=150),
    "due_50_listing": DueWave(50, listing=True),
}


def measure(stage: BenchmarkSetup, name: str, wave: DueWave) -> Iterator[BenchmarkResult]:
    """What this wave has rows for, in the middle of its rounds."""
    rounds = QUICK_ROUNDS if stage.quick else ROUNDS
    seen = [_wave(stage, wave) for _ in range(rounds)]
    value = statistics.median(one.p99() if name == "due_200" else one.last() for one in seen)
    half = statistics.median(one.late[len(one.late) // 2] for one in seen)
    yield BenchmarkResult(GOALS[name], value, f"half of them after {half:.2f} s; {rounds} rounds")
    if name == "due_1000":
        yield BenchmarkResult(GOALS["due_1000_accepted"], statistics.median(one.accepted for one in seen))


def _wave(stage: BenchmarkSetup, wave: DueWave) -> WaveResult:
    side, label = stage.first, f"Wave {next(_numbers)}"
    stage.simulator.configure(latencyMs=wave.upstream_ms)
    lead = _lead(stage, wave.count)
    at = time.time_ns() // 1_000_000 + int(lead * 1000)
    accepted = load_client.post_all(
        side.port, side.crowd, _bodies(stage, label, wave.count, format_iso(at)), CONNECTIONS
    )
    reading = wrk_load.beside(
        wrk_load.get(pages_of(side), side.people.key), side.url, stage.folder, int(PATIENCE_SECONDS)
    )
    with reading if wave.listing else contextlib.nullcontext():
        out = _out(stage, label, wave.count, at / 1000 + PATIENCE_SECONDS)
    stage.simulator.configure(latencyMs=0)
    return WaveResult(sorted((ms - at) / 1000 for ms in out), accepted)


def _lead(stage: BenchmarkSetup, count: int) -> float:
    """Seconds in which so many are surely accepted, told from some that are due next month."""
    took = load_client.post_all(
        stage.first.port, stage.first.crowd, _bodies(stage, "Probe", PROBE, later()), CONNECTIONS
    )
    return 2 * took / PROBE * count + SETTLE_SECONDS


def _bodies(stage: BenchmarkSetup, label: str, count: int, at: str) -> list[dict[str, Any]]:
    return [
        {"text": f"{label}: {number} of {count}", "targets": [{"accountId": account}], "scheduledAt": at}
        for number, account in enumerate(stage.first.crowd.accounts[:count])
    ]


def _out(stage: BenchmarkSetup, label: str, count: int, until: float) -> list[int]:
    """When each was out; BenchError when some are not in time."""
    found: list[int] = []
    with stage.simulator.published.open() as lines:
        while len(found) < count:
            if time.time() > until:
                raise BenchError(f"Of {count} posts that were due {len(found)} are out.")
            if not (told := lines.readline()):
                time.sleep(0.05)
            elif told.endswith("\n") and (entry := json.loads(told))["text"].startswith(f"{label}:"):
                found.append(entry["at_ms"])
    return found

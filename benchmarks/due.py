"""Posts that are due at once: how late the platform had them, by the platform's own clock."""

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

from benchmarks import client, load
from benchmarks.goals import GOALS, Result
from benchmarks.load import CONNECTIONS
from benchmarks.machine import BenchError
from benchmarks.shares import later, pages_of
from benchmarks.stage import Stage
from socialpub.base.runtime import format_iso

PATIENCE_SECONDS = 180.0
ROUNDS, QUICK_ROUNDS = 3, 1
PROBE = 64
SETTLE_SECONDS = 3.0  # from the last acceptance to the moment
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Wave:
    """So many posts, of as many accounts, at a platform that takes its time."""

    count: int
    upstream_ms: int = 0
    listing: bool = False  # while others read


@dataclass(frozen=True)
class Seen:
    """What came of one wave: seconds."""

    late: list[float]  # in rising order
    accepted: float

    def p99(self) -> float:
        return self.late[math.ceil(0.99 * len(self.late)) - 1]

    def last(self) -> float:
        return self.late[-1]


WAVES = {
    "due_200": Wave(200),
    "due_1000": Wave(1000, upstream_ms=2000),
    "due_100": Wave(100, upstream_ms=150),
    "due_50_listing": Wave(50, listing=True),
}


def measure(stage: Stage, name: str, wave: Wave) -> Iterator[Result]:
    """What this wave has rows for, in the middle of its rounds."""
    rounds = QUICK_ROUNDS if stage.quick else ROUNDS
    seen = [_wave(stage, wave) for _ in range(rounds)]
    value = statistics.median(one.p99() if name == "due_200" else one.last() for one in seen)
    half = statistics.median(one.late[len(one.late) // 2] for one in seen)
    yield Result(GOALS[name], value, f"half of them after {half:.2f} s; {rounds} rounds")
    if name == "due_1000":
        yield Result(GOALS["due_1000_accepted"], statistics.median(one.accepted for one in seen))


def _wave(stage: Stage, wave: Wave) -> Seen:
    side, label = stage.first, f"Wave {next(_numbers)}"
    stage.simulator.configure(latencyMs=wave.upstream_ms)
    lead = _lead(stage, wave.count)
    at = time.time_ns() // 1_000_000 + int(lead * 1000)
    accepted = client.post_all(side.port, side.crowd, _bodies(stage, label, wave.count, format_iso(at)), CONNECTIONS)
    reading = load.beside(load.get(pages_of(side), side.people.key), side.url, stage.folder, int(PATIENCE_SECONDS))
    with reading if wave.listing else contextlib.nullcontext():
        out = _out(stage, label, wave.count, at / 1000 + PATIENCE_SECONDS)
    stage.simulator.configure(latencyMs=0)
    return Seen(sorted((ms - at) / 1000 for ms in out), accepted)


def _lead(stage: Stage, count: int) -> float:
    """Seconds in which so many are surely accepted, told from some that are due next month."""
    took = client.post_all(stage.first.port, stage.first.crowd, _bodies(stage, "Probe", PROBE, later()), CONNECTIONS)
    return 2 * took / PROBE * count + SETTLE_SECONDS


def _bodies(stage: Stage, label: str, count: int, at: str) -> list[dict[str, Any]]:
    return [
        {"text": f"{label}: {number} of {count}", "targets": [{"accountId": account}], "scheduledAt": at}
        for number, account in enumerate(stage.first.crowd.accounts[:count])
    ]


def _out(stage: Stage, label: str, count: int, until: float) -> list[int]:
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

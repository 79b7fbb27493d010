"""Benchmark on a slow disk: posts accepted at the same time share its syncs."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks import raw_sqlite, throughput, wrk_load
from benchmarks.goals import FSYNC, BenchmarkResult
from benchmarks.processes import BenchError
from benchmarks.servers import BenchmarkSetup


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """By turns: sqlite3 alone with one transaction a request, and socialpub, both on that disk."""
    side, slow = stage.empty or stage.first, {"LD_PRELOAD": str(_shim(stage.folder))}
    script = throughput.WORK["post_scheduled"].script
    ratios, rates, singles = [], [], []
    side.stop()
    side.start(**slow)
    for _ in range(stage.rounds):
        single = raw_sqlite.rate(side, stage.folder, stage.seconds, targets=1, environment=slow)
        done = wrk_load.run(script(side), side.url, side.running, stage.folder, stage.seconds)
        ratios.append(done.rate / single)
        rates.append(done.rate)
        singles.append(single)
    one = wrk_load.run(script(side), side.url, side.running, stage.folder, stage.seconds, connections=1)
    side.stop()
    side.start()
    told = (
        f"{statistics.median(rates):,.0f}/s beside {statistics.median(singles):,.0f}/s of sqlite3 alone;"
        f" one connection {one.rate:,.0f}/s"
    )
    yield BenchmarkResult(FSYNC, statistics.median(ratios), told)


def _shim(folder: Path) -> Path:
    """The preloaded library; BenchError where there is no compiler."""
    if shutil.which("gcc") is None:
        raise BenchError("The slow disk is made with gcc, which is not installed: apt install gcc")
    made = folder / "slow_disk.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", made, source], check=True)
    return made

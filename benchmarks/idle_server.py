"""Benchmark of an idle server: start time, memory, CPU and reads; program and file sizes."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import dataset
from benchmarks.goals import BINARY, IDLE, LINES, SIZE, START, BenchmarkResult
from benchmarks.processes import BenchmarkProcess, free_ports
from benchmarks.servers import BenchmarkSetup, CheckoutServer

SETTLE_SECONDS, QUICK_SETTLE_SECONDS = 20, 3
IDLE_SECONDS, QUICK_IDLE_SECONDS = 75, 15  # sweeps go every minute
STARTS, QUICK_STARTS = 3, 1
CALM_SECONDS, CALM_BYTES = 120, 1_000_000
CALM_LOOKS = 5  # one after the other: the look at the file begins when it is its turn, and may come to a stop


def size(rows: int, home: Path) -> Iterator[BenchmarkResult]:
    """Of the database as it was filled, before anything was measured."""
    taken, posts = (home / "socialpub.db").stat().st_size, dataset.total(rows)
    yield BenchmarkResult(SIZE, taken / posts, f"{taken / 1e6:,.0f} MB for {posts:,} posts")


def lines(checkout: Path) -> Iterator[BenchmarkResult]:
    """Of every Python file of the program, without the simulator; with comments and empty lines, as `wc -l` counts."""
    yield BenchmarkResult(
        LINES, lines_of(checkout), f"migrations: {_lines(checkout / 'migrations')}; tests: {_lines(checkout / 'tests')}"
    )


def lines_of(checkout: Path) -> int:
    return _lines(checkout / "socialpub") - _lines(checkout / "socialpub" / "simulator")


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))


def starts(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """It has to run, and runs afterwards."""
    found: dict[str, list[float]] = {"after a stop": [], "after a kill": [], "with a cold file": []}
    side = stage.first
    for _ in range(QUICK_STARTS if stage.quick else STARTS):
        side.stop()
        side.start()
        found["after a stop"].append(side.started)
        side.running.kill()
        side.start()
        found["after a kill"].append(side.started)
        side.stop()
        _evict(side)
        side.start()
        found["with a cold file"].append(side.started)
    middles = {name: statistics.median(times) for name, times in found.items()}
    told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in middles.items())
    if stage.empty is not None:
        told += f"; {stage.empty.name} {stage.empty.started:.2f} s"
    yield BenchmarkResult(START, max(middles.values()), told)


def binary(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """Built for this, and run on an empty folder: what it unpacks is most of its start."""
    side, folder = stage.first, stage.folder / "binary"
    folder.mkdir()
    builder, spec = Path(side.python).with_name("pyinstaller"), side.checkout / ".ci" / "binary.spec"
    where: list[str | Path] = ["--distpath", folder, "--workpath", folder / "work"]
    subprocess.run([builder, "--noconfirm", "--log-level", "ERROR", *where, spec], check=True, cwd=folder)
    times = [_started(folder, side) for _ in range(QUICK_STARTS if stage.quick else STARTS)]
    size = (folder / "socialpub").stat().st_size / 1e6
    yield BenchmarkResult(BINARY, max(times), f"median {statistics.median(times):.2f} s, {size:.0f} MB")


def _started(folder: Path, side: CheckoutServer) -> float:
    port = free_ports(1)
    command = [str(folder / "socialpub"), "serve", "--port", str(port)]
    process = BenchmarkProcess(
        command, folder, folder / "binary.log", {"XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)}
    )
    try:
        return process.wait_listening(port)
    finally:
        process.stop()


def _evict(side: CheckoutServer) -> None:
    """Nothing of the database is in memory."""
    for file in side.folder.glob("socialpub.db*"):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _calm(process: BenchmarkProcess) -> None:
    """Until it has looked at its file, which it does when that was copied, or it does not end."""
    until, calm = time.monotonic() + CALM_SECONDS, 0
    while time.monotonic() < until and calm < CALM_LOOKS:
        before = process.usage()
        time.sleep(1)
        calm = calm + 1 if (process.usage() - before).read < CALM_BYTES else 0


def idle(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """A server that was started after a stop, with its own work for every minute."""
    memory, cpu, read = IDLE
    _calm(stage.first.running)
    stage.first.stop()
    process = stage.first.start()
    time.sleep(QUICK_SETTLE_SECONDS if stage.quick else SETTLE_SECONDS)
    before, began = process.usage(), time.monotonic()
    time.sleep(QUICK_IDLE_SECONDS if stage.quick else IDLE_SECONDS)
    used, took = process.usage() - before, time.monotonic() - began
    held = process.held()
    told = f"{held.threads} threads, {held.descriptors} descriptors"
    if stage.empty is not None:
        told += f"; {stage.empty.name} {stage.empty.running.held().mib:.0f} MiB"
    yield BenchmarkResult(memory, held.mib, told)
    yield BenchmarkResult(cpu, used.cpu_ms / took / 10, f"{used.switches / took:.1f} switches a second")
    told = f"{used.reads / took * 60:.0f} reads a minute, {used.from_disk / took * 60 / 1e6:.2f} MB of it from the disk"
    yield BenchmarkResult(read, used.read / took * 60 / 1e6, told)

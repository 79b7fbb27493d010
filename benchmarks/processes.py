"""Child processes of a benchmark, and their CPU time and memory by the kernel."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 60.0


class BenchError(Exception):
    """Why nothing can be measured, as a sentence."""


@dataclass(frozen=True)
class ProcessUsage:
    """What a process has used since its start, with its threads."""

    cpu_ms: float
    switches: int  # voluntary: it waited for something
    read: int  # bytes that it asked the kernel for, from files and sockets
    from_disk: int  # of them, bytes that were on no page in memory
    reads: int  # calls

    def __sub__(self, before: ProcessUsage) -> ProcessUsage:
        return ProcessUsage(
            self.cpu_ms - before.cpu_ms,
            self.switches - before.switches,
            self.read - before.read,
            self.from_disk - before.from_disk,
            self.reads - before.reads,
        )


@dataclass(frozen=True)
class ProcessHoldings:
    """What a process holds now."""

    mib: float  # resident
    threads: int
    descriptors: int


def usage(pid: int) -> ProcessUsage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            switches += _number(status, "voluntary_ctxt_switches:")
    io = Path(f"/proc/{pid}/io")
    cpu = (int(fields[11]) + int(fields[12])) * 1000 / TICKS
    return ProcessUsage(cpu, switches, _number(io, "rchar:"), _number(io, "read_bytes:"), _number(io, "syscr:"))


def held(pid: int) -> ProcessHoldings:
    status = Path(f"/proc/{pid}/status")
    return ProcessHoldings(
        _number(status, "VmRSS:") / 1024, _number(status, "Threads:"), len(os.listdir(f"/proc/{pid}/fd"))
    )


def _number(file: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(name))


def free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the kernel gives to whoever asks for any."""
    for _ in range(100):
        first = random.randrange(10_000, 32_000)
        if all(_is_free(first + number) for number in range(count)):
            return first
    raise BenchError(f"There are no {count} free ports in a row on 127.0.0.1.")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class BenchmarkProcess:
    """A process that is stopped at the end; what it says goes into a file."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log, self._began = log, time.monotonic()
        with log.open("ab") as into:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=into,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_listening(self, port: int, seconds: float = 300) -> float:
        """The seconds from its start until it takes connections; BenchError when it never does."""
        while self._is_expected(seconds):
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                time.sleep(0.002)
            else:
                return time.monotonic() - self._began
        raise self._never_came()

    def wait_told(self, begins: str, seconds: float = 300) -> str:
        """The line that begins so, once it has said it; BenchError when it never does."""
        while self._is_expected(seconds):
            for line in self.log.read_text().splitlines(keepends=True):
                if line.startswith(begins) and line.endswith("\n"):
                    return line
            time.sleep(0.002)
        raise self._never_came()

    def _is_expected(self, seconds: float) -> bool:
        return self._process.poll() is None and time.monotonic() < self._began + seconds

    def _never_came(self) -> BenchError:
        return BenchError(f"A process did not start; it said: {self.log.read_text()[-2000:]}")

    def usage(self) -> ProcessUsage:
        return usage(self.pid)

    def held(self) -> ProcessHoldings:
        return held(self.pid)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

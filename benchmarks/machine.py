"""What the kernel tells of a process, and processes of our own."""

from __future__ import annotations

import contextlib
import os
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
class Usage:
    """What a process has used since its start, with its threads."""

    cpu_ms: float
    switches: int  # voluntary: it waited for something

    def __sub__(self, before: Usage) -> Usage:
        return Usage(self.cpu_ms - before.cpu_ms, self.switches - before.switches)


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            switches += _line(status, "voluntary_ctxt_switches:")
    return Usage((int(fields[11]) + int(fields[12])) * 1000 / TICKS, switches)


def _line(file: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(name))


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            first = int(probe.getsockname()[1])
        if first + count < 65_536 and all(_is_free(first + number) for number in range(count)):
            return first
    raise BenchError(f"There are no {count} free ports in a row on 127.0.0.1.")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class Process:
    """A process that is stopped at the end; what it says goes into a file."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
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

    def wait_listening(self, port: int, seconds: float = 300) -> None:
        """Until it takes connections; BenchError when it ends before, or does not in time."""
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                time.sleep(0.002)
            else:
                return
        raise BenchError(f"A process did not start; it said: {self.log.read_text()[-2000:]}")

    def usage(self) -> Usage:
        return usage(self.pid)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

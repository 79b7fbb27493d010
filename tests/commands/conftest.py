"""Running commands: in this process, and as a process of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from socialpub.commands import cli
from socialpub.simulator.server import SimulatorThread
from tests import formers
from tests.commands import forks


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return self.json["error"]


Run = Callable[..., Ended]
Popen = subprocess.Popen[str] | forks.Forked
Begin = Callable[..., Popen]
NEW = "made a new database at "
TRAIL = " INFO socialpub.commands "


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def later(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The commands are those of a later version, which has more migrations (`tests/formers.py`)."""
    with formers.only(formers.newest(), tmp_path_factory.mktemp("later")):
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: `run("org", "create", "Acme", stdin="…")`."""

    def run_one(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        try:
            code = cli.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ended(code, *capsys.readouterr())

    return run_one


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """The JSON that a command prints when all is well."""

    def ask_one(*arguments: str, stdin: str = "") -> Any:
        ended = run("--json", *arguments, stdin=stdin)
        told = [line for line in ended.err.splitlines() if TRAIL not in line and NEW not in line]
        assert (ended.code, told) == (0, [])
        return ended.json

    return ask_one


@dataclass
class Process:
    """A command that runs; `line` reads what it says next on standard output or standard error."""

    popen: Popen

    def line(self, stream: str = "stdout") -> str:
        return str(getattr(self.popen, stream).readline())

    def until(self, text: str) -> str:
        """The line on standard error that holds `text`."""
        said = []
        for line in iter(lambda: self.line("stderr"), ""):
            if text in line:
                return line
            said.append(line)
        raise AssertionError(f"it ended with {self.popen.wait()} and never said {text!r}, but: {''.join(said[-5:])}")

    def told(self, last: str) -> str:
        """What it says on standard output, up to the line that begins with `last`."""
        lines = [""]
        while not lines[-1].startswith(last):
            lines.append(self.line())
            assert lines[-1], f"it ended with {self.popen.wait()} and said {lines}"
        return "".join(lines)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(timeout=60)


@contextlib.contextmanager
def starting(folder: Path, begin: Begin = forks.fork) -> Iterator[Callable[..., Process]]:
    """Commands that are started in a directory as processes of their own; killed at the end."""
    started: list[Popen] = []

    def start_one(*arguments: str) -> Process:
        started.append(begin(arguments, folder, environment()))
        return Process(started[-1])

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Process]]:
    """Start a command as a process of its own; killed when the test ends."""
    with starting(folder) as start_one:
        yield start_one


@pytest.fixture
def start_python(folder: Path) -> Iterator[Callable[..., Process]]:
    """The same as its user does it: in a new interpreter, which imports the program."""
    with starting(folder, forks.python) as start_one:
        yield start_one


def environment() -> dict[str, str]:
    """This environment, with the checkout importable from any directory."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": root, "PYTHONUNBUFFERED": "1"}


def execute(*arguments: str, cwd: Path, begin: Begin = forks.fork) -> Ended:
    """Run a command as a process to its end."""
    process = begin(arguments, cwd, environment())
    hanging = threading.Timer(60, process.kill)
    hanging.start()
    out, err = process.communicate()
    hanging.cancel()
    return Ended(process.wait(), out, err)


@pytest.fixture
def simulator(folder: Path) -> Iterator[SimulatorThread]:
    """A simulator, with `socialpub.toml` in the directory pointing to it."""
    with SimulatorThread() as thread:
        (folder / "socialpub.toml").write_text(
            f'[security]\nallow_private_networks = true\n[platforms.bluesky]\napi_base = "{thread.origin("bluesky")}"\n'
        )
        yield thread

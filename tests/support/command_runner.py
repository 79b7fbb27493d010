"""Runner of CLI commands, in this process or as subprocesses, with their results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support import forked_commands, interruption


@dataclass(frozen=True)
class CommandResult:
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


RunCommand = Callable[..., CommandResult]


Popen = subprocess.Popen[str] | forked_commands.ForkedCommand


StartProcess = Callable[..., Popen]


NEW_DATABASE = "created a new database at "


LOG_PREFIX = " INFO socialpub.commands "


@dataclass
class CommandProcess:
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

    def interrupt(self) -> int:
        """Press Ctrl-C until it ends; its exit code."""
        return interruption.interrupt(lambda: self.popen.send_signal(signal.SIGINT), self.popen.wait)


@contextlib.contextmanager
def running_commands(
    folder: Path, begin: StartProcess = forked_commands.start_fork
) -> Iterator[Callable[..., CommandProcess]]:
    """Commands that are started in a directory as processes of their own; killed at the end."""
    started: list[Popen] = []

    def start_one(*arguments: str) -> CommandProcess:
        started.append(begin(arguments, folder, command_environment()))
        return CommandProcess(started[-1])

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def command_environment() -> dict[str, str]:
    """This environment, with the checkout importable from any directory."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": root, "PYTHONUNBUFFERED": "1"}


def run_command(*arguments: str, cwd: Path, begin: StartProcess = forked_commands.start_fork) -> CommandResult:
    """Run a command as a process to its end."""
    process = begin(arguments, cwd, command_environment())
    hanging = threading.Timer(60, process.kill)
    hanging.start()
    out, err = process.communicate()
    hanging.cancel()
    return CommandResult(process.wait(), out, err)


AskCommand = Callable[..., Any]


TOKENS = {"accessToken": "access-token-do-not-show", "refreshToken": "refresh-token-do-not-show"}


def read_address(process: CommandProcess) -> str:
    """Where a server says that it serves."""
    return process.until("socialpub serves ").split()[-1]


def make_client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)

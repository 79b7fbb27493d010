"""Fixtures that run commands: in this process, and as separate processes."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from socialpub.commands import cli, command_table
from socialpub.simulator.server import SimulatorThread
from socialpub_client.commands import command_table as client_table
from tests.support import earlier_databases, forked_commands
from tests.support.command_runner import (
    LOG_PREFIX,
    NEW_DATABASE,
    CommandProcess,
    CommandResult,
    RunCommand,
    running_commands,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def later(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The commands are those of a later version, which has more migrations (`tests/support/earlier_databases.py`)."""
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), tmp_path_factory.mktemp("later")):
        yield


@functools.cache
def build_root() -> click.Group:
    """All commands, which take a third as long to make as most of them to run."""
    return command_table.build_root()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Run a command in this process: `run("org", "create", "Acme", stdin="…")`."""
    root = build_root()
    monkeypatch.setattr(cli, "build_command_set", lambda: None)
    monkeypatch.setattr(client_table, "build_root", lambda _: root)

    def run_one(*arguments: str, stdin: str = "") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        try:
            code = cli.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return run_one


@pytest.fixture
def ask(run: RunCommand) -> Callable[..., Any]:
    """The JSON that a command prints when all is well."""

    def ask_one(*arguments: str, stdin: str = "") -> Any:
        ended = run("--json", *arguments, stdin=stdin)
        told = [line for line in ended.err.splitlines() if LOG_PREFIX not in line and NEW_DATABASE not in line]
        assert (ended.code, told) == (0, [])
        return ended.json

    return ask_one


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., CommandProcess]]:
    """Start a command as a process of its own; killed when the test ends."""
    with running_commands(folder) as start_one:
        yield start_one


@pytest.fixture
def start_python(folder: Path) -> Iterator[Callable[..., CommandProcess]]:
    """The same as its user does it: in a new interpreter, which imports the program."""
    with running_commands(folder, forked_commands.start_python) as start_one:
        yield start_one


@pytest.fixture
def simulator(folder: Path) -> Iterator[SimulatorThread]:
    """A simulator, with `socialpub.toml` in the directory pointing to it."""
    with SimulatorThread() as thread:
        (folder / "socialpub.toml").write_text(
            f'[security]\nallow_private_networks = true\n[platforms.bluesky]\napi_base = "{thread.origin("bluesky")}"\n'
        )
        yield thread

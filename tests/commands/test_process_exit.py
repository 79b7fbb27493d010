"""Processes exit cleanly while their threads are running."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import forked_commands
from tests.support.command_runner import CommandProcess, Popen, read_address, running_commands

EXAMPLE = Path(__file__).parents[2] / "socialpub.toml.example"
# Python's own end is seen by an exit code of its own.
BESIDE = {
    "idle": "import atexit, os; atexit.register(os._exit, 99)",
    "busy": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "reading": """
import ssl, threading
def read():
    while True:
        ssl.create_default_context()
threading.Thread(target=read, daemon=True).start()
""",
}


@pytest.fixture
def begin(folder: Path) -> Iterator[Callable[..., CommandProcess]]:
    """Start a command: what runs beside it, and its words."""

    def start_beside(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Popen:
        beside, *arguments = words
        before = f"{BESIDE['idle']}\n{BESIDE[beside]}"
        return forked_commands.start_fork(arguments, cwd, {**env, "TESTS_BEFORE": before})

    with running_commands(folder, start_beside) as start:
        yield start


@pytest.mark.parametrize(("beside", "code"), [("busy", 0), ("reading", 0), ("idle", 99)])
def test_command_beside_a_thread_flushes_output_and_skips_finalization(
    begin: Callable[..., CommandProcess], beside: str, code: int
) -> None:
    command = begin(beside, "config", "example").popen
    assert command.communicate()[0] == EXAMPLE.read_text()
    assert command.wait() == code


def test_beside_a_thread_a_command_that_is_refused_keeps_its_code(begin: Callable[..., CommandProcess]) -> None:
    command = begin("busy", "nonsense").popen
    assert "nonsense" in command.communicate()[1]
    assert command.wait() == 2


def test_a_server_stops_well_while_a_thread_reads_certificates(begin: Callable[..., CommandProcess]) -> None:
    """As the one does that asks platforms for the time: every second such stop was a crash."""
    server = begin("reading", "serve", "--port", "0")
    read_address(server)
    assert server.stop(signal.SIGTERM) == 0

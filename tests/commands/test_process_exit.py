"""Processes exit cleanly while their threads are running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import forked_commands
from tests.support.command_runner import CommandProcess, Popen, command_environment, read_address, running_commands

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "read"), [("| true", 0), (">/dev/full", 1), (">&-", 0)], ids=["closed pipe", "full disk", "closed"]
)
def test_every_command_ends_without_input_and_output(folder: Path, output: str, read: int) -> None:
    """It shows no traceback, and what was done decides the code."""
    lines = {
        "org create Acme": 0,
        "org list": read,
        "org list --json": read,
        "config example": read,
        "export - --csv": read,
        "doctor --offline": 1,  # no server runs
        "org show nobody --json": 3,
        "account add --platform bluesky --platform-account-id did:plc:x": 3,
        "user create --email a@example.com --role owner": 2,
        "backup b.zip": 0,
        "keys rotate": 0,
        "resume": 0,
    }
    for line, code in lines.items():
        script = f"{{ {sys.executable} -m socialpub {line}; echo $? >code; }} <&- {output}"
        ended = subprocess.run(["bash", "-c", script], env=command_environment(), capture_output=True, text=True)
        assert "Traceback" not in ended.stderr, (line, ended.stderr)
        assert "Exception ignored" not in ended.stderr, (line, ended.stderr)
        assert int((folder / "code").read_text()) == code, (line, ended.stderr)


@pytest.mark.slow
def test_commands_run_without_standard_error(folder: Path) -> None:
    """What belongs there is not printed on standard output instead."""
    lines = {"org create Acme --json": 0, "org delete Acme --json": 3, "backup b.zip": 0, "import posts.ndjson": 1}
    (folder / "posts.ndjson").write_text('{"text": "nobody\'s"}\n')
    for line, code in lines.items():
        script = f"{sys.executable} -m socialpub {line} 2>&-"
        ended = subprocess.run(["bash", "-c", script], env=command_environment(), capture_output=True, text=True)
        assert ended.returncode == code, (line, ended.stdout)
        assert "--json" not in line or json.loads(ended.stdout)


@pytest.mark.slow
def test_names_are_printed_in_a_locale_that_has_no_letters_for_them(folder: Path) -> None:
    line = [sys.executable, "-m", "socialpub", "org", "create", "Café ☕", "--json"]
    ended = subprocess.run(line, env=command_environment() | {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert (ended.returncode, json.loads(ended.stdout)["name"]) == (0, "Café ☕"), ended.stderr


def test_a_server_stops_well_while_a_thread_reads_certificates(begin: Callable[..., CommandProcess]) -> None:
    """As the one does that asks platforms for the time: every second such stop was a crash."""
    server = begin("reading", "serve", "--port", "0")
    read_address(server)
    assert server.stop(signal.SIGTERM) == 0

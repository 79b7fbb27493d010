"""Processes exit cleanly while their threads are running."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_runner import CommandProcess, command_environment, read_address

EXAMPLE = Path(__file__).parents[2] / "socialpub.toml.example"
# Python's own end is seen by an exit code of its own.
BESIDE = """
import atexit, os, ssl, sys, threading
from socialpub.commands import cli
def read():
    while True:
        ssl.create_default_context()
atexit.register(os._exit, 99)
works = {"idle": None, "busy": threading.Event().wait, "reading": read}[sys.argv.pop(1)]
if works:
    threading.Thread(target=works, daemon=True).start()
cli.program()
"""


def begun(folder: Path, beside: str, *words: str) -> CommandProcess:
    return CommandProcess(
        subprocess.Popen(
            [sys.executable, "-c", BESIDE, beside, *words],
            cwd=folder,
            env=command_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


@pytest.mark.parametrize(("beside", "code"), [("busy", 0), ("reading", 0), ("idle", 99)])
def test_command_beside_a_thread_flushes_output_and_skips_finalization(beside: str, code: int, folder: Path) -> None:
    with begun(folder, beside, "config", "example").popen as command:
        said, _ = command.communicate()
    assert (command.returncode, said) == (code, EXAMPLE.read_text())


def test_beside_a_thread_a_command_that_is_refused_keeps_its_code(folder: Path) -> None:
    with begun(folder, "busy", "nonsense").popen as command:
        assert "nonsense" in command.communicate()[1]
    assert command.returncode == 2


def test_a_server_stops_well_while_a_thread_reads_certificates(folder: Path) -> None:
    """As the one does that asks platforms for the time: every second such stop was a crash."""
    server = begun(folder, "reading", "serve", "--port", "0")
    with server.popen, contextlib.ExitStack() as stack:
        stack.callback(server.popen.kill)
        read_address(server)
        assert server.stop(signal.SIGTERM) == 0

"""CLI commands at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tests.support.command_runner import command_environment


@contextmanager
def start_at_terminal(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO]]:
    """A command whose standard input and error are a terminal: the process and the terminal's other end."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "socialpub", *arguments]
    streams = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": theirs}
    process = subprocess.Popen(command, cwd=cwd, env=command_environment(), start_new_session=True, **streams)
    os.close(theirs)
    with process, os.fdopen(ours, "r+b", buffering=0) as terminal:
        yield process, terminal
        process.kill()


def read_terminal_until(terminal: BinaryIO, words: str) -> str:
    seen = b""
    while words.encode() not in seen:
        seen += os.read(terminal.fileno(), 1024)
    return seen.decode()

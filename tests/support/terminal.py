"""CLI commands at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tests.support.command_runner import CommandProcess, command_environment
from tests.support.forked_commands import start_fork


@contextmanager
def start_at_terminal(*arguments: str, cwd: Path) -> Iterator[tuple[CommandProcess, BinaryIO]]:
    """A command whose standard input and error are a terminal: the process and the terminal's other end."""
    ours, theirs = pty.openpty()
    process = start_fork(arguments, cwd, command_environment(), terminal=theirs)
    os.close(theirs)
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        try:
            yield CommandProcess(process), terminal
        finally:
            process.kill()
            process.communicate()


def read_terminal_until(terminal: BinaryIO, words: str) -> str:
    seen = b""
    while words.encode() not in seen:
        seen += os.read(terminal.fileno(), 1024)
    return seen.decode()

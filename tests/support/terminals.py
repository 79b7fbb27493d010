"""A program on a pseudo-terminal: what it shows, what is typed, how it leaves it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support import interruption

CTRL_C = "\x03"
CTRL_D = "\x04"
WAIT = 60  # seconds


class Terminal:
    """A program whose controlling terminal is a new pseudo-terminal.

    `redirect`: shell redirections of its streams, such as `2>errors`; the others are the terminal.
    """

    def __init__(self, line: Sequence[Any], environment: Mapping[str, str], redirect: str = "") -> None:
        self._master, self._own = pty.openpty()
        self._before = termios.tcgetattr(self._own)
        self.shown = ""
        # The leader of a new session gets the first terminal that it opens as its controlling one.
        script = f'terminal=$1; shift; exec "$@" <>"$terminal" >&0 2>&0 {redirect}'
        command = ["sh", "-c", script, "sh", os.ttyname(self._own), *map(str, line)]
        self._process = subprocess.Popen(command, env=dict(environment), start_new_session=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._own)

    def wait_for(self, text: str, *, whole_line: bool = False) -> None:
        """Wait until the terminal has shown this; `whole_line`: and the rest of its line."""
        while "\n" not in self.shown.partition(text)[2] if whole_line else text not in self.shown:
            ready = select.select([self._master], [], [], WAIT)[0]
            assert ready, f"{text!r} is not in {self.shown!r}"
            self._read()

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._master, text.encode())

    def interrupt(self) -> int:
        """Press Ctrl-C until it ends; return the exit code."""
        interruption.interrupt(lambda: self.type(CTRL_C), self._process.wait)
        return self.end()

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        code = self._process.wait(WAIT)
        while select.select([self._master], [], [], 0)[0]:
            self._read()
        return code

    def _read(self) -> None:
        self.shown += os.read(self._master, 65536).decode(errors="replace")

    def has_echo(self) -> bool:
        """Return whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._own)[3] & termios.ECHO)

    def is_as_before(self) -> bool:
        """Return whether the terminal's settings are those of before the start."""
        return termios.tcgetattr(self._own) == self._before

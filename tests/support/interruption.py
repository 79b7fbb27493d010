"""Ctrl-C, pressed until a command ends."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable

PRESSES = 12
PRESS_SECONDS = 5  # between two


def interrupt(press: Callable[[], object], wait: Callable[[float], int]) -> int:
    """Press Ctrl-C until the command ends, as a person does; return its exit code. Raises TimeoutExpired.

    `wait` waits so many seconds for the end. Python does not notice a signal that arrives just before it blocks in a
    read: the read goes on.
    """
    for _ in range(PRESSES - 1):
        press()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return wait(PRESS_SECONDS)
    press()
    return wait(PRESS_SECONDS)

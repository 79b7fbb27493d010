"""Named points where a test may make the program fail; inert unless switched on.

`SOCIALPUB_FAULTS="pub.after_send=kill@3,db.commit=enospc"` with `SOCIALPUB_TEST=1` in the environment: the process
kills itself with SIGKILL when it passes `pub.after_send` for the third time; `@3-7` is each time from the third to the
seventh. Actions: `kill`, `raise`, `enospc`, `hang`, `sleep:SECONDS`.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


class InjectedFaultError(RuntimeError):
    """The error of the action `raise`, a bug injected by a test."""


@dataclass
class _FaultPoint:
    action: str
    first: int = 1  # the passes that trigger the action
    last: float = math.inf
    passed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self) -> bool:
        with self.lock:
            self.passed += 1
            return self.first <= self.passed <= self.last


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise InjectedFaultError("a test planted this")


def _raise_disk_full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _hang() -> None:
    threading.Event().wait()


_ACTIONS: dict[str, Callable[[], None]] = {"kill": _kill, "raise": _raise, "enospc": _raise_disk_full, "hang": _hang}


def _parse(text: str) -> dict[str, _FaultPoint]:
    faults = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, action = part.partition("=")
        action, _, at = action.partition("@")
        if action not in _ACTIONS and not action.startswith("sleep:"):
            raise ValueError(f"SOCIALPUB_FAULTS: unknown action {action!r} in {part!r}")
        first, _, last = at.partition("-")
        faults[name] = _FaultPoint(action, int(first), int(last or first)) if at else _FaultPoint(action)
    return faults


_fault_points: dict[str, _FaultPoint] = {}
if os.environ.get("SOCIALPUB_TEST") == "1":
    _fault_points = _parse(os.environ.get("SOCIALPUB_FAULTS", ""))


def hit(name: str) -> None:
    """Pass the point `name`: does nothing unless a test injects a fault there."""
    fault = _fault_points.get(name) if _fault_points else None
    if fault is None or not fault.due():
        return
    if fault.action.startswith("sleep:"):
        threading.Event().wait(float(fault.action.removeprefix("sleep:")))
    else:
        _ACTIONS[fault.action]()


def plan(text: str) -> None:
    """Replace the injected faults from inside a test process; "" removes them."""
    _fault_points.clear()
    _fault_points.update(_parse(text))

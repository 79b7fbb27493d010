"""The calls of a test as they are made everywhere: in a thread of their own, and in a fiber beside others."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base import fibers, net
from socialpub.base.crew import Crew
from socialpub.base.fibers import Fibers

EVERYWHERE = ("in a thread", "in a fiber")


def calls(where: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Have every call of `net` made there, until this is over; where that is."""
    if where == "in a thread":
        yield where
        return
    crew = Crew("tested")
    beside = Fibers("fibers", crew)
    for name in ("request", "download"):
        monkeypatch.setattr(net._Client, name, _in_fiber(beside, getattr(net._Client, name)))
    yield where
    beside.close()
    crew.close(wait=True)


def _in_fiber(beside: Fibers, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if fibers.is_here():
            return function(*arguments, **named)
        came, failed, over = list[Any](), list[BaseException](), threading.Event()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                came.append(context.run(function, *arguments, **named))
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                failed.append(error)
            over.set()

        beside.run(work)
        assert over.wait(60), "the fiber never came to its end"
        if failed:
            raise failed[0]
        return came[0]

    return call

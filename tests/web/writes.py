"""How a route that writes is asked, told beside its tests: the tests of authority take something away meanwhile."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.kit import Api, Person


@dataclass(frozen=True)
class Write:
    """`ask` sends a request that is good: by a person's key, or by the browser of somebody who is signed in."""

    method: str
    path: str
    ask: Callable[[Person, Api], httpx.Response]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def told() -> Iterator[Write]:
    """Those that test files tell, as `WRITES`."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if "WRITES = [Write(" in path.read_text(encoding="utf-8"):
            yield from importlib.import_module(f"tests.web.{path.stem}").WRITES

"""How a route that writes is asked, told beside its tests: the tests of authority take something away meanwhile."""

from __future__ import annotations

import importlib
import re
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
    here = Path(__file__).parent
    for path in sorted(here.rglob("test_*.py")):
        if re.search(r"^WRITES = \[\s*Write\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(here).with_suffix("").parts)
            yield from importlib.import_module(f"tests.web.{module}").WRITES

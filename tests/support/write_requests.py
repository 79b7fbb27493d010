"""Example requests for every route that writes, for authorization tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.app_server import ApiClient, Person


@dataclass(frozen=True)
class WriteRequest:
    """`ask` sends a request that is good: by a person's key, or by the browser of somebody who is signed in."""

    method: str
    path: str
    ask: Callable[[Person, ApiClient], httpx.Response]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def find_writes() -> Iterator[WriteRequest]:
    """Those that test files tell, as `WRITES`."""
    tests = Path(__file__).parents[1]
    for path in sorted([*(tests / "api").rglob("test_*.py"), *(tests / "dashboard").rglob("test_*.py")]):
        if re.search(r"^WRITES = \[\s*WriteRequest\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(tests).with_suffix("").parts)
            yield from importlib.import_module(f"tests.{module}").WRITES

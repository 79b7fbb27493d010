"""Fixture of what hangs. The tests share a server where they can."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.reused_server import counting, make_server, reused_server, wall

__all__ = ["counting", "make_server", "reused_server", "wall"]


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """What hangs goes on once it is set."""
    over = threading.Event()
    yield over
    over.set()

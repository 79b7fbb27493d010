"""Fixtures of the media tests: a reader for many files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.domain.media import probe
from tests.support.forked_reader import forked_reader


@pytest.fixture(scope="module")
def _forked_reader() -> Iterator[Callable[..., Any]]:
    with forked_reader() as run:
        yield run


@pytest.fixture
def quick_reader(_forked_reader: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read by forks of one process."""
    monkeypatch.setattr(probe, "_run_process", _forked_reader)

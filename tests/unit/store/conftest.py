"""Fixtures of a migrated, open database on a fresh file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.base import fault_injection
from socialpub.store.database import Database
from tests.support.new_database import create_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "socialpub.db"
    create_database(path)
    return path


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database(path).open()
    yield database
    fault_injection.plan("")
    database.close()

"""A database on a fresh file, migrated and open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.base import faults
from socialpub.store import db
from socialpub.store.db import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "socialpub.db"
    db.migrate(path)
    return path


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database(path).open()
    yield database
    faults.plan("")
    database.close()

"""New database for tests without a server; the migrations are applied once in a process."""

from __future__ import annotations

from pathlib import Path

from socialpub.store.schema import migration
from tests.support.app_server import _migrated_database


def create_database(path: Path) -> None:
    """Write an empty database with every migration applied."""
    path.write_bytes(_migrated_database(migration.find_shipped_directory("migrations")))

"""New database for tests; the migrations are applied once in a process."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from socialpub.store.schema import migration


def create_database(path: Path) -> None:
    """Write an empty database with every migration applied."""
    path.write_bytes(_migrate(migration.find_shipped_directory("migrations")))


@functools.cache
def _migrate(migrations: Path) -> bytes:
    """The file that these migrations make."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socialpub.db"
        migration.migrate(path)
        return path.read_bytes()

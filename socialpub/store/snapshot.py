"""A consistent copy of the database in a file of its own, taken while the server writes."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from socialpub.store import former, sql
from socialpub.store.connections import proxy
from socialpub.store.former import Told
from socialpub.store.former import fold as fold

_MEDIA = "SELECT DISTINCT sha256 FROM media WHERE deleted_at IS NULL"


def media_named() -> set[str]:
    """Within a read: the hashes of the files that the database needs."""
    return {row[0] for row in sql.every(_MEDIA)}


def media_of(path: Path) -> set[str]:
    """The same of a file that nobody has open."""
    with contextlib.closing(_read_only(path)) as found:
        return {row[0] for row in found.execute(_MEDIA)}


def copy(target: Path, told: Told) -> None:
    """Within a read (`Database.read`): what it sees, as a file that begins paused wherever it is opened."""
    former.copy(proxy.connection(), target, told)


def newest_migration(path: Path) -> str:
    """The schema of a database file that nobody has open; sqlite3.Error for what is no such file."""
    with contextlib.closing(_read_only(path)) as found:
        return str(found.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)

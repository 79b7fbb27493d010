"""Reads from a database of any schema, also an outdated one, and consistent copies.

`Database` needs the latest schema. A start or a backup reads older files here, by the tables and columns that they
have.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from socialpub.base.security import private_files
from socialpub.base.system import os_errors
from socialpub.store.database import Database
from socialpub.store.engine.locks import damaged_error, unusable_error
from socialpub.store.engine.sqlite import proxy
from socialpub.store.queries import encrypted_columns

T = TypeVar("T")
PAGES = 2048  # copied between two progress reports
ProgressCallback = Callable[[int, int], None]
"""Called with the numbers of pages that are done, and in total."""
_MEDIA_HASHES = "SELECT DISTINCT sha256 FROM media WHERE deleted_at IS NULL"


class SnapshotSource(Protocol):
    """Calls a function with a connection that sees one consistent snapshot."""

    def __call__(self, run: Callable[[sqlite3.Connection], T]) -> T: ...


def from_server(database: Database) -> SnapshotSource:
    """Return a source on the open database of this process."""

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        return database.read(lambda: run(proxy.connection())).result()

    return read


def from_file(path: Path) -> SnapshotSource:
    """Return a source on a database file of any schema, with or without a running server.

    The source raises StartError if the file cannot be read.
    """

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with _open(path, "rw") as connection:  # rw: the last connection must delete `-wal` and `-shm`
                connection.execute("PRAGMA query_only = 1")
                connection.execute("BEGIN")
                return run(connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if os_errors.describe(error):
                raise unusable_error(path, error) from error
            raise damaged_error(path, "its tables cannot be read") from error

    return read


def find_media_hashes(connection: sqlite3.Connection) -> set[str]:
    """Return the hashes of the media files that the database needs."""
    return {row[0] for row in connection.execute(_MEDIA_HASHES)}


def find_required_keys(connection: sqlite3.Connection) -> set[str]:
    """Return the ids of the master keys with which lasting secrets are encrypted."""
    keys = set[str]()
    if _has_column(connection, "instance", "key_id"):
        keys |= {row[0] for row in connection.execute(encrypted_columns.FIND_MASTER_KEY_ID)}
    for each in encrypted_columns.ENCRYPTED_COLUMNS:
        if each.lasting and _has_column(connection, each.table, each.column):
            keys |= {row[0] for row in connection.execute(each.keys)}
    return {key for key in keys if key}


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return connection.execute(encrypted_columns.HAS_COLUMN, (table, column)).fetchone() is not None


def copy(source: sqlite3.Connection, target: Path, report: ProgressCallback = lambda done, total: None) -> None:
    """Copy the snapshot of a connection to a file, which starts paused."""
    private_files.create_if_missing(target)
    with contextlib.closing(sqlite3.connect(target)) as copied:
        source.backup(copied, pages=PAGES, progress=lambda _, left, total: report(total - left, total))
        copied.execute("PRAGMA journal_mode = delete")
        copied.execute("UPDATE instance SET paused = 'restored', moved = NULL")  # a copy is not the moved server
        copied.commit()


def checkpoint(path: Path) -> None:
    """Checkpoint a file that is not open, and remove its WAL."""
    with contextlib.closing(sqlite3.connect(path)) as found:
        found.execute("PRAGMA journal_mode = delete")


def read_newest_migration(path: Path) -> str:
    """Return the schema of a file that is not open; raise sqlite3.Error for other files."""
    with _open(path, "ro") as connection:
        return str(connection.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


@contextlib.contextmanager
def _open(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as connection:
        yield connection

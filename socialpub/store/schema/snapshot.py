"""Reading a database of any schema, also one that is not migrated yet, and a consistent copy of it in a file.

`Database` needs the newest schema. What a start or a backup has to know of an older file is read here, by the tables
and columns that the file has.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from socialpub.base.system import os_errors
from socialpub.store.database import Database
from socialpub.store.engine.locks import damaged_error, unusable_error
from socialpub.store.engine.sqlite import proxy
from socialpub.store.queries import encrypted_columns
from socialpub.store.schema import upgrade_backup
from socialpub.store.schema.upgrade_backup import ProgressCallback
from socialpub.store.schema.upgrade_backup import checkpoint as checkpoint

T = TypeVar("T")
_MEDIA_HASHES = "SELECT DISTINCT sha256 FROM media WHERE deleted_at IS NULL"


class SnapshotSource(Protocol):
    """Runs a function with a connection that sees one consistent snapshot, and returns its result."""

    def __call__(self, run: Callable[[sqlite3.Connection], T]) -> T: ...


def from_server(database: Database) -> SnapshotSource:
    """The open database of this process."""

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        return database.read(lambda: run(proxy.connection())).result()

    return read


def from_file(path: Path) -> SnapshotSource:
    """A database file of any schema, beside a running server or without one. StartError where it cannot be read."""

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with _open(path, "rw") as connection:  # what leaves last takes the log and its index away
                connection.execute("PRAGMA query_only = 1")
                connection.execute("BEGIN")
                return run(connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if os_errors.describe(error):
                raise unusable_error(path, error) from error
            raise damaged_error(path, "its tables cannot be read") from error

    return read


def find_media_hashes(connection: sqlite3.Connection) -> set[str]:
    """The hashes of the files that the database needs."""
    return {row[0] for row in connection.execute(_MEDIA_HASHES)}


def find_required_keys(connection: sqlite3.Connection) -> set[str]:
    """The ids of the master keys that something lasting was sealed with."""
    found = set[str]()
    if _has_column(connection, "instance", "key_id"):
        found |= {row[0] for row in connection.execute(encrypted_columns.FIND_MASTER_KEY_ID)}
    for each in encrypted_columns.ENCRYPTED_COLUMNS:
        if each.lasting and _has_column(connection, each.table, each.column):
            found |= {row[0] for row in connection.execute(each.keys)}
    return {key for key in found if key}


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return connection.execute(encrypted_columns.HAS_COLUMN, (table, column)).fetchone() is not None


def read_media_hashes(path: Path) -> set[str]:
    """`find_media_hashes` of a file that nobody has open."""
    with _open(path, "ro") as connection:
        return find_media_hashes(connection)


def copy(connection: sqlite3.Connection, target: Path, told: ProgressCallback) -> None:
    """What a connection sees, as a file that begins paused wherever it is opened."""
    upgrade_backup.copy(connection, target, told)


def read_newest_migration(path: Path) -> str:
    """The schema of a database file that nobody has open; sqlite3.Error for what is no such file."""
    with _open(path, "ro") as connection:
        return str(connection.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


@contextlib.contextmanager
def _open(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as connection:
        yield connection

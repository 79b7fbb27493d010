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

from socialpub.base import troubles
from socialpub.store import former
from socialpub.store.connections import proxy
from socialpub.store.db import Database
from socialpub.store.former import Told
from socialpub.store.former import fold as fold
from socialpub.store.locks import damaged, unusable
from socialpub.store.statements import sealed

T = TypeVar("T")
_MEDIA = "SELECT DISTINCT sha256 FROM media WHERE deleted_at IS NULL"


class Source(Protocol):
    """Runs a function with a connection that sees one consistent snapshot, and returns its result."""

    def __call__(self, run: Callable[[sqlite3.Connection], T]) -> T: ...


def of_server(database: Database) -> Source:
    """The open database of this process."""

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        return database.read(lambda: run(proxy.connection())).result()

    return read


def of_file(path: Path) -> Source:
    """A database file of any schema, beside a running server or without one. StartError where it cannot be read."""

    def read(run: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with _opened(path, "rw") as connection:  # what leaves last takes the log and its index away
                connection.execute("PRAGMA query_only = 1")
                connection.execute("BEGIN")
                return run(connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if troubles.why(error):
                raise unusable(path, error) from error
            raise damaged(path, "its tables cannot be read") from error

    return read


def media_named(connection: sqlite3.Connection) -> set[str]:
    """The hashes of the files that the database needs."""
    return {row[0] for row in connection.execute(_MEDIA)}


def keys_needed(connection: sqlite3.Connection) -> set[str]:
    """The ids of the master keys that something lasting was sealed with."""
    found = set[str]()
    if _has(connection, "instance", "key_id"):
        found |= {row[0] for row in connection.execute(sealed.SEALS)}
    for each in sealed.SEALED:
        if each.lasting and _has(connection, each.table, each.column):
            found |= {row[0] for row in connection.execute(each.keys)}
    return {key for key in found if key}


def _has(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return connection.execute(sealed.EXISTS, (table, column)).fetchone() is not None


def media_of(path: Path) -> set[str]:
    """`media_named` of a file that nobody has open."""
    with _opened(path, "ro") as connection:
        return media_named(connection)


def copy(connection: sqlite3.Connection, target: Path, told: Told) -> None:
    """What a connection sees, as a file that begins paused wherever it is opened."""
    former.copy(connection, target, told)


def newest_migration(path: Path) -> str:
    """The schema of a database file that nobody has open; sqlite3.Error for what is no such file."""
    with _opened(path, "ro") as connection:
        return str(connection.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as connection:
        yield connection

"""Integrity checks of a database file.

A start checks what costs the same for files of any size: size, schema, free pages, essential tables, and all of a small
file. A large file is checked completely in the background (`domain.server.copy_detection` decides when).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import peewee

from socialpub.base.system import os_errors
from socialpub.store.engine.locks import damaged_error, list_files, unusable_error
from socialpub.store.engine.sqlite import make_peewee_database

START_CHECK_BYTES_MAX = 16 * 1024 * 1024
INDEX_CHECK_BYTES_MAX = 256 * 1024 * 1024  # above it indexes are not compared with their tables: several times faster
ESSENTIAL_TABLES = (
    "sqlite_schema",
    "schema_migration",
    "instance",
    "organization",
    "profile",
    "user",
    "api_key",
    "account",
)
PROBLEMS_MAX = 5  # the first ones are enough for a message
LOWEST_PRIORITY = 19  # nice value
# SQLite's messages quote damaged text; if that is no UTF-8, `sqlite3` raises UnicodeDecodeError.
_DAMAGE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)


def check_integrity(path: Path) -> None:
    """Raise StartError unless SQLite finds the whole file intact."""
    _raise_problems(path, lambda connection: check_tables(connection, path))


def check_start(path: Path) -> bool:
    """Raise StartError if the file is damaged; return whether all of it was checked."""
    if path.stat().st_size <= START_CHECK_BYTES_MAX:
        check_integrity(path)
        return True
    check_essential_tables(path)
    return False


def check_essential_tables(path: Path) -> None:
    """Raise StartError if an essential table is damaged; commands check this."""
    _raise_problems(path, lambda connection: _check_quickly(connection, path))


def _raise_problems(path: Path, check: Callable[[sqlite3.Connection], Iterator[list[str]]]) -> None:
    database = make_peewee_database(path)
    try:
        database.connect()
        problems = list(itertools.chain.from_iterable(check(database.connection())))
    except (peewee.DatabaseError, *_DAMAGE_ERRORS) as error:
        if os_errors.describe(error):
            raise unusable_error(path, error) from error
        problems = [_get_error_text(error)]
    finally:
        database.close()
    if problems:
        raise damaged_error(path, "; ".join(problems[:PROBLEMS_MAX]))


def _check_quickly(connection: sqlite3.Connection, path: Path) -> Iterator[list[str]]:
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if path.stat().st_size < pages * size and not _has_log(path):
        yield [f"it has {path.stat().st_size} bytes of {pages * size}"]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in ESSENTIAL_TABLES:
        if table in tables or table == "sqlite_schema":  # also checks the free pages
            yield _check_table(connection, "integrity_check", table)


def _get_error_text(error: Exception) -> str:
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)


def _has_log(path: Path) -> bool:
    log_file = list_files(path)[1]
    return log_file.exists() and log_file.stat().st_size > 0


def check_tables(connection: sqlite3.Connection, path: Path) -> Iterator[list[str]]:
    """Yield the problems of a file, table by table; no lock is held between two tables."""
    small = path.stat().st_size <= INDEX_CHECK_BYTES_MAX
    check = "integrity_check" if small else "quick_check"
    if small and path.stat().st_size <= START_CHECK_BYTES_MAX:
        yield _check_table(connection, check)  # also finds unreferenced pages
    else:
        yield _check_table(connection, check, "sqlite_schema")
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name"
        for (table,) in connection.execute(names).fetchall():
            yield _check_table(connection, check, table)
    if small and (lost := connection.execute("PRAGMA foreign_key_check").fetchone()):
        yield [f"a row of {lost[0]} refers to a missing row of {lost[2]}"]


def _check_table(connection: sqlite3.Connection, check: str, table: str = "") -> list[str]:
    pragma = f"PRAGMA {check}('{table}')" if table else f"PRAGMA {check}({PROBLEMS_MAX})"
    return [row[0] for row in connection.execute(pragma).fetchall() if row[0] != "ok"]


class IntegrityScan:
    """A check of the whole file, with its own connection, that can be stopped.

    While a table is checked, the WAL cannot restart, so it grows by what is written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stopping = path, threading.Event()
        self._connection: sqlite3.Connection | None = None

    def problems(self) -> list[str] | None:
        """Return the problems of the file, [] if it is intact; None if stopped before.

        Raises OSError or sqlite3.DatabaseError if the system does not let it be read.
        """
        found: list[str] = []
        try:
            with contextlib.closing(_connect_read_only(self._path)) as self._connection:
                for problems in check_tables(self._connection, self._path):
                    found += problems
                    if self._stopping.is_set():
                        return None
        except _DAMAGE_ERRORS as error:
            if self._stopping.is_set():
                return None
            if os_errors.describe(error):
                raise
            found.append(_get_error_text(error))
        return found[:PROBLEMS_MAX]

    def wait(self, seconds: float) -> None:
        """Wait until the time is over or the scan is stopped."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop at the next step; call it until the scan ends, since it may be between statements."""
        self._stopping.set()
        with contextlib.suppress(sqlite3.ProgrammingError):  # the connection is closed
            if self._connection is not None:
                self._connection.interrupt()


def _connect_read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA query_only = 1")
    return connection


def lower_thread_priority() -> None:
    """Run this thread only when the machine is idle, if the system has thread priorities.

    It cannot be undone without privileges, so the thread should do nothing else.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)

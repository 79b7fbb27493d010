"""Whether a database file is whole.

A start looks at what it costs the same to look at however large the file is: its length, its schema, its list of free
pages, the tables that everything depends on, and all of a file that is small. All of a large one is looked at in the
background, where a look is owed (`domain/server/copy_detection.py` knows when).
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
INDEX_CHECK_BYTES_MAX = (
    256 * 1024 * 1024
)  # above it indexes are not compared with their tables, which is several times faster
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
PROBLEMS_MAX = 5  # problems: the first show what it is about
LOWEST_PRIORITY = 19  # of the priorities of a thread
# What SQLite says of damage quotes the damaged: where that is no UTF-8, `sqlite3` has only this to say.
_DAMAGE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)


def check_integrity(path: Path) -> None:
    """StartError unless SQLite finds all of the file whole."""
    _raise_problems(path, lambda connection: check_tables(connection, path))


def check_start(path: Path) -> bool:
    """StartError where the file is seen to be damaged; whether all of it was looked at."""
    if path.stat().st_size <= START_CHECK_BYTES_MAX:
        check_integrity(path)
        return True
    check_essential_tables(path)
    return False


def check_essential_tables(path: Path) -> None:
    """StartError where the tables that everything depends on are damaged: what a command looks at of any file."""
    _raise_problems(path, lambda connection: _check_quickly(connection, path))


def _raise_problems(path: Path, look: Callable[[sqlite3.Connection], Iterator[list[str]]]) -> None:
    database = make_peewee_database(path)
    try:
        database.connect()
        problems = list(itertools.chain.from_iterable(look(database.connection())))
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
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in ESSENTIAL_TABLES:
        if table in there or table == "sqlite_schema":  # with which the free pages are looked at
            yield _check_table(connection, "integrity_check", table)


def _get_error_text(error: Exception) -> str:
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)


def _has_log(path: Path) -> bool:
    log_file = list_files(path)[1]
    return log_file.exists() and log_file.stat().st_size > 0


def check_tables(connection: sqlite3.Connection, path: Path) -> Iterator[list[str]]:
    """What is wrong with a file, table by table: between two of them nothing is held."""
    small = path.stat().st_size <= INDEX_CHECK_BYTES_MAX
    check = "integrity_check" if small else "quick_check"
    if small and path.stat().st_size <= START_CHECK_BYTES_MAX:
        yield _check_table(connection, check)  # at once: it also sees pages that nothing names
    else:
        yield _check_table(connection, check, "sqlite_schema")
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name"
        for (table,) in connection.execute(tables).fetchall():
            yield _check_table(connection, check, table)
    if small and (lost := connection.execute("PRAGMA foreign_key_check").fetchone()):
        yield [f"a row of {lost[0]} names a row of {lost[2]} that is not there"]


def _check_table(connection: sqlite3.Connection, check: str, table: str = "") -> list[str]:
    pragma = f"PRAGMA {check}('{table}')" if table else f"PRAGMA {check}({PROBLEMS_MAX})"
    return [row[0] for row in connection.execute(pragma).fetchall() if row[0] != "ok"]


class IntegrityScan:
    """A look at all of the file that can be stopped. It has a connection of its own.

    While it is at one table, the log cannot be begun anew: it grows by what is written meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stopping = path, threading.Event()
        self._connection: sqlite3.Connection | None = None

    def problems(self) -> list[str] | None:
        """What is wrong with the file, nothing where it is whole; None when it was stopped before it knew."""
        found: list[str] = []
        try:
            with contextlib.closing(_connect_read_only(self._path)) as self._connection:
                for problems in check_tables(self._connection, self._path):
                    found += problems
                    if self._stopping.is_set():
                        return None
        except _DAMAGE_ERRORS as error:
            if self._stopping.is_set() or os_errors.describe(error):
                return None
            found.append(_get_error_text(error))
        return found[:PROBLEMS_MAX]

    def stop(self) -> None:
        """It ends at its next step; to be said again until it has, since it may be between two statements."""
        self._stopping.set()
        with contextlib.suppress(sqlite3.ProgrammingError):  # it is closed
            if self._connection is not None:
                self._connection.interrupt()


def _connect_read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA query_only = 1")
    return connection


def lower_thread_priority() -> None:
    """This thread runs, and reads the disk, when nobody else wants to: where the system can tell threads apart.

    For a thread of one's own: there is no way back for it without privileges.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)

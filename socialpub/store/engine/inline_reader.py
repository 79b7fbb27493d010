"""Small reads on the event loop, at a tenth of the cost of a trip to a reader thread.

A read that exceeds its budget of steps, or whose connection fails, raises ReadTooLongError and is repeated on a reader
thread (`Database.read_inline`). Nothing here waits for a lock. It may wait for the disk, which shows only afterwards:
an organization whose read blocked the loop for SLOW_SECONDS is sent to reader threads for THREAD_ONLY_SECONDS.
"""

from __future__ import annotations

import resource
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import peewee

from socialpub.store.engine.file_identity import DatabaseFiles, DatabaseReplacedError
from socialpub.store.engine.sqlite import STATEMENT_CACHE_SIZE, proxy

T = TypeVar("T")
Monotonic = Callable[[], float]
SLOW_SECONDS = 0.008  # more than a tick, the unit of CPU time on many systems
THREAD_ONLY_SECONDS = 5.0
_RUSAGE_SCOPE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
STEPS_MAX = 10_000  # SQLite's virtual machine steps: over 100 indexed rows; a read ends after at most twice as many
_PRAGMAS = ("query_only = 1", "busy_timeout = 0", "wal_autocheckpoint = 0", "trusted_schema = 0", "temp_store = memory")


class ReadTooLongError(Exception):
    """The read needs a reader thread: too many steps, or an error that a reader can explain."""


class InlineReader:
    """The connection of the event loop's thread."""

    def __init__(self, path: Path, files: DatabaseFiles, monotonic: Monotonic, slow: float = SLOW_SECONDS) -> None:
        self._path, self._files = path, files
        self._monotonic, self._slow = monotonic, slow
        self._thread_only: dict[str, float] = {}  # organizations whose reads go to threads, and until when
        self._thread: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._rounds = 0

    def read(self, owner: str, run: Callable[[], T]) -> T:
        """Run a read for an organization; raise ReadTooLongError if a reader thread must run it.

        Each statement sees its own snapshot, so data that belong together must be read by one statement.
        """
        if self._thread not in (None, threading.get_ident()) or not proxy.obj.is_closed():
            raise ReadTooLongError
        if self._thread_only and self._is_thread_only(owner):
            raise ReadTooLongError
        try:
            self._files.check_recent()
            return self._read_measured(owner, run)
        except (DatabaseReplacedError, OSError, peewee.DatabaseError, sqlite3.Error) as error:
            raise ReadTooLongError from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_measured(self, owner: str, run: Callable[[], T]) -> T:
        connection, state = self._connection or self._connect(), proxy.obj._state
        self._rounds = 0
        before, started = resource.getrusage(_RUSAGE_SCOPE), self._monotonic()
        state.set_connection(connection)
        try:
            return run()
        finally:
            state.reset()
            if self._monotonic() - started > self._slow and self._was_slow(before):
                self._thread_only[owner] = self._monotonic() + THREAD_ONLY_SECONDS

    def _was_slow(self, before: resource.struct_rusage) -> bool:
        """Return whether this read took the time, and not another process on the CPU."""
        now = resource.getrusage(_RUSAGE_SCOPE)
        computed = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        return now.ru_inblock > before.ru_inblock or computed > self._slow

    def _is_thread_only(self, owner: str) -> bool:
        now = self._monotonic()
        self._thread_only = {name: until for name, until in self._thread_only.items() if until > now}
        return owner in self._thread_only

    def _connect(self) -> sqlite3.Connection:
        # Another thread may close it after the loop has ended.
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENT_CACHE_SIZE
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(self._is_long, STEPS_MAX)
        self._connection, self._thread = connection, threading.get_ident()
        return connection

    def _is_long(self) -> bool:
        """Stop a read at the second call.

        SQLite counts its steps across reads, so the first call may come at once.
        """
        self._rounds += 1
        return self._rounds > 1

"""Small reads on the event loop itself: indexed reads cost a tenth of a round trip through a reader thread.

A read that exceeds its budget of steps, or whose connection is not well, raises ReadTooLongError and is run again on a
reader thread (`Database.read_inline`). Nothing here waits for a lock. It waits for the disk where the rows are not in
memory, which shows only afterwards: an organization whose read has kept the loop for SLOW_SECONDS is sent to reader
threads for the next SHY_SECONDS.
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
SLOW_SECONDS = 0.008  # more than a tick, by which many systems count the processor's time
THREAD_ONLY_SECONDS = 5.0
_RUSAGE_SCOPE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
STEPS_MAX = 10_000  # of SQLite's machine: a hundred rows by an index are less; a read ends after at most twice as many
_PRAGMAS = ("query_only = 1", "busy_timeout = 0", "wal_autocheckpoint = 0", "trusted_schema = 0", "temp_store = memory")


class ReadTooLongError(Exception):
    """The read is for a reader thread: it takes too many steps, or something is wrong that a reader can explain."""


class InlineReader:
    """The connection that one thread, the event loop's, reads with."""

    def __init__(self, path: Path, place: DatabaseFiles, monotonic: Monotonic, slow: float = SLOW_SECONDS) -> None:
        self._path, self._place = path, place
        self._monotonic, self._slow = monotonic, slow
        self._shy: dict[str, float] = {}  # organizations whose reads go to threads, and until when
        self._thread: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._rounds = 0

    def read(self, owner: str, run: Callable[[], T]) -> T:
        """Run a read for an organization; ReadTooLongError where a reader thread is to run it.

        Each statement sees a snapshot of its own: what belongs together is asked for by one.
        """
        if self._thread not in (None, threading.get_ident()) or not proxy.obj.is_closed():
            raise ReadTooLongError
        if self._shy and self._is_shy(owner):
            raise ReadTooLongError
        try:
            self._place.look_lately()
            return self._seen(owner, run)
        except (DatabaseReplacedError, OSError, peewee.DatabaseError, sqlite3.Error) as error:
            raise ReadTooLongError from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _seen(self, owner: str, run: Callable[[], T]) -> T:
        connection, state = self._connection or self._connect(), proxy.obj._state
        self._rounds = 0
        before, began = resource.getrusage(_RUSAGE_SCOPE), self._monotonic()
        state.set_connection(connection)
        try:
            return run()
        finally:
            state.reset()
            if self._monotonic() - began > self._slow and self._was_slow(before):
                self._shy[owner] = self._monotonic() + THREAD_ONLY_SECONDS

    def _was_slow(self, before: resource.struct_rusage) -> bool:
        """Whether the time went to this read, and not to another process that had the processor."""
        now = resource.getrusage(_RUSAGE_SCOPE)
        computed = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        return now.ru_inblock > before.ru_inblock or computed > self._slow

    def _is_shy(self, owner: str) -> bool:
        now = self._monotonic()
        self._shy = {name: until for name, until in self._shy.items() if until > now}
        return owner in self._shy

    def _connect(self) -> sqlite3.Connection:
        # Any thread may close it, once the loop has ended.
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENT_CACHE_SIZE
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(self._is_long, STEPS_MAX)
        self._connection, self._thread = connection, threading.get_ident()
        return connection

    def _is_long(self) -> bool:
        """Asked after each STEPS, which SQLite counts from one read to the next: so the first may come at once."""
        self._rounds += 1
        return self._rounds > 1

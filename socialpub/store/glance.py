"""A look at a few rows from the event loop itself: what costs less than handing it to a thread and back.

Giving a read to a thread and taking its answer costs several changes of threads, each of which waits for the
interpreter: ten times what looking up a row by its index does. So what is small is read here, on a connection of its
own; and whatever shows not to be small, or not to be well, is left to a reader thread, which has the time and the words
for it. Nothing here waits for a lock. For the disk it waits where the rows are not in memory, which nobody can tell
beforehand: so whose look has kept the loop for SLOW_SECONDS looks by reader threads for the next SHY_SECONDS.
"""

from __future__ import annotations

import resource
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import peewee

from socialpub.store.connections import STATEMENTS_KEPT, proxy
from socialpub.store.place import LostError, Place

T = TypeVar("T")
Monotonic = Callable[[], float]
SLOW_SECONDS = 0.008  # more than a tick, by which many systems count the processor's time
SHY_SECONDS = 5.0
_WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
STEPS = 10_000  # of SQLite's machine: a hundred rows by an index are less; a glance ends after at most twice as many
_PRAGMAS = ("query_only = 1", "busy_timeout = 0", "wal_autocheckpoint = 0", "trusted_schema = 0", "temp_store = memory")


class LongError(Exception):
    """This is for a reader thread: it steps through too much, or something is wrong that a reader can explain."""


class Glance:
    """The connection that one thread looks with. It is nobody's outside of `look`."""

    def __init__(self, path: Path, place: Place, monotonic: Monotonic, slow: float = SLOW_SECONDS) -> None:
        self._path, self._place = path, place
        self._monotonic, self._slow = monotonic, slow
        self._shy: dict[str, float] = {}  # whose looks are left to threads, and until when
        self._thread: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._rounds = 0

    def look(self, owner: str, run: Callable[[], T]) -> T:
        """What `run` reads for somebody; LongError where a reader thread is to run it.

        Each statement sees a snapshot of its own: what belongs together is asked for by one.
        """
        if self._thread not in (None, threading.get_ident()) or not proxy.obj.is_closed():
            raise LongError
        if self._shy and self._is_shy(owner):
            raise LongError
        try:
            self._place.look_once()
            return self._seen(owner, run)
        except (LostError, OSError, peewee.DatabaseError, sqlite3.Error) as error:
            raise LongError from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _seen(self, owner: str, run: Callable[[], T]) -> T:
        connection, state = self._connection or self._connect(), proxy.obj._state
        self._rounds = 0
        before, began = resource.getrusage(_WHO), self._monotonic()
        state.set_connection(connection)
        try:
            return run()
        finally:
            state.reset()
            if self._monotonic() - began > self._slow and self._was_slow(before):
                self._shy[owner] = self._monotonic() + SHY_SECONDS

    def _was_slow(self, before: resource.struct_rusage) -> bool:
        """Whether the time went to this look, and not to another process that had the processor."""
        now = resource.getrusage(_WHO)
        computed = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        return now.ru_inblock > before.ru_inblock or computed > self._slow

    def _is_shy(self, owner: str) -> bool:
        now = self._monotonic()
        self._shy = {name: until for name, until in self._shy.items() if until > now}
        return owner in self._shy

    def _connect(self) -> sqlite3.Connection:
        # Any thread may close it, once the loop has ended.
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_KEPT
        )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(self._is_long, STEPS)
        self._connection, self._thread = connection, threading.get_ident()
        return connection

    def _is_long(self) -> bool:
        """Asked after each STEPS, which SQLite counts from one look to the next: so the first may come at once."""
        self._rounds += 1
        return self._rounds > 1

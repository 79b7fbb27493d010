"""Threads that read: each with a connection of its own, for whoever has the next turn.

Whoever holds a reader keeps others from it, so reads are kept apart by what waits for them (`db.py`), and those of
requests have a limit: a read ends with what it was given, or READ_SECONDS after it was asked for. That counts the
waiting too, so whoever is before another in the queue is done before the other's time is over.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar, cast

import peewee

from socialpub.base import troubles
from socialpub.base.errors import refuse
from socialpub.base.fair import BUSY_RETRY_SECONDS, Pool, Share, Waiting
from socialpub.store.connections import DbFuture, is_storage, limits, proxy, unavailable
from socialpub.store.place import LOST, LostError, Place

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
READ_SECONDS = 10.0
STEPS = 100_000  # of SQLite's machine between two looks at the clock, each of which waits for the interpreter
Monotonic = Callable[[], float]

asker: ContextVar[Share | None] = ContextVar("asker", default=None)
"""Whose request it is that reads; None where no request does, but the engine or a command."""


class Limit:
    """The end of one read: SQLite asks during a statement, and `check` before each."""

    def __init__(self, monotonic: Monotonic, until: float) -> None:
        self._monotonic, self._until, self._over = monotonic, until, False

    def is_over(self) -> bool:
        self._over = self._over or self._monotonic() >= self._until
        return self._over

    def check(self) -> None:
        """ApiError `http.deadline` once it is over."""
        if self.is_over():
            raise refuse("http.deadline", retry_after=BUSY_RETRY_SECONDS)


class Readers:
    """A number of them. `waiting`: how many reads may wait for one."""

    def __init__(self, threads: int, name: str, place: Place, monotonic: Monotonic, waiting: Waiting | None = None):
        self._pool = Pool(threads, name, waiting, ended=_disconnect, future=DbFuture)
        self._place, self._monotonic = place, monotonic

    def read(self, share: Share, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot, however long it takes."""
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, None))

    def read_in_time(self, share: Share, run: Callable[[], T]) -> DbFuture[T]:
        """The same within READ_SECONDS from now; ApiError `http.busy` when too many wait, `http.deadline` after it."""
        self._pool.admit(share)
        limit = Limit(self._monotonic, self._monotonic() + READ_SECONDS)
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, limit))

    def close(self) -> None:
        """Finish what was asked for, then close the connections."""
        self._pool.shutdown(wait=True)

    def _in_snapshot(self, run: Callable[[], T], limit: Limit | None) -> T:
        try:
            self._place.look()
        except LostError as error:
            raise unavailable(LOST) from error
        try:
            return _read(run, limit)
        except (peewee.DatabaseError, sqlite3.DatabaseError) as error:
            raise _explained(error, limit) from error


def _explained(error: Exception, limit: Limit | None) -> Exception:
    if limit is not None and limit.is_over():
        return refuse("http.deadline", retry_after=BUSY_RETRY_SECONDS)
    if not is_storage(error):
        return error
    log.error("the database cannot be read: %s", troubles.why(error) or error)
    return unavailable()


def _read(run: Callable[[], T], limit: Limit | None) -> T:
    connection = _connection()
    connection.execute("BEGIN")
    try:
        if limit is not None:
            _begin(connection, limit)
        return run()
    finally:  # nothing of the limit is left for the next read, nor for this one's end
        _begin(connection, None)
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _begin(connection: sqlite3.Connection, limit: Limit | None) -> None:
    limits.check = limit.check if limit else None
    connection.set_progress_handler(limit.is_over if limit else None, STEPS)


def _disconnect() -> None:
    if proxy.obj is not None:  # else none was ever opened
        proxy.close()


def _connection() -> sqlite3.Connection:
    """This reader thread's connection, opened by its first read: one that fails is tried again by the next."""
    if proxy.is_closed():
        proxy.connect()
        try:
            proxy.connection().execute("PRAGMA query_only = 1")
            proxy.connection().execute("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        except BaseException:
            proxy.close()
            raise
    return proxy.connection()  # type: ignore[no-any-return]

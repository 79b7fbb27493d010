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

from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS, FairExecutor, QueueLimits, ShareKey
from socialpub.base.errors import rule_error
from socialpub.base.system import os_errors
from socialpub.store.engine.file_identity import REPLACED_MESSAGE, DatabaseFiles, DatabaseReplacedError
from socialpub.store.engine.sqlite import DbFuture, is_storage_error, proxy, read_limits, unavailable_error

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
READ_SECONDS = 10.0
STEPS_BETWEEN_CHECKS = (
    100_000  # of SQLite's machine between two looks at the clock, each of which waits for the interpreter
)
Monotonic = Callable[[], float]

current_requester: ContextVar[ShareKey | None] = ContextVar("asker", default=None)
"""Whose request it is that reads; None where no request does, but the engine or a command."""


class ReadDeadline:
    """The end of one read: SQLite asks during a statement, and `check` before each."""

    def __init__(self, monotonic: Monotonic, until: float) -> None:
        self._monotonic, self._until, self._over = monotonic, until, False

    def is_over(self) -> bool:
        self._over = self._over or self._monotonic() >= self._until
        return self._over

    def check(self) -> None:
        """ApiError `http.deadline` once it is over."""
        if self.is_over():
            raise rule_error("http.deadline", retry_after=BUSY_RETRY_SECONDS)


class ReaderPool:
    """A number of them. `waiting`: how many reads may wait for one."""

    def __init__(
        self, threads: int, name: str, place: DatabaseFiles, monotonic: Monotonic, waiting: QueueLimits | None = None
    ):
        self._pool = FairExecutor(threads, name, waiting, ended=_close_connection, future=DbFuture)
        self._place, self._monotonic = place, monotonic

    def read(self, share: ShareKey, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot, however long it takes."""
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, None))

    def read_in_time(self, share: ShareKey, run: Callable[[], T]) -> DbFuture[T]:
        """The same within READ_SECONDS from now; ApiError `http.busy` when too many wait, `http.deadline` after it."""
        self._pool.admit(share)
        limit = ReadDeadline(self._monotonic, self._monotonic() + READ_SECONDS)
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, limit))

    def close(self) -> None:
        """Finish what was asked for, then close the connections."""
        self._pool.shutdown(wait=True)

    def _in_snapshot(self, run: Callable[[], T], limit: ReadDeadline | None) -> T:
        try:
            self._place.look()
        except DatabaseReplacedError as error:
            raise unavailable_error(REPLACED_MESSAGE) from error
        try:
            return _read_in_transaction(run, limit)
        except (peewee.DatabaseError, sqlite3.DatabaseError) as error:
            raise _convert_error(error, limit) from error


def _convert_error(error: Exception, limit: ReadDeadline | None) -> Exception:
    if limit is not None and limit.is_over():
        return rule_error("http.deadline", retry_after=BUSY_RETRY_SECONDS)
    if not is_storage_error(error):
        return error
    log.error("the database cannot be read: %s", os_errors.describe(error) or error)
    return unavailable_error()


def _read_in_transaction(run: Callable[[], T], limit: ReadDeadline | None) -> T:
    connection = _get_connection()
    connection.execute("BEGIN")
    try:
        if limit is not None:
            _set_deadline(connection, limit)
        return run()
    finally:  # nothing of the limit is left for the next read, nor for this one's end
        _set_deadline(connection, None)
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _set_deadline(connection: sqlite3.Connection, limit: ReadDeadline | None) -> None:
    read_limits.check = limit.check if limit else None
    connection.set_progress_handler(limit.is_over if limit else None, STEPS_BETWEEN_CHECKS)


def _close_connection() -> None:
    if proxy.obj is not None:  # else none was ever opened
        proxy.close()


def _get_connection() -> sqlite3.Connection:
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

"""Reader threads, each with its own connection.

A long read blocks its reader, so authentication, requests and the engine have separate pools (`database.py`), and reads
of requests have a deadline: READ_SECONDS after they were queued, waiting included.
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
STEPS_BETWEEN_CHECKS = 100_000  # virtual machine steps; each check needs the interpreter lock
Monotonic = Callable[[], float]

current_requester: ContextVar[ShareKey | None] = ContextVar("current_requester", default=None)
"""The share key of the request that reads; None for the engine and commands."""


class ReadDeadline:
    """The deadline of one read: checked by SQLite during a statement, and before each one."""

    def __init__(self, monotonic: Monotonic, until: float) -> None:
        self._monotonic, self._until, self._is_over = monotonic, until, False

    def is_over(self) -> bool:
        self._is_over = self._is_over or self._monotonic() >= self._until
        return self._is_over

    def check(self) -> None:
        """Raise ApiError `http.deadline` after the deadline."""
        if self.is_over():
            raise rule_error("http.deadline", retry_after=BUSY_RETRY_SECONDS)


class ReaderPool:
    """A number of reader threads; `limits` bounds the queue."""

    def __init__(
        self, threads: int, name: str, files: DatabaseFiles, monotonic: Monotonic, limits: QueueLimits | None = None
    ):
        self._pool = FairExecutor(threads, name, limits, ended=_close_connection, future=DbFuture)
        self._files, self._monotonic = files, monotonic

    def read(self, share: ShareKey, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot, without a time limit."""
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, None))

    def read_in_time(self, share: ShareKey, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot within READ_SECONDS.

        Raise ApiError `http.busy` if too many reads wait; `http.deadline` after the deadline.
        """
        self._pool.admit(share)
        limit = ReadDeadline(self._monotonic, self._monotonic() + READ_SECONDS)
        return cast("DbFuture[T]", self._pool.submit_for(share, self._in_snapshot, run, limit))

    def close(self) -> None:
        """Finish the accepted reads, then close the connections."""
        self._pool.shutdown(wait=True)

    def _in_snapshot(self, run: Callable[[], T], limit: ReadDeadline | None) -> T:
        try:
            self._files.check()
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
    finally:  # the limit must apply neither to the ROLLBACK nor to the next read
        _set_deadline(connection, None)
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _set_deadline(connection: sqlite3.Connection, limit: ReadDeadline | None) -> None:
    read_limits.check = limit.check if limit else None
    connection.set_progress_handler(limit.is_over if limit else None, STEPS_BETWEEN_CHECKS)


def _close_connection() -> None:
    if proxy.obj is not None:  # a connection was opened
        proxy.close()


def _get_connection() -> sqlite3.Connection:
    """Return this reader thread's connection, opening it if necessary."""
    if proxy.is_closed():
        proxy.connect()
        try:
            proxy.connection().execute("PRAGMA query_only = 1")
            proxy.connection().execute("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        except BaseException:
            proxy.close()
            raise
    return proxy.connection()  # type: ignore[no-any-return]

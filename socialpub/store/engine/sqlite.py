"""SQLite connections, and the errors of a database that does not work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sqlite3
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import peewee

from socialpub.base.errors import ApiError, rule_error
from socialpub.store.engine import id_fields
from socialpub.store.engine.locks import LOCK_SECONDS

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
STORAGE_RETRY_SECONDS = 5
STATEMENT_CACHE_SIZE = 512  # compiled statements per connection: more than the server has

_PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "full",  # an acknowledged write survives a power cut
    "foreign_keys": 1,
    "busy_timeout": int(LOCK_SECONDS * 1000),
    "journal_size_limit": 16 * 1024 * 1024,
    # A checkpoint costs two fsyncs more. 4,000 pages fit into the journal size limit, and pages that are written often
    # are copied a quarter as often as with SQLite's default of 1,000. Only the writer's setting matters.
    "wal_autocheckpoint": 4000,
    "temp_store": "memory",
    "trusted_schema": 0,
    "fullfsync": 1,  # macOS; ignored elsewhere
}

proxy = peewee.DatabaseProxy()


class BaseModel(peewee.Model):  # type: ignore[misc]
    """A table bound to the database of this process."""

    class Meta:
        database = proxy
        legacy_table_names = False

    @classmethod
    def select(cls, *fields: Any) -> Any:
        """Select these fields, or all; encoded ids are selected as text."""
        return super().select(*map(id_fields.select_as_id, fields or cls._meta.sorted_fields))


class ReadLimits(threading.local):
    """The check that this thread makes before each statement; it raises after the deadline."""

    check: Callable[[], None] | None = None


read_limits = ReadLimits()


class _LimitedSqliteDatabase(peewee.SqliteDatabase):  # type: ignore[misc]
    def execute_sql(self, sql: str, params: Any = None) -> Any:
        if read_limits.check is not None:
            read_limits.check()
        return super().execute_sql(sql, params)


def make_peewee_database(path: Path) -> peewee.SqliteDatabase:
    return _LimitedSqliteDatabase(
        str(path),
        pragmas=_PRAGMAS,
        lock_type="IMMEDIATE",
        autoconnect=False,
        timeout=LOCK_SECONDS,
        cached_statements=STATEMENT_CACHE_SIZE,
    )


class DbFuture(concurrent.futures.Future[T]):
    """The future of a read or write: `.result()` in a thread, `await` on an event loop."""

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()


def failed_future(error: Exception) -> DbFuture[Any]:
    """Return a future that has already failed."""
    future = DbFuture[Any]()
    future.set_exception(error)
    return future


def is_storage_error(error: BaseException) -> bool:
    """Return whether the disk or the file failed (full, locked, damaged), not the statement."""
    if isinstance(error, peewee.OperationalError | sqlite3.OperationalError):
        return True
    exact = (peewee.DatabaseError, sqlite3.DatabaseError)  # raised for damaged pages; its subclasses have other causes
    return type(error) in exact or isinstance(error, OSError)


def unavailable_error(why: str | None = None) -> ApiError:
    message = f"Nothing can be written at the moment: {why}." if why else None
    return rule_error("storage.unavailable", message, retry_after=STORAGE_RETRY_SECONDS)

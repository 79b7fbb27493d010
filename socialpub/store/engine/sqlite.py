"""How a connection to the database is made, and how it is answered where one does not work."""

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
STATEMENT_CACHE_SIZE = 512  # compiled, of each connection: more than all that the server asks

_PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "full",  # an acknowledged write survives a power cut
    "foreign_keys": 1,
    "busy_timeout": int(LOCK_SECONDS * 1000),
    "journal_size_limit": 16 * 1024 * 1024,
    # A checkpoint costs two fsyncs besides that of the commit. This is what the log may keep anyway, and pages that are
    # written again and again are carried over a quarter as often as with SQLite's own 1,000. Only the writer's counts.
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
        """A query of these fields, or of all: ids are told as everybody knows them, however they are kept."""
        return super().select(*map(id_fields.select_as_id, fields or cls._meta.sorted_fields))


class ReadLimits(threading.local):
    """What is asked, in this thread, before each statement; it raises where no more may be read."""

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
    """Result of a read or a write: `.result()` in a thread, `await` on an event loop."""

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()


def failed_future(error: Exception) -> DbFuture[Any]:
    """Result of what could not be asked for."""
    future = DbFuture[Any]()
    future.set_exception(error)
    return future


def is_storage_error(error: BaseException) -> bool:
    """Whether it is the disk or the file (full, locked, damaged), and not a mistake in the statement or its values."""
    if isinstance(error, peewee.OperationalError | sqlite3.OperationalError):
        return True
    exact = (peewee.DatabaseError, sqlite3.DatabaseError)  # what a damaged page raises; its subclasses are others
    return type(error) in exact or isinstance(error, OSError)


def unavailable_error(why: str | None = None) -> ApiError:
    message = f"Nothing can be written at the moment: {why}." if why else None
    return rule_error("storage.unavailable", message, retry_after=STORAGE_RETRY_SECONDS)

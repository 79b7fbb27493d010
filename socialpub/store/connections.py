"""How a connection to the database is made, and how it is answered where one does not work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import peewee

from socialpub.base.errors import ApiError, refuse
from socialpub.store import ids
from socialpub.store.locks import LOCK_SECONDS

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
STORAGE_RETRY_SECONDS = 5
STATEMENTS_KEPT = 512  # compiled, of each connection: more than all that the server asks

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
        return super().select(*map(ids.selected, fields or cls._meta.sorted_fields))


class Limits(threading.local):
    """What is asked, in this thread, before each statement; it raises where no more may be read."""

    check: Callable[[], None] | None = None


limits = Limits()


class _Sqlite(peewee.SqliteDatabase):  # type: ignore[misc]
    def execute_sql(self, sql: str, params: Any = None) -> Any:
        if limits.check is not None:
            limits.check()
        return super().execute_sql(sql, params)


def peewee_database(path: Path) -> peewee.SqliteDatabase:
    return _Sqlite(
        str(path),
        pragmas=_PRAGMAS,
        lock_type="IMMEDIATE",
        autoconnect=False,
        timeout=LOCK_SECONDS,
        cached_statements=STATEMENTS_KEPT,
    )


class Coming(Generic[T]):
    """What comes of a write: set once, by the thread that writes, and asked for by anybody.

    A `concurrent.futures.Future` makes two locks for each, though hardly anybody waits for one in a thread.
    """

    __slots__ = ("_callbacks", "_error", "_is_done", "_value")

    def __init__(self) -> None:
        self._callbacks: deque[Callable[[Coming[T]], object]] = deque()
        self._is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        """Never: whoever goes away does not undo what was asked for."""
        return False

    def set_result(self, value: T) -> None:
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._end()

    def exception(self) -> BaseException | None:
        """Once it is done."""
        return self._error

    def result(self, timeout: float | None = None) -> T:
        """Wait for it; TimeoutError when it takes longer."""
        if not self._is_done:
            done = threading.Event()
            self.add_done_callback(lambda _: done.set())
            if not done.wait(timeout):
                raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def add_done_callback(self, callback: Callable[[Coming[T]], object]) -> None:
        """Call it once it is done: in the thread that ends it, or at once."""
        self._callbacks.append(callback)
        if self._is_done:  # perhaps only now, and whoever ended it has not seen the callback
            self._call()

    def _end(self) -> None:
        self._is_done = True
        self._call()

    def _call(self) -> None:
        """Each is taken by one thread, whichever comes first."""
        with contextlib.suppress(IndexError):
            while True:
                callback = self._callbacks.popleft()
                try:
                    callback(self)
                except Exception:  # noqa: BLE001 - the others are called, and the thread that writes lives on
                    log.exception("whoever waited for a write failed")


Told: TypeAlias = concurrent.futures.Future[T] | Coming[T]


class _Mail:
    """What has come for those who wait on one loop: it is called once for all that comes before it looks.

    A transaction answers many who wait, and each call of a loop from another thread costs as much as the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._come = deque[tuple[asyncio.Future[Any], Told[Any]]]()
        self._called = False

    def put(self, waiter: asyncio.Future[Any], future: Told[Any]) -> None:
        """In any thread: `future` is done, and whoever waits on the loop is to know."""
        self._come.append((waiter, future))
        if not self._called and not self.loop.is_closed():
            self._called = True
            self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False  # before it looks: what comes from now on calls again
        while self._come:
            waiter, future = self._come.popleft()
            if not waiter.done():
                _settle(waiter, future)


def _settle(waiter: asyncio.Future[Any], future: Told[Any]) -> None:
    if future.cancelled():
        waiter.cancel()
    elif (error := future.exception()) is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(future.result())


class OfLoop(threading.local, Generic[T]):
    """What the loop that runs in this thread has of its own: `make` makes it of a loop."""

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], T]) -> None:
        self._make = make
        self._made: tuple[asyncio.AbstractEventLoop, T] | None = None

    def get(self, loop: asyncio.AbstractEventLoop) -> T:
        """That of the loop that runs now; a new one's where it is another than before."""
        if self._made is None or self._made[0] is not loop:
            self._made = loop, self._make(loop)
        return self._made[1]


_mails = OfLoop(_Mail)


class Promise(Generic[T]):
    """The result of a read or write to come: `await` it on the loop, or `.result()` in a thread.

    A client that goes away stops waiting, and does not undo what was asked for.
    """

    def __init__(self, future: Told[T]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> T:
        return self._future.result(timeout)

    def when_failed(self, run: Callable[[], None]) -> None:
        """Call `run` where there will be no result, in whatever thread knows it first."""
        self._future.add_done_callback(lambda future: run() if future.cancelled() or future.exception() else None)

    def when_over(self, run: Callable[[BaseException | None], None]) -> None:
        """Call `run` once there is a result, with nothing, or with why there is none; in whatever thread knows it."""
        self._future.add_done_callback(lambda future: run(future.exception()))

    def tell(self, waiter: asyncio.Future[T]) -> None:
        """End what somebody waits for on the loop that runs here, with all that comes for it at the same time."""
        self._future.add_done_callback(functools.partial(_mails.get(waiter.get_loop()).put, waiter))

    def __await__(self) -> Generator[Any, None, T]:
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.tell(waiter)
        return waiter.__await__()


def failed(error: Exception) -> Promise[Any]:
    """The promise of what could not even be asked."""
    future: Coming[Any] = Coming()
    future.set_exception(error)
    return Promise(future)


def is_storage(error: BaseException) -> bool:
    """Whether it is the disk or the file (full, locked, damaged), and not a mistake in the statement or its values."""
    if isinstance(error, peewee.OperationalError | sqlite3.OperationalError):
        return True
    exact = (peewee.DatabaseError, sqlite3.DatabaseError)  # what a damaged page raises; its subclasses are others
    return type(error) in exact or isinstance(error, OSError)


def unavailable(why: str | None = None) -> ApiError:
    message = f"Nothing can be written at the moment: {why}." if why else None
    return refuse("storage.unavailable", message, retry_after=STORAGE_RETRY_SECONDS)

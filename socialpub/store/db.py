"""One SQLite file: one writer thread with group commit, a few readers, and migrations.

Every write of the program is a function given to `Database.write`; whatever waits is run inside one durable
transaction, each function in a savepoint, and answered after the commit. Only these threads hold connections: code in
any other thread cannot touch the database by accident.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Generic, TypeVar

import peewee
from playhouse.migrations import Runner

from socialpub.base import faults, troubles
from socialpub.base.config import shipped
from socialpub.base.errors import ApiError, refuse
from socialpub.store.locks import LOCK_SECONDS, StartError, damaged, held, open_lock, unusable, write_lock_path
from socialpub.store.place import LOST, LostError, Place

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
GROUP_MAX = 256
READERS = 4
CHECKED_WHOLE = 256 * 1024 * 1024
STORAGE_RETRY_SECONDS = 5

_PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "full",  # an acknowledged write survives a power cut
    "foreign_keys": 1,
    "busy_timeout": int(LOCK_SECONDS * 1000),
    "journal_size_limit": 16 * 1024 * 1024,
    "temp_store": "memory",
    "trusted_schema": 0,
    "fullfsync": 1,  # macOS; ignored elsewhere
}

proxy = peewee.DatabaseProxy()
_abandoned: list[sqlite3.Connection] = []  # kept open until the process ends


class BaseModel(peewee.Model):  # type: ignore[misc]
    """A table bound to the database of this process."""

    class Meta:
        database = proxy
        legacy_table_names = False


class FencedError(Exception):
    """Another server has taken over this database; this process must not write any more."""


class Tx:
    """One write function's transaction: what it wants done only once it is durable."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the writer thread after the commit; it must be short and must not raise."""
        self._callbacks.append(callback)

    def committed(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - it is durable already; the writer thread must live on
                log.exception("a callback after a commit failed")


class Answer(Generic[T]):
    """The result of a read or write to come: `await` it on the loop, or `.result()` in a thread.

    Awaiting is shielded: a client that goes away does not undo what was asked for.
    """

    def __init__(self, future: concurrent.futures.Future[T]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> T:
        return self._future.result(timeout)

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()


class _Write(Generic[T]):
    def __init__(self, run: Callable[[Tx], T]) -> None:
        self.run, self.tx = run, Tx()
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.value: T | None = None

    def succeed(self) -> None:
        self.tx.committed()
        self.future.set_result(self.value)  # type: ignore[arg-type]


class Database:
    """The open database of this process: `write(fn)` and `read(fn)` from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.guard: Callable[[], None] | None = None  # runs first in each transaction; FencedError stops all writing
        self._inbox: queue.SimpleQueue[_Write[Any] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_loop, name="db-writer", daemon=True)
        self._readers = concurrent.futures.ThreadPoolExecutor(READERS, "db-reader")
        self._lock_file = open_lock(write_lock_path(path))
        self.place = Place(path)
        self.failing = ""  # why the last change could not be written
        self._opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closed, self._closing = False, threading.Lock()
        self.fenced = threading.Event()  # set once another server has taken over: nothing is written any more

    def open(self) -> Database:
        """Connect and start the threads; StartError when the file cannot be used."""
        proxy.initialize(_peewee_database(self.path))
        self._writer.start()
        self._opened.result()
        return self

    def close(self) -> None:
        """Finish what was asked for, then close every connection."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        barrier = threading.Barrier(READERS)
        for done in [self._readers.submit(_close_reader, barrier) for _ in range(READERS)]:
            done.result()
        self._readers.shutdown(wait=True)
        self._inbox.put(None)
        self._writer.join()
        self.place.close()
        self._lock_file.close()

    def look(self) -> None:
        """ApiError `storage.unavailable` unless a transaction can begin on the files in their places."""
        self.write(lambda tx: None).result()

    def write(self, run: Callable[[Tx], T]) -> Answer[T]:
        """Run a function in the next transaction; its answer comes after the commit is on the disk.

        An exception undoes this function's changes only. ApiError `storage.unavailable` when nothing can be written.
        The function must be short and must not wait for anything.
        """
        item = _Write(run)
        with self._closing:  # nothing may be put behind the last of the inbox: nobody would answer it
            if self._closed:
                item.future.set_exception(_unavailable())
            else:
                self._inbox.put(item)
        return Answer(item.future)

    def read(self, run: Callable[[], T]) -> Answer[T]:
        """Run a function on one consistent snapshot; ApiError `storage.unavailable` when nothing can be read."""
        with self._closing:
            if not self._closed:
                return Answer(self._readers.submit(self._in_snapshot, run))
        refused: concurrent.futures.Future[T] = concurrent.futures.Future()
        refused.set_exception(_unavailable())
        return Answer(refused)

    def _in_snapshot(self, run: Callable[[], T]) -> T:
        try:
            self.place.look()
        except LostError as error:
            raise _unavailable(LOST) from error
        return _in_snapshot(run)

    # --- The writer thread ---

    def _write_loop(self) -> None:
        try:
            self._open_writer()
        except (peewee.PeeweeException, sqlite3.Error, OSError, StartError) as error:
            self._opened.set_exception(error if isinstance(error, StartError) else unusable(self.path, error))
            return
        self._opened.set_result(None)
        while (first := self._inbox.get()) is not None:
            self._commit(self._gather(first))
        with held(self._lock_file):
            if self.place.is_overwritten:
                _abandoned.append(proxy.connection())  # to close it would bring the log into what is there now
            else:
                proxy.close()

    def _open_writer(self) -> None:
        with held(self._lock_file):
            proxy.connect()
            proxy.connection().execute("BEGIN IMMEDIATE")
            proxy.connection().execute("COMMIT")
            self.place.remember()

    def _gather(self, first: _Write[Any]) -> list[_Write[Any]]:
        group = [first]
        while len(group) < GROUP_MAX:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._inbox.put(None)
                break
            group.append(item)
        return group

    def _commit(self, group: list[_Write[Any]]) -> None:
        """Run a group in one transaction and answer it."""
        group = [item for item in group if item.future.set_running_or_notify_cancel()]
        try:
            with held(self._lock_file):
                done = self._transaction(group)
        except FencedError as error:
            self.failing = str(error)
            log.critical("%s", error)
            self.fenced.set()
            _fail(group, _unavailable())
        except LostError:  # the log has it from whoever saw it first
            _fail(group, _unavailable(LOST))
        except (peewee.PeeweeException, sqlite3.Error, OSError) as error:
            _fail(group, self._refused(error))
        except Exception:  # noqa: BLE001 - whatever it was, the writer thread must live on and every caller be told
            log.exception("a transaction on %s stopped", self.path)
            _fail(group, _unavailable())
        else:
            for item in done:
                item.succeed()

    def _refused(self, error: BaseException) -> ApiError:
        self.failing = troubles.why(error) or str(error)
        log.error("nothing can be written to %s: %s", self.path, self.failing)
        return _unavailable(troubles.why(error))

    def _transaction(self, group: list[_Write[Any]]) -> list[_Write[Any]]:
        connection: sqlite3.Connection = proxy.connection()
        self.place.look()
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self.guard:
                self.guard()
            done = [item for item in group if self._run_one(connection, item)]
            faults.hit("db.commit")
            self.place.look()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.place.wrote()
        self.failing = self.failing if connection.total_changes == before else ""
        return done

    def _run_one(self, connection: sqlite3.Connection, item: _Write[Any]) -> bool:
        connection.execute("SAVEPOINT one")
        try:
            item.value = item.run(item.tx)
        except Exception as error:  # noqa: BLE001 - handed to whoever asked for the write
            # A full disk makes SQLite roll the whole transaction back by itself.
            if not connection.in_transaction:
                raise peewee.OperationalError(str(error)) from error
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            if _is_storage(error):
                error = self._refused(error)
            item.future.set_exception(error)
            return False
        connection.execute("RELEASE one")
        return True


# --- Readers -----------------------------------------------------------------------------------------------------


def _reader() -> sqlite3.Connection:
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


def _close_reader(barrier: threading.Barrier) -> None:
    proxy.close()
    barrier.wait()  # so that each thread of the pool gets exactly one of these


def _in_snapshot(run: Callable[[], T]) -> T:
    try:
        connection = _reader()
        connection.execute("BEGIN")
        try:
            return run()
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except (peewee.DatabaseError, sqlite3.DatabaseError) as error:
        if not _is_storage(error):
            raise
        log.error("the database cannot be read: %s", troubles.why(error) or error)
        raise _unavailable() from error


def _peewee_database(path: Path) -> peewee.SqliteDatabase:
    return peewee.SqliteDatabase(
        str(path), pragmas=_PRAGMAS, lock_type="IMMEDIATE", autoconnect=False, timeout=LOCK_SECONDS
    )


def _is_storage(error: BaseException) -> bool:
    """Whether it is the disk or the file (full, locked, damaged), and not a mistake in the statement or its values."""
    if isinstance(error, peewee.OperationalError | sqlite3.OperationalError):
        return True
    exact = (peewee.DatabaseError, sqlite3.DatabaseError)  # what a damaged page raises; its subclasses are others
    return type(error) in exact or isinstance(error, OSError)


def _fail(group: list[_Write[Any]], error: Exception) -> None:
    for item in group:
        if not item.future.done():
            item.future.set_exception(error)


def _unavailable(why: str | None = None) -> ApiError:
    message = f"Nothing can be written at the moment: {why}." if why else None
    return refuse("storage.unavailable", message, retry_after=STORAGE_RETRY_SECONDS)


# --- Migrations --------------------------------------------------------------------------------------------------


def migrate(path: Path) -> tuple[str | None, str | None, list[str]]:
    """Bring the file to the newest schema: (name of the newest migration before, after, those applied now).

    Each file of `migrations/` is applied in one transaction with its record. StartError for a file that is no
    database, is damaged, or was written by a newer socialpub.
    """
    with contextlib.closing(open_lock(write_lock_path(path))) as lock, held(lock):
        database = _peewee_database(path)
        try:
            database.connect()
            runner = Runner(database, str(shipped("migrations")))
            before = _newest(runner)
            _refuse_newer(path, runner)
            applied = runner.up()
            return before, _newest(runner), applied
        except (peewee.DatabaseError, sqlite3.DatabaseError, OSError) as error:
            raise unusable(path, error) from error
        finally:
            database.close()


def _newest(runner: Runner) -> str | None:
    return max(runner.applied(), default=None)


def _refuse_newer(path: Path, runner: Runner) -> None:
    unknown = [m.name for m in runner.status() if m.path is None]
    if unknown:
        raise StartError(f"{path} was written by a newer socialpub ({', '.join(unknown)}); install that version")


def check_integrity(path: Path) -> None:
    """StartError unless SQLite finds the file whole; run before a server opens its port.

    Above CHECKED_WHOLE indexes and references are left out, which makes it several times faster.
    """
    database, whole = _peewee_database(path), path.stat().st_size <= CHECKED_WHOLE
    check = "integrity_check" if whole else "quick_check"
    try:
        database.connect()
        problems = [row[0] for row in database.execute_sql(f"PRAGMA {check}(5)").fetchall()]
        lost = database.execute_sql("PRAGMA foreign_key_check").fetchone() if whole else None
        problems += [f"a row of {lost[0]} names a row of {lost[2]} that is not there"] if lost else []
    except (peewee.DatabaseError, sqlite3.DatabaseError) as error:
        if troubles.why(error):
            raise unusable(path, error) from error
        problems = [str(error)]
    finally:
        database.close()
    if problems != ["ok"]:
        raise damaged(path, "; ".join(problems))

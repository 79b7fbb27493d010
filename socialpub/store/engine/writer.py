"""The one thread that writes: group commit, each function in a savepoint, answered once it is on the disk.

What is asked for during a commit is the next transaction. An owner that asks for many writes does not fill it: each
owner has a queue, and a group takes from all of them in turn.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import peewee

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError
from socialpub.base.observability import metrics
from socialpub.base.system import os_errors
from socialpub.store.engine.file_identity import REPLACED_MESSAGE, DatabaseFiles, DatabaseReplacedError
from socialpub.store.engine.locks import StartError, get_write_lock_path, hold, open_lock, unusable_error
from socialpub.store.engine.sqlite import (
    DbFuture,
    failed_future,
    is_storage_error,
    make_peewee_database,
    proxy,
    unavailable_error,
)

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
GROUP_MAX = 256
GROUP_OWNER_MAX = 32  # writes of one owner in a group, so that others wait for no more

_abandoned_connections: list[sqlite3.Connection] = []  # kept open until the process ends


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


GroupWrite = Callable[[Tx, Sequence[Any]], Sequence[Any]]
"""A write of several of a kind at once: of each what comes of it, or an exception, and then nothing of any.

Within a transaction it comes before or after those of other kinds: whoever needs one to be there waits for it.
"""


class _PendingWrite(Generic[T]):
    """A write that was asked for; `kind` and `what`: it may be done together with others of its kind."""

    def __init__(self, run: Callable[[Tx], T], owner: str, kind: GroupWrite | None = None, what: Any = None) -> None:
        self.run, self.owner, self.tx = run, owner, Tx()
        self.kind, self.what = kind, what
        self.future = DbFuture[T]()
        self.future.set_running_or_notify_cancel()  # a client that goes away does not undo it
        self.value: T | None = None

    def succeed(self) -> None:
        """It is on the disk."""
        self.tx.committed()
        self.future.set_result(self.value)  # type: ignore[arg-type]


class DatabaseWriter:
    """The writing connection of this process; `place` is what it has open."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self.path, self.place = path, DatabaseFiles(path, monotonic)
        self.guard: Callable[[], None] | None = None  # runs first in each transaction; FencedError stops all writing
        self.failing = ""  # why the last change could not be written
        self.fenced = threading.Event()  # set once another server has taken over: nothing is written any more
        self._inbox: queue.SimpleQueue[_PendingWrite[Any] | None] = queue.SimpleQueue()
        self._lines: dict[str, deque[_PendingWrite[Any]]] = {}  # what waits of each owner; the thread's own
        self._ends = False  # nothing comes any more
        self._thread = threading.Thread(target=self._write_loop, name="db-writer", daemon=True)
        self._lock_file = open_lock(get_write_lock_path(path))
        self._opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closed, self._putting = False, threading.Lock()

    def open(self) -> None:
        """Connect and start the thread; StartError when the file cannot be used."""
        proxy.initialize(make_peewee_database(self.path))
        self._thread.start()
        self._opened.result()

    def refuse_more(self) -> None:
        """From now on nothing is taken."""
        with self._putting:
            self._closed = True

    def close(self) -> None:
        """Finish what was asked for, then close the connection."""
        self._inbox.put(None)
        self._thread.join()
        self.place.close()
        self._lock_file.close()

    def write(self, run: Callable[[Tx], T], owner: str) -> DbFuture[T]:
        """Run a function in the next transaction that has room for its owner's: in the order in which they came."""
        return self._put(_PendingWrite(run, owner))

    def write_together(self, kind: GroupWrite, what: Any, owner: str) -> DbFuture[Any]:
        """Run one of a kind, in one call with others of it that wait; where that fails, alone."""
        return self._put(_PendingWrite(lambda tx: kind(tx, (what,))[0], owner, kind, what))

    def _put(self, item: _PendingWrite[T]) -> DbFuture[T]:
        with self._putting:  # nothing may be put behind the last of the inbox: it would never be answered
            if not self._closed:
                self._inbox.put(item)
                return item.future
        return failed_future(unavailable_error())

    def _write_loop(self) -> None:
        try:
            self._open_writer()
        except (peewee.PeeweeException, sqlite3.Error, OSError, StartError) as error:
            self._opened.set_exception(error if isinstance(error, StartError) else unusable_error(self.path, error))
            return
        self._opened.set_result(None)
        while group := self._gather():
            self._commit(group)
        with hold(self._lock_file):
            if self.place.is_overwritten:
                _abandoned_connections.append(
                    proxy.connection()
                )  # to close it would bring the log into what is there now
            else:
                proxy.close()

    def _open_writer(self) -> None:
        with hold(self._lock_file):
            proxy.connect()
            proxy.connection().execute("BEGIN IMMEDIATE")
            proxy.connection().execute("COMMIT")
            self.place.remember()

    def _gather(self) -> list[_PendingWrite[Any]]:
        """The next group, from all lines in turn; none once there will be no more."""
        if not self._lines and not self._ends:
            self._place(self._inbox.get())
        while not self._inbox.empty():
            self._place(self._inbox.get())
        group: list[_PendingWrite[Any]] = []
        for _ in range(GROUP_OWNER_MAX):
            group += self._one_of_each(GROUP_MAX - len(group))
        return group

    def _place(self, item: _PendingWrite[Any] | None) -> None:
        if item is None:
            self._ends = True
        else:
            self._lines.setdefault(item.owner, deque()).append(item)

    def _one_of_each(self, room: int) -> list[_PendingWrite[Any]]:
        """The first of each line, of `room` lines at most; each then goes behind the others."""
        taken: list[_PendingWrite[Any]] = []
        for owner in list(self._lines)[:room]:
            line = self._lines.pop(owner)
            taken.append(line.popleft())
            if line:
                self._lines[owner] = line
        return taken

    def _commit(self, group: list[_PendingWrite[Any]]) -> None:
        """Run a group in one transaction, then answer each."""
        try:
            with hold(self._lock_file):
                done = self._transaction(group)
        except FencedError as error:
            self.failing = str(error)
            log.critical("%s", error)
            self.fenced.set()
            _fail_all(group, unavailable_error())
        except DatabaseReplacedError:  # it was logged where it was first seen
            _fail_all(group, unavailable_error(REPLACED_MESSAGE))
        except (peewee.PeeweeException, sqlite3.Error, OSError) as error:
            _fail_all(group, self._refused(error))
        except Exception:  # noqa: BLE001 - the writer thread must live on, and every caller be answered
            log.exception("a transaction on %s stopped", self.path)
            _fail_all(group, unavailable_error())
        else:
            for item in done:
                item.succeed()

    def _refused(self, error: BaseException) -> ApiError:
        why = os_errors.describe_at(self.path, error)
        self.failing = why or str(error)
        log.error("nothing can be written to %s: %s", self.path, self.failing)
        return unavailable_error(why)

    def _transaction(self, group: list[_PendingWrite[Any]]) -> list[_PendingWrite[Any]]:
        connection: sqlite3.Connection = proxy.connection()
        self.place.look_lately()
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self.guard is not None:
                self.guard()
            done = self._run_all(connection, group)
            if not done:
                connection.execute("ROLLBACK")
                return done
            fault_injection.hit("db.commit")
            self.place.look()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.place.wrote()
        metrics.COMMIT_CHANGES.observe(len(done))
        self.failing = self.failing if connection.total_changes == before else ""
        return done

    def _run_all(self, connection: sqlite3.Connection, group: list[_PendingWrite[Any]]) -> list[_PendingWrite[Any]]:
        """Those that were done, in the order of the group."""
        done: list[_PendingWrite[Any]] = []
        for kind, some in _group_by_kind(group):
            if kind is None or len(some) == 1 or not self._run_together(connection, kind, some):
                some = [item for item in some if self._run_one(connection, item)]
            done += some
        return done

    def _run_together(self, connection: sqlite3.Connection, kind: GroupWrite, items: list[_PendingWrite[Any]]) -> bool:
        """Several of a kind in one call; where it fails, nothing is done, and each is to be done by itself."""
        tx = Tx()
        try:
            with _use_savepoint(connection):
                values = kind(tx, [item.what for item in items])
        except Exception as error:  # noqa: BLE001 - whose it is shows when each is done by itself
            _check_open(connection, error)
            return False
        for item, value in zip(items, values, strict=True):
            item.value = value
        items[0].tx = tx
        return True

    def _run_one(self, connection: sqlite3.Connection, item: _PendingWrite[Any]) -> bool:
        try:
            with _use_savepoint(connection):
                item.value = item.run(item.tx)
        except Exception as error:  # noqa: BLE001 - the future of the write has it
            _check_open(connection, error)
            item.future.set_exception(self._refused(error) if is_storage_error(error) else error)
            return False
        return True


@contextlib.contextmanager
def _use_savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what the block did, and nothing else of the transaction, where it fails."""
    connection.execute("SAVEPOINT one")
    try:
        yield
    except Exception:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO one")
        raise
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE one")


def _check_open(connection: sqlite3.Connection, error: Exception) -> None:
    """OperationalError where SQLite has rolled back the whole transaction by itself, as a full disk makes it."""
    if not connection.in_transaction:
        raise peewee.OperationalError(str(error)) from error


def _group_by_kind(group: Sequence[_PendingWrite[Any]]) -> Iterator[tuple[GroupWrite | None, list[_PendingWrite[Any]]]]:
    """The group by its kinds. What is of no kind keeps its place: whatever came before it is done before it."""
    kinds: dict[GroupWrite, list[_PendingWrite[Any]]] = {}
    for item in group:
        if item.kind is not None:
            kinds.setdefault(item.kind, []).append(item)
            continue
        yield from kinds.items()
        kinds = {}
        yield None, [item]
    yield from kinds.items()


def _fail_all(group: Sequence[_PendingWrite[Any]], error: Exception) -> None:
    for item in group:
        if not item.future.done():
            item.future.set_exception(error)

"""The writer thread: group commit with one savepoint per function.

A write gets its result once the commit is durable. Writes that arrive during a commit join the next transaction. Each
owner (organization) has a queue, and a group takes from all queues in turn, so that an owner with many writes does not
fill it.
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
GROUP_OWNER_MAX = 32  # writes of one owner per group

_abandoned_connections: list[sqlite3.Connection] = []  # open until the process ends


class FencedError(Exception):
    """Another server took over this database; this process must not write."""


class Tx:
    """The transaction of one write function."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the writer thread after the commit. It must be short and not raise."""
        self._callbacks.append(callback)

    def run_callbacks(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the commit is durable; the thread must continue
                log.exception("a callback after a commit failed; the commit is durable")


GroupWrite = Callable[[Tx, Sequence[Any]], Sequence[Any]]
"""Writes several values of one kind: returns one result per value, or raises, and then none is written.

The order of kinds within a transaction is undefined: a write that needs another one must wait for its future.
"""


class _PendingWrite(Generic[T]):
    """A queued write. With `kind` and `value`, it may be grouped with others of its kind."""

    def __init__(self, run: Callable[[Tx], T], owner: str, kind: GroupWrite | None = None, value: Any = None) -> None:
        self.run, self.owner, self.tx = run, owner, Tx()
        self.kind, self.value = kind, value
        self.result: T | None = None
        self.error: Exception | None = None  # the write's own refusal
        self._future: DbFuture[T] | None = None

    def make_future(self) -> DbFuture[T]:
        self._future = future = DbFuture[T]()
        future.set_running_or_notify_cancel()  # not cancelable: a client that disconnects does not undo it
        return future

    def resolve(self) -> None:
        """Hand over the result or the refusal.

        Only once the transaction is durable: either may rest on rows that another write of it has made.
        """
        if self.error is not None:
            self.fail(self.error)
            return
        self.tx.run_callbacks()
        if self._future is not None:
            self._future.set_result(self.result)  # type: ignore[arg-type]

    def fail(self, error: Exception) -> None:
        """Resolve the future with `error`, and forget both.

        The traceback of `error` holds frames of the writer, and these hold the group. A future or an error in the group
        would close a cycle: only the garbage collector would free the error, with the request's body.
        """
        future, self._future, self.error = self._future, None, None
        if future is not None:
            future.set_exception(error)


class DatabaseWriter:
    """The writing connection of this process."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self.path, self.files = path, DatabaseFiles(path, monotonic)
        # Runs first in each transaction; its FencedError stops all writing.
        self.guard: Callable[[], None] | None = None
        self.failing = ""  # why the last write failed
        self.fenced = threading.Event()  # set once another server has taken over
        self._inbox: queue.SimpleQueue[_PendingWrite[Any] | None] = queue.SimpleQueue()
        self._queues: dict[str, deque[_PendingWrite[Any]]] = {}  # by owner; used only by the writer thread
        self._is_ending = False  # no more writes will arrive
        self._thread = threading.Thread(target=self._write_loop, name="db-writer", daemon=True)
        self._lock_file = open_lock(get_write_lock_path(path))
        self._opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closed, self._put_lock = False, threading.Lock()

    def open(self) -> None:
        """Connect and start the thread; raise StartError if the file cannot be used."""
        proxy.initialize(make_peewee_database(self.path))
        self._thread.start()
        self._opened.result()

    def refuse_more(self) -> None:
        """Refuse all further writes."""
        with self._put_lock:
            self._closed = True

    def close(self) -> None:
        """Finish the accepted writes, then close the connection."""
        self._inbox.put(None)
        self._thread.join()
        self.files.close()
        self._lock_file.close()

    def write(self, run: Callable[[Tx], T], owner: str) -> DbFuture[T]:
        """Run a function in the next transaction with room for its owner, in the owner's order."""
        return self._put(_PendingWrite(run, owner))

    def write_together(self, kind: GroupWrite, value: Any, owner: str) -> DbFuture[Any]:
        """Run `kind` for this value and others that wait; if that fails, for each value alone."""
        return self._put(_PendingWrite(lambda tx: kind(tx, (value,))[0], owner, kind, value))

    def _put(self, item: _PendingWrite[T]) -> DbFuture[T]:
        future = item.make_future()
        with self._put_lock:  # nothing may follow the None that ends the inbox
            if not self._closed:
                self._inbox.put(item)
                return future
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
            if self.files.is_overwritten:  # closing would checkpoint the WAL into the other file
                _abandoned_connections.append(proxy.connection())
            else:
                proxy.close()

    def _open_writer(self) -> None:
        with hold(self._lock_file):
            proxy.connect()
            proxy.connection().execute("BEGIN IMMEDIATE")
            proxy.connection().execute("COMMIT")
            self.files.record()

    def _gather(self) -> list[_PendingWrite[Any]]:
        """Return the next group, from all queues in turn; [] at the end."""
        if not self._queues and not self._is_ending:
            self._enqueue(self._inbox.get())
        while not self._inbox.empty():
            self._enqueue(self._inbox.get())
        group: list[_PendingWrite[Any]] = []
        for _ in range(GROUP_OWNER_MAX):
            group += self._take_round(GROUP_MAX - len(group))
        return group

    def _enqueue(self, item: _PendingWrite[Any] | None) -> None:
        if item is None:
            self._is_ending = True
        else:
            self._queues.setdefault(item.owner, deque()).append(item)

    def _take_round(self, room: int) -> list[_PendingWrite[Any]]:
        """Take the first write of each of at most `room` queues, and move these queues to the end."""
        taken: list[_PendingWrite[Any]] = []
        for owner in list(self._queues)[:room]:
            pending = self._queues.pop(owner)
            taken.append(pending.popleft())
            if pending:
                self._queues[owner] = pending
        return taken

    def _commit(self, group: list[_PendingWrite[Any]]) -> None:
        """Run a group in one transaction, then resolve its futures."""
        try:
            with hold(self._lock_file):
                self._transaction(group)
        except FencedError as error:
            self.failing = str(error)
            log.critical("%s", error)
            self.fenced.set()
            _fail_all(group, unavailable_error())
        except DatabaseReplacedError:  # it is logged already
            _fail_all(group, unavailable_error(REPLACED_MESSAGE))
        except (peewee.PeeweeException, sqlite3.Error, OSError) as error:
            _fail_all(group, self._report_refusal(error))
        except Exception:  # noqa: BLE001 - the thread must continue, and every future resolve
            log.exception("a transaction on %s failed; its writes were refused", self.path)
            _fail_all(group, unavailable_error())
        else:
            for item in group:
                item.resolve()

    def _report_refusal(self, error: BaseException) -> ApiError:
        why = os_errors.describe_at(self.path, error)
        self.failing = why or str(error)
        log.error("%s cannot be written: %s; the changes were refused", self.path, self.failing)
        return unavailable_error(why)

    def _transaction(self, group: list[_PendingWrite[Any]]) -> None:
        connection: sqlite3.Connection = proxy.connection()
        self.files.check_recent()
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self.guard is not None:
                self.guard()
            self._run_all(connection, group)
            succeeded = sum(item.error is None for item in group)
            if not succeeded:
                connection.execute("ROLLBACK")
                return
            fault_injection.hit("db.commit")
            self.files.check()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.files.record_write()
        metrics.COMMIT_CHANGES.observe(succeeded)
        self.failing = self.failing if connection.total_changes == before else ""

    def _run_all(self, connection: sqlite3.Connection, group: list[_PendingWrite[Any]]) -> None:
        for kind, items in _group_by_kind(group):
            if kind is None or len(items) == 1 or not self._run_together(connection, kind, items):
                for item in items:
                    self._run_one(connection, item)

    def _run_together(self, connection: sqlite3.Connection, kind: GroupWrite, items: list[_PendingWrite[Any]]) -> bool:
        """Run several writes of a kind in one call; return False, without changes, if it fails."""
        tx = Tx()
        try:
            with _use_savepoint(connection):
                values = kind(tx, [item.value for item in items])
        except Exception as error:  # noqa: BLE001 - raised again by the write that causes it
            _check_open(connection, error)
            return False
        for item, result in zip(items, values, strict=True):
            item.result = result
        items[0].tx = tx
        return True

    def _run_one(self, connection: sqlite3.Connection, item: _PendingWrite[Any]) -> None:
        try:
            with _use_savepoint(connection):
                item.result = item.run(item.tx)
        except Exception as error:  # noqa: BLE001 - goes to the future
            _check_open(connection, error)
            item.error = self._report_refusal(error) if is_storage_error(error) else error


@contextlib.contextmanager
def _use_savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo only the changes of the block if it fails."""
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
    """Raise OperationalError if SQLite has rolled back the transaction, as on a full disk."""
    if not connection.in_transaction:
        raise peewee.OperationalError(str(error)) from error


def _group_by_kind(group: Sequence[_PendingWrite[Any]]) -> Iterator[tuple[GroupWrite | None, list[_PendingWrite[Any]]]]:
    """Group writes by kind.

    A write without kind keeps its position: earlier writes run before it.
    """
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
        item.fail(error)

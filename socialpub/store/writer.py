"""The one thread that writes: group commit, each function in a savepoint, told of once it is on the disk.

Whoever asks for many writes fills no group alone: each owner has a line, and a group takes from all of them in turn.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import itertools
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import peewee

from socialpub.base import faults, metrics, troubles
from socialpub.base.errors import ApiError
from socialpub.store.connections import Coming, OfLoop, Promise, is_storage, peewee_database, proxy, unavailable
from socialpub.store.locks import StartError, held, open_lock, unusable, write_lock_path
from socialpub.store.place import LOST, LostError, Place

log = logging.getLogger("socialpub.store")

T = TypeVar("T")
QUIET = 3  # rounds of a loop, of some millionths of a second: a request takes as many from its arrival to its write
GROUP_MAX = 256
OWNER_MAX = 32  # writes of one owner in a group: whoever comes after waits for no more
QUICK_MAX = 32  # writes of a group that whoever asked for those before it is told behind
LINGER_SECONDS = 0.0005  # for more of a group, of those that come one by one

_abandoned: list[sqlite3.Connection] = []  # kept open until the process ends


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


Together = Callable[[Tx, Sequence[Any]], Sequence[Any]]
"""A write of several of a kind at once: of each what comes of it, or an exception, and then nothing of any.

Within a transaction it comes before or after those of other kinds: whoever needs one to be there waits for it.
"""


class _Write(Generic[T]):
    """A write that was asked for; `kind` and `what`: it may be done together with others of its kind."""

    def __init__(self, run: Callable[[Tx], T], owner: str, kind: Together | None = None, what: Any = None) -> None:
        self.run, self.owner, self.tx = run, owner, Tx()
        self.kind, self.what = kind, what
        self.future: Coming[T] = Coming()
        self.value: T | None = None
        self.is_single = False  # a thread asked for it, with which hardly another comes

    def succeed(self) -> None:
        self.tx.committed()
        self.future.set_result(self.value)  # type: ignore[arg-type]


class _Crossing:
    """Writes that a loop asks for, handed over together: once it has gone round QUIET times without another.

    Whoever comes in one burst is then in one transaction, instead of one for the first and one for those after it.
    """

    def __init__(self, hand_over: Callable[[Sequence[_Write[Any]]], None], loop: asyncio.AbstractEventLoop) -> None:
        self._hand_over, self.loop = hand_over, loop
        self._items: list[_Write[Any]] = []

    def put(self, item: _Write[Any]) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self.loop.call_soon(self._wait, 1, QUIET)

    def _wait(self, before: int, rounds: int) -> None:
        there = len(self._items)
        if before < there < OWNER_MAX:
            self.loop.call_soon(self._wait, there, QUIET)
        elif rounds > 1 and there < OWNER_MAX:
            self.loop.call_soon(self._wait, there, rounds - 1)
        else:
            items, self._items = self._items, []
            self._hand_over(items)


class Writer:
    """The writing connection of this process; `place` is what it has open."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self.path, self.place = path, Place(path, monotonic)
        self.guard: Callable[[], None] | None = None  # runs first in each transaction; FencedError stops all writing
        self.failing = ""  # why the last change could not be written
        self.fenced = threading.Event()  # set once another server has taken over: nothing is written any more
        self._inbox: queue.SimpleQueue[_Write[Any] | None] = queue.SimpleQueue()
        self._crossings = OfLoop(functools.partial(_Crossing, self._put))
        self._lines: dict[str, deque[_Write[Any]]] = {}  # what came of each owner; the thread's own
        self._ends = False  # nothing comes any more
        self.is_more_owed: Callable[[], bool] = lambda: False  # whether something is under way that ends with a write
        self._lingering = threading.Event()  # which nobody sets: to wait by
        self._done: list[_Write[Any]] = []  # what is written, and nobody has been told so
        self._were_several = False  # in the last group, of those that come one by one
        self.pause, self._pauses = 0, itertools.count(1)  # what a lock or the disk is waited for: a number each, or 0
        self._thread = threading.Thread(target=self._write_loop, name="db-writer", daemon=True)
        self._lock_file = open_lock(write_lock_path(path))
        self._opened: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closed, self._putting = False, threading.Lock()

    def open(self) -> None:
        """Connect and start the thread; StartError when the file cannot be used."""
        proxy.initialize(peewee_database(self.path))
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

    def write(self, run: Callable[[Tx], T], owner: str) -> Promise[T]:
        """Run a function in the next transaction that has room for its owner's: in the order in which they came."""
        item = _Write(run, owner)
        self._put((item,))
        return Promise(item.future)

    def write_together(self, kind: Together, what: Any, owner: str) -> Promise[Any]:
        """The same for one of a kind, with others of it in one go where they come together; where that fails, alone."""
        item: _Write[Any] = _Write(lambda tx: kind(tx, (what,))[0], owner, kind, what)
        try:
            self._crossings.get(asyncio.get_running_loop()).put(item)
        except RuntimeError:  # no loop runs in this thread, so nobody else comes with it
            item.is_single = True
            self._put((item,))
        return Promise(item.future)

    def _put(self, items: Sequence[_Write[Any]]) -> None:
        with self._putting:  # nothing may be put behind the last of the inbox: nobody would answer it
            if not self._closed:
                for item in items:
                    self._inbox.put(item)
                return
        _fail(items, unavailable())

    def _write_loop(self) -> None:
        try:
            self._open_writer()
        except (peewee.PeeweeException, sqlite3.Error, OSError, StartError) as error:
            self._opened.set_exception(error if isinstance(error, StartError) else unusable(self.path, error))
            return
        self._opened.set_result(None)
        while group := self._gather():
            self._commit(group)
        self._tell()
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

    def _gather(self) -> list[_Write[Any]]:
        """The next group, from all lines in turn; none once there will be no more."""
        if not self._lines and not self._ends:
            if self._inbox.empty():
                self._tell()
            self._place(self._inbox.get())
            self._linger()
        with self._putting:  # whoever is about to put several in has put all of them
            while not self._inbox.empty():
                self._place(self._inbox.get())
        group: list[_Write[Any]] = []
        for _ in range(OWNER_MAX):
            group += self._one_of_each(GROUP_MAX - len(group))
        self._were_several = sum(item.is_single for item in group) > 1
        return group

    def _linger(self) -> None:
        """Wait for those that come with the first of a group: as long as several came so, and more are to come.

        What the loop of requests asks for comes together by itself (`_Crossing`); results of sends would be a
        transaction for one or two of them. Whoever comes alone finds nobody who came before, and does not wait.
        """
        if self._were_several and self.is_more_owed():
            self._tell()
            self._lingering.wait(LINGER_SECONDS)

    def _place(self, item: _Write[Any] | None) -> None:
        if item is None:
            self._ends = True
        else:
            self._lines.setdefault(item.owner, deque()).append(item)

    def _one_of_each(self, room: int) -> list[_Write[Any]]:
        """The first of each line, of `room` lines at most; each then goes behind the others."""
        taken: list[_Write[Any]] = []
        for owner in list(self._lines)[:room]:
            line = self._lines.pop(owner)
            taken.append(line.popleft())
            if line:
                self._lines[owner] = line
        return taken

    def _commit(self, group: list[_Write[Any]]) -> None:
        """Run a group in one transaction; whoever asked for it is told at its end, or while the next one syncs."""
        may_wait = _is_quick(group)
        if not may_wait:
            self._tell()
        self.pause = next(self._pauses)
        try:
            with held(self._lock_file):
                done = self._transaction(group)
        except FencedError as error:
            self.failing = str(error)
            log.critical("%s", error)
            self.fenced.set()
            _fail(group, unavailable())
        except LostError:  # the log has it from whoever saw it first
            _fail(group, unavailable(LOST))
        except (peewee.PeeweeException, sqlite3.Error, OSError) as error:
            _fail(group, self._refused(error))
        except Exception:  # noqa: BLE001 - whatever it was, the writer thread must live on and every caller be told
            log.exception("a transaction on %s stopped", self.path)
            _fail(group, unavailable())
        else:
            self._tell()  # where there was nothing to commit
            self._done = done
            if may_wait:
                return
        finally:
            self.pause = 0
        self._tell()

    def _tell(self) -> None:
        """Answer whoever asked for what the last transaction wrote.

        What follows from an answer wants the interpreter, as does the next transaction, which may be waited for too. So
        where one comes right after it, it is told when that goes to the disk: the processor has nothing to do then.
        """
        done, self._done = self._done, []
        for item in done:
            item.succeed()

    def _refused(self, error: BaseException) -> ApiError:
        why = troubles.why_at(self.path, error)
        self.failing = why or str(error)
        log.error("nothing can be written to %s: %s", self.path, self.failing)
        return unavailable(why)

    def _transaction(self, group: list[_Write[Any]]) -> list[_Write[Any]]:
        connection: sqlite3.Connection = proxy.connection()
        self.place.look_lately()
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        self.pause = 0
        try:
            if self.guard is not None:
                self.guard()
            done = self._run_all(connection, group)
            if not connection.in_transaction:  # nobody was in it but the one that was undone
                return done
            self.pause = next(self._pauses)
            faults.hit("db.commit")
            self.place.look()
            self._tell()
            connection.execute("COMMIT")
            self.pause = 0
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.place.wrote()
        metrics.COMMIT_CHANGES.observe(len(done))
        self.failing = self.failing if connection.total_changes == before else ""
        return done

    def _run_all(self, connection: sqlite3.Connection, group: list[_Write[Any]]) -> list[_Write[Any]]:
        """Those that were done, in the order of the group."""
        if len(group) == 1:
            return [item for item in group if self._run_alone(connection, item)]
        done: list[_Write[Any]] = []
        for kind, some in _alike(group):
            if kind is None or len(some) == 1 or not self._run_together(connection, kind, some):
                some = [item for item in some if self._run_one(connection, item)]
            done += some
        return done

    def _run_together(self, connection: sqlite3.Connection, kind: Together, items: list[_Write[Any]]) -> bool:
        """Several of a kind in one go; where it fails, nothing is done, and each is to be done by itself."""
        connection.execute("SAVEPOINT one")
        tx = Tx()
        try:
            values = kind(tx, [item.what for item in items])
        except Exception as error:  # noqa: BLE001 - whose it is shows when each is done by itself
            if not connection.in_transaction:
                raise peewee.OperationalError(str(error)) from error
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            return False
        connection.execute("RELEASE one")
        for item, value in zip(items, values, strict=True):
            item.value = value
        items[0].tx = tx
        return True

    def _run_alone(self, connection: sqlite3.Connection, item: _Write[Any]) -> bool:
        return self._run(connection, item, ("ROLLBACK",))

    def _run_one(self, connection: sqlite3.Connection, item: _Write[Any]) -> bool:
        """One of several: what it did can be undone by itself."""
        connection.execute("SAVEPOINT one")
        done = self._run(connection, item, ("ROLLBACK TO one", "RELEASE one"))
        if done:
            connection.execute("RELEASE one")
        return done

    def _run(self, connection: sqlite3.Connection, item: _Write[Any], undo: Sequence[str]) -> bool:
        try:
            item.value = item.run(item.tx)
        except Exception as error:  # noqa: BLE001 - handed to whoever asked for the write
            # A full disk makes SQLite roll the whole transaction back by itself.
            if not connection.in_transaction:
                raise peewee.OperationalError(str(error)) from error
            for statement in undo:
                connection.execute(statement)
            item.future.set_exception(self._refused(error) if is_storage(error) else error)
            return False
        return True


def _is_quick(group: Sequence[_Write[Any]]) -> bool:
    """Whether it takes a moment: a write of no kind may do anything."""
    return len(group) <= QUICK_MAX and all(item.kind is not None for item in group)


def _alike(group: Sequence[_Write[Any]]) -> Iterator[tuple[Together | None, list[_Write[Any]]]]:
    """The group by its kinds. What is of no kind keeps its place: whatever came before it is done before it."""
    kinds: dict[Together, list[_Write[Any]]] = {}
    for item in group:
        if item.kind is not None:
            kinds.setdefault(item.kind, []).append(item)
            continue
        yield from kinds.items()
        kinds = {}
        yield None, [item]
    yield from kinds.items()


def _fail(group: Sequence[_Write[Any]], error: Exception) -> None:
    for item in group:
        if not item.future.done():
            item.future.set_exception(error)

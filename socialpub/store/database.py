"""The open database of this process: one file, one writer thread, a few reader threads.

Only these threads hold connections, so code in other threads cannot touch the database by accident.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY, QueueLimits, current_share_key
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Clock, SystemClock
from socialpub.store.engine.inline_reader import InlineReader
from socialpub.store.engine.inline_reader import ReadTooLongError as ReadTooLongError
from socialpub.store.engine.integrity import check_start as check_start
from socialpub.store.engine.reader_pool import ReaderPool
from socialpub.store.engine.reader_pool import current_requester as current_requester
from socialpub.store.engine.sqlite import BaseModel as BaseModel
from socialpub.store.engine.sqlite import DbFuture as DbFuture
from socialpub.store.engine.sqlite import failed_future, unavailable_error
from socialpub.store.engine.sqlite import proxy as proxy
from socialpub.store.engine.writer import DatabaseWriter, GroupWrite
from socialpub.store.engine.writer import FencedError as FencedError
from socialpub.store.engine.writer import Tx as Tx

T = TypeVar("T")
READERS = 4
REQUEST_QUEUE = QueueLimits(500, 2000)  # reads of requests
IDENTIFY_QUEUE = QueueLimits(2000, 2000)


class Database:
    """Runs functions as `write(fn)` and `read(fn)`, from any thread.

    There are separate reader threads for authentication, for requests and for the engine, so that none waits for the
    others.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path, monotonic = path, (clock or SystemClock()).monotonic
        self._writer = DatabaseWriter(path, monotonic)
        self.files, self.fenced = self._writer.files, self._writer.fenced
        self._identifying = ReaderPool(1, "db-who", self.files, monotonic, IDENTIFY_QUEUE)
        self._requests = ReaderPool(READERS, "db-reader", self.files, monotonic, REQUEST_QUEUE)
        self._engine = ReaderPool(READERS, "db-engine", self.files, monotonic)
        self._inline = InlineReader(path, self.files, monotonic)
        self._closed, self._close_lock = False, threading.Lock()

    @property
    def failing(self) -> str:
        """Why the last write failed; "" if it succeeded."""
        return self._writer.failing

    def guard_writes(self, guard: Callable[[], None]) -> None:
        """Call `guard` first in each transaction; if it raises FencedError, all writing stops."""
        self._writer.guard = guard

    def open(self) -> Database:
        """Connect and start the writer; raise StartError if the file cannot be used."""
        self._writer.open()
        return self

    def close(self) -> None:
        """Finish the accepted reads and writes, then close every connection."""
        with self._close_lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            return
        self._writer.refuse_more()
        for readers in (self._identifying, self._requests, self._engine):
            readers.close()
        self._inline.close()
        self._writer.close()

    def write(self, run: Callable[[Tx], T]) -> DbFuture[T]:
        """Run a function in the next transaction; return a future of the durable result.

        An exception undoes this function's changes only. ApiError `storage.unavailable` if nothing can be written. The
        function must be short and must not block. Writes of one organization run in order; organizations take turns.
        """
        return self._writer.write(run, (current_requester.get() or current_share_key.get()).owner)

    def write_together(self, kind: GroupWrite, value: Any) -> DbFuture[Any]:
        """Write a value together with others: `kind` gets all values of a group at once.

        If that fails, it is rolled back and called for each value separately. `kind` must not depend on which
        transaction it runs in.
        """
        return self._writer.write_together(kind, value, (current_requester.get() or current_share_key.get()).owner)

    def read(self, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot.

        ApiError `storage.unavailable` if nothing can be read. For a request (`current_requester`), `http.busy` if too
        many reads wait, and `http.deadline` if it takes too long. The engine's reads have no time limit: no client
        waits for them, and their work would be left undone.
        """
        share = current_requester.get()
        if share is None:
            return self._submit(lambda: self._engine.read(NO_SHARE_KEY, run))
        return self._submit(lambda: self._requests.read_in_time(share, run))

    async def read_inline(self, run: Callable[[], T], *, to_identify: bool = False) -> T:
        """Read a few rows by index on the event loop, or else on a reader thread.

        A read that takes too long is repeated on a reader thread. Each statement sees its own snapshot, so data that
        belong together must be read by one statement. `to_identify`: the read authenticates a request, so it uses the
        thread that is reserved for these.
        """
        try:
            return self.try_inline(run)
        except ReadTooLongError:
            return await (self.look_up(run) if to_identify else self.read(run))

    def try_inline(self, run: Callable[[], T]) -> T:
        """Read on the event loop, or raise ReadTooLongError."""
        if self._closed:
            raise ReadTooLongError
        share = current_requester.get()
        return self._inline.read(share.owner if share else "", run)

    def look_up(self, run: Callable[[], T]) -> DbFuture[T]:
        """Read one row by index on the thread that is reserved for authentication."""
        return self._submit(lambda: self._identifying.read_in_time(NO_SHARE_KEY, run))

    def _submit(self, submit: Callable[[], DbFuture[T]]) -> DbFuture[T]:
        try:
            with self._close_lock:
                return failed_future(unavailable_error()) if self._closed else submit()
        except ApiError as error:
            return failed_future(error)

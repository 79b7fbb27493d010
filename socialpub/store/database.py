"""The open database of this process: one file, one thread that writes, a few that read.

Only these threads hold connections: code in any other thread cannot touch the database by accident.
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
from socialpub.store.engine.integrity import check_integrity as check_integrity
from socialpub.store.engine.integrity import check_start as check_start
from socialpub.store.engine.reader_pool import ReaderPool
from socialpub.store.engine.reader_pool import current_requester as current_requester
from socialpub.store.engine.sqlite import STORAGE_RETRY_SECONDS as STORAGE_RETRY_SECONDS
from socialpub.store.engine.sqlite import BaseModel as BaseModel
from socialpub.store.engine.sqlite import DbFuture as DbFuture
from socialpub.store.engine.sqlite import failed_future, unavailable_error
from socialpub.store.engine.sqlite import proxy as proxy
from socialpub.store.engine.writer import DatabaseWriter
from socialpub.store.engine.writer import FencedError as FencedError
from socialpub.store.engine.writer import GroupWrite as GroupWrite
from socialpub.store.engine.writer import Tx as Tx

T = TypeVar("T")
READERS = 4
REQUEST_QUEUE = QueueLimits(500, 2000)  # of the requests that read
IDENTIFY_QUEUE = QueueLimits(2000, 2000)


class Database:
    """`write(fn)` and `read(fn)` from any thread.

    The readers are apart by who waits for them: every request, for who asks it; requests; the engine, which publishes.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path, monotonic = path, (clock or SystemClock()).monotonic
        self._writer = DatabaseWriter(path, monotonic)
        self.place, self.fenced = self._writer.place, self._writer.fenced
        self._who = ReaderPool(1, "db-who", self.place, monotonic, IDENTIFY_QUEUE)
        self._requests = ReaderPool(READERS, "db-reader", self.place, monotonic, REQUEST_QUEUE)
        self._engine = ReaderPool(READERS, "db-engine", self.place, monotonic)
        self._inline = InlineReader(path, self.place, monotonic)
        self._closed, self._closing = False, threading.Lock()

    @property
    def failing(self) -> str:
        """Why the last change could not be written."""
        return self._writer.failing

    @property
    def guard(self) -> Callable[[], None] | None:
        """Runs first in each transaction; FencedError stops all writing."""
        return self._writer.guard

    @guard.setter
    def guard(self, guard: Callable[[], None]) -> None:
        self._writer.guard = guard

    def open(self) -> Database:
        """Connect and start the writer; StartError when the file cannot be used."""
        self._writer.open()
        return self

    def close(self) -> None:
        """Finish what was asked for, then close every connection."""
        with self._closing:
            before, self._closed = self._closed, True
        if before:
            return
        self._writer.refuse_more()
        for readers in (self._who, self._requests, self._engine):
            readers.close()
        self._inline.close()
        self._writer.close()

    def look(self) -> None:
        """ApiError `storage.unavailable` unless a transaction can begin on the files in their places."""
        self.write(lambda tx: None).result()

    def write(self, run: Callable[[Tx], T]) -> DbFuture[T]:
        """Run a function in the next transaction; its result comes after the commit is on the disk.

        An exception undoes this function's changes only. ApiError `storage.unavailable` when nothing can be written.
        The function must be short and must not wait for anything. Writes of one organization run in the order in which
        they were asked for; those of others in turn with them.
        """
        return self._writer.write(run, (current_requester.get() or current_share_key.get()).owner)

    def write_together(self, kind: GroupWrite, what: Any) -> DbFuture[Any]:
        """The same for one of a kind: `kind` is called with all that come together, and answers for each.

        Where it fails with several, nothing of it stands, and it is called for each by itself. Whose transaction it is
        must make no difference to what it is asked to write.
        """
        return self._writer.write_together(kind, what, (current_requester.get() or current_share_key.get()).owner)

    def read(self, run: Callable[[], T]) -> DbFuture[T]:
        """Run a function on one consistent snapshot; ApiError `storage.unavailable` when nothing can be read.

        For a request (`current_requester`): ApiError `http.busy` when too many wait, `http.deadline` when it takes too
        long. The engine's reads have no limit: nobody else waits for them, and what they are for would be left undone.
        """
        share = current_requester.get()
        if share is None:
            return self._asked(lambda: self._engine.read(NO_SHARE_KEY, run))
        return self._asked(lambda: self._requests.read_in_time(share, run))

    async def read_inline(self, run: Callable[[], T], *, to_identify: bool = False) -> T:
        """Read a few rows by their indexes on the event loop; what shows to be long runs again on a reader thread.

        Each statement sees a snapshot of its own: what belongs together is asked for by one. `to_identify`: every
        request needs it to know who asks, so its reader thread is one that no list keeps.
        """
        try:
            return self.try_inline(run)
        except ReadTooLongError:
            return await (self.look_up(run) if to_identify else self.read(run))

    def try_inline(self, run: Callable[[], T]) -> T:
        """The same without the second run: ReadTooLongError."""
        if self._closed:
            raise ReadTooLongError
        share = current_requester.get()
        return self._inline.read(share.owner if share else "", run)

    def look_up(self, run: Callable[[], T]) -> DbFuture[T]:
        """Read on the thread that finds out who asks: one row by its index."""
        return self._asked(lambda: self._who.read_in_time(NO_SHARE_KEY, run))

    def _asked(self, ask: Callable[[], DbFuture[T]]) -> DbFuture[T]:
        try:
            with self._closing:
                return failed_future(unavailable_error()) if self._closed else ask()
        except ApiError as error:
            return failed_future(error)

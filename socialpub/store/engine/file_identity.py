"""Detects that a file of the open database was deleted, replaced or overwritten.

SQLite continues on such files without an error, and the changes are lost when the process ends. So each transaction
compares the inodes behind the files' names. `PRAGMA data_version` does not change when another program writes into the
database file (`cp backup.db socialpub.db`), so that is detected by the file's mtime and size: only a checkpoint of
SQLite may change these, and a checkpoint is visible in the wal-index.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("socialpub.store")

SIDE_FILE_SUFFIXES = ("-wal", "-shm")
CHECK_INTERVAL_SECONDS = 0.05
# Parts of the wal-index, the head of `-shm` (sqlite.org/walformat.html), that a checkpoint changes: the salts (new when
# the log restarts), `nBackfill` (how far checkpoints came) and `nBackfillAttempted`.
_INDEX_BYTES, _SALTS, _BACKFILL, _ATTEMPTED = 136, slice(32, 40), slice(96, 100), slice(128, 132)
_MARK_BACKFILL, _MARK_ATTEMPTED = slice(8, 12), slice(12, 16)  # offsets in the stored parts


FileVersion = tuple[int, int]  # mtime in nanoseconds, and size


class DatabaseReplacedError(Exception):
    """The files under the database's name are not the open ones.

    The message says what happened and what to do.
    """


class DatabaseFiles:
    """The files of the open database, checked before each read and write."""

    def __init__(self, database: Path, monotonic: Callable[[], float]) -> None:
        self._database, self._real = database, Path(os.path.realpath(database))
        self._file = os.fspath(database)  # a str, since it is checked all the time
        self._open: dict[str, tuple[int, int]] = {}
        self._monotonic, self._checked_at = monotonic, float("-inf")
        self._recorded, self._index_file = ((0, 0), b""), -1
        self._shared: mmap.mmap | None = None
        self._lock, self._overwritten, self.lost = threading.Lock(), "", ""

    def record(self) -> None:
        """Record the files as they are now, after the first read (which creates `-wal` and `-shm`)."""
        for path in (self._database, *self._side_paths()):
            status = os.stat(path)
            self._open[os.fspath(path)] = (status.st_dev, status.st_ino)
        # Closed only after SQLite: a process loses its POSIX locks on a file with any descriptor that it closes.
        self._index_file = os.open(self._side_paths()[1], os.O_RDONLY)
        self._shared = mmap.mmap(self._index_file, _INDEX_BYTES, access=mmap.ACCESS_READ)
        self._recorded = (self._get_version(), self._read_index())

    def _side_paths(self) -> list[Path]:
        return [self._real.with_name(self._real.name + end) for end in SIDE_FILE_SUFFIXES]

    def record_write(self) -> None:
        """Record the file's new version, after each transaction of this process."""
        before, now = self._recorded, self._get_version()
        index = self._read_index()
        if not _is_overwritten(before, now, index):
            self._recorded = (now, index)

    def check(self) -> None:
        """Raise DatabaseReplacedError if a file was replaced, deleted or overwritten."""
        why, overwritten = self._find_problems()
        if overwritten and not self._overwritten:
            self._overwritten = _MESSAGE.format(path=self._database, what="was overwritten by another program")
        self._checked_at = self._monotonic()
        self._report(why or self._overwritten)

    def check_recent(self) -> None:
        """Like `check`, at most once in CHECK_INTERVAL_SECONDS."""
        if self._monotonic() - self._checked_at > CHECK_INTERVAL_SECONDS or self.lost:
            self.check()

    @property
    def is_overwritten(self) -> bool:
        """True if the open file has other content: its WAL must not be checkpointed into it."""
        return bool(self._overwritten) or self._find_problems()[1]

    def close(self) -> None:
        """Close the wal-index, after SQLite has closed its files."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._index_file >= 0:
            os.close(self._index_file)
            self._index_file = -1

    def _report(self, why: str) -> None:
        with self._lock:
            before, self.lost = self.lost, why
        if why and not before:
            log.critical("%s", why)
        if before and not why:
            log.warning("%s is in its place again; reads and writes continue", self._database)
        if why:
            raise DatabaseReplacedError(why)

    def _find_problems(self) -> tuple[str, bool]:
        """Return the problem of a replaced file, and whether the database file was overwritten."""
        before = self._recorded  # read first: the writer thread may change it
        why, now = self._find_replaced()
        return why, now is not None and _is_overwritten(before, now, self._read_index())

    def _find_replaced(self) -> tuple[str, FileVersion | None]:
        """Return the problem of a replaced file, or else the version of the database file."""
        written = None
        for path, opened in self._open.items():
            try:
                status = os.stat(path)
            except OSError as error:
                return _MESSAGE.format(path=path, what=f"is gone ({error.strerror})"), None
            if (status.st_dev, status.st_ino) != opened:
                return _MESSAGE.format(path=path, what="was replaced by another file"), None
            written = written or (status.st_mtime_ns, status.st_size)  # of the database, which is the first
        return "", written

    def _get_version(self) -> FileVersion:
        status = os.stat(self._file)
        return status.st_mtime_ns, status.st_size

    def _read_index(self) -> bytes:
        """Read the parts of the wal-index from shared memory; b"" once closed."""
        index = self._shared[:_INDEX_BYTES] if self._shared is not None else b""
        return index[_SALTS] + index[_BACKFILL] + index[_ATTEMPTED]


def _is_overwritten(before: tuple[FileVersion, bytes], now: FileVersion, index: bytes) -> bool:
    """Return whether another program has written into the database file.

    In WAL mode only a checkpoint writes to it, and a checkpoint is visible in the index. Any thread may call this while
    the writer runs, so `before` is read first and the index last.
    """
    written, recorded_index = before
    return now != written and index == recorded_index and index[_MARK_BACKFILL] == index[_MARK_ATTEMPTED]


REPLACED_MESSAGE = "files of the database were removed or replaced while the server has them open"
_MESSAGE = (
    "{path} {what} while the server has it open: nothing is accepted or published. "
    "Put the file back, or stop the server, look at its files and start it again."
)

"""Detects that a file of the database was deleted, replaced or overwritten while it is open.

SQLite goes on with such files and reports no error: what it is given then is lost when the process ends. So each
transaction compares the inodes under the files' names. `PRAGMA data_version` does not change when another program
writes into the database file (`cp backup.db socialpub.db`), so that is told by the file's time and length, which only a
checkpoint of SQLite may change, by whatever process: and a checkpoint shows in the wal-index.
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
# The wal-index, at the head of `-shm` (sqlite.org/walformat.html). What a checkpoint changes: the salts, renewed when
# the log begins anew, how far the checkpoints came (`nBackfill`), and how far the last was to come.
_INDEX_BYTES, _SALTS, _BACKFILL, _ATTEMPTED = 136, slice(32, 40), slice(96, 100), slice(128, 132)
_MARK_BACKFILL, _MARK_ATTEMPTED = slice(8, 12), slice(12, 16)  # where they are in what is kept of it


FileVersion = tuple[int, int]  # when a file was written, and its length


class DatabaseReplacedError(Exception):
    """The files under the database's name are not the open ones; the message says what is wrong and what to do."""


class DatabaseFiles:
    """The files of the open database: remembered when it was opened, looked at before anything is read or written."""

    def __init__(self, database: Path, monotonic: Callable[[], float]) -> None:
        self._database, self._real = database, Path(os.path.realpath(database))
        self._file = os.fspath(database)  # it is looked at all the time: as text, not as a path that is to become one
        self._open: dict[str, tuple[int, int]] = {}
        self._monotonic, self._looked_at = monotonic, float("-inf")
        self._remembered, self._index_file = ((0, 0), b""), -1
        self._shared: mmap.mmap | None = None
        self._lock, self._overwritten, self.lost = threading.Lock(), "", ""

    def remember(self) -> None:
        """The files as they are now, right after they were opened (`-wal` and `-shm` come with the first reading)."""
        for path in (self._database, *self._beside()):
            found = os.stat(path)
            self._open[os.fspath(path)] = (found.st_dev, found.st_ino)
        # Never closed before SQLite has closed it: a process loses its locks on a file with any one it closes.
        self._index_file = os.open(self._beside()[1], os.O_RDONLY)
        self._shared = mmap.mmap(self._index_file, _INDEX_BYTES, access=mmap.ACCESS_READ)
        self._remembered = (self._writing(), self._read_index())

    def _beside(self) -> list[Path]:
        return [self._real.with_name(self._real.name + end) for end in SIDE_FILE_SUFFIXES]

    def wrote(self) -> None:
        """After each transaction of this process, which may have moved the log into the file."""
        before, now = self._remembered, self._writing()
        index = self._read_index()
        if not _is_overwritten(before, now, index):
            self._remembered = (now, index)

    def look(self) -> None:
        """LostError when a name does not lead to the open file any more, or something else was written into it."""
        why, overwritten = self._found()
        if overwritten and not self._overwritten:
            self._overwritten = _MESSAGE.format(path=self._database, what="was written over from outside")
        self._looked_at = self._monotonic()
        self._told(why or self._overwritten)

    def look_lately(self) -> None:
        """Like `look`, at most once in LATELY_SECONDS: for reads, and for what calls `look` at its end."""
        if self._monotonic() - self._looked_at > CHECK_INTERVAL_SECONDS or self.lost:
            self.look()

    @property
    def is_overwritten(self) -> bool:
        """Whether another content is in the open file: the log of the old one must not be brought into it."""
        return bool(self._overwritten) or self._found()[1]

    def close(self) -> None:
        """After SQLite has closed its own."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._index_file >= 0:
            os.close(self._index_file)
            self._index_file = -1

    def _told(self, why: str) -> None:
        with self._lock:
            before, self.lost = self.lost, why
        if why and not before:
            log.critical("%s", why)
        if before and not why:
            log.warning("%s is in its place again; work goes on", self._database)
        if why:
            raise DatabaseReplacedError(why)

    def _found(self) -> tuple[str, bool]:
        """Which name does not lead to its file any more, and else whether that has another content by somebody else."""
        before = self._remembered  # first, for the thread that writes may be at work
        why, now = self._moved()
        return why, now is not None and _is_overwritten(before, now, self._read_index())

    def _moved(self) -> tuple[str, FileVersion | None]:
        """Which name does not lead to its file any more, and else when and how long the database was written."""
        written = None
        for path, opened in self._open.items():
            try:
                found = os.stat(path)
            except OSError as error:
                return _MESSAGE.format(path=path, what=f"is gone ({error.strerror})"), None
            if (found.st_dev, found.st_ino) != opened:
                return _MESSAGE.format(path=path, what="was replaced by another file"), None
            written = written or (found.st_mtime_ns, found.st_size)  # the first is the database
        return "", written

    def _writing(self) -> FileVersion:
        found = os.stat(self._file)
        return found.st_mtime_ns, found.st_size

    def _read_index(self) -> bytes:
        """Out of memory: the file is SQLite's own way to share it. Nothing once it is closed."""
        index = self._shared[:_INDEX_BYTES] if self._shared is not None else b""
        return index[_SALTS] + index[_BACKFILL] + index[_ATTEMPTED]


def _is_overwritten(before: tuple[FileVersion, bytes], now: FileVersion, index: bytes) -> bool:
    """Whether the database file has another content by somebody else than SQLite.

    In WAL mode only a checkpoint writes to it, and a checkpoint shows in the index. Any thread may ask, while the
    writer is at work: what is remembered is read first, and the index last.
    """
    written, remembered = before
    return now != written and index == remembered and index[_MARK_BACKFILL] == index[_MARK_ATTEMPTED]


REPLACED_MESSAGE = "files of the database were removed or replaced while the server has them open"
_MESSAGE = (
    "{path} {what} while the server has it open: nothing more is accepted or published. "
    "Put the file back, or stop the server, look at its files and start it again."
)

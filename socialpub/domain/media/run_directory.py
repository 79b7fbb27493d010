"""Directory of one run; other runs on the data directory leave it alone while it lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from pathlib import Path

from socialpub.base.security import private_files
from socialpub.store.engine.locks import try_lock

RUN_PREFIX = "run-"


class RunDirectory:
    """Directory `{root}/run-{name}` with a subdirectory per item; exists only while needed.

    It is locked while the run lives; a killed process loses the lock.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._home = root, root / f"{RUN_PREFIX}{name}"
        self._guard = threading.Lock()
        self._lock: int | None = None  # file descriptor

    def get_path(self, name: str) -> Path:
        """Return the path of an item's directory, existing or not."""
        return self._home / name

    def make(self, name: str) -> Path:
        with self._guard:
            if self._lock is None or not self._home.is_dir():
                self._release()
                self._lock = self._acquire()
            private_files.make_folder(self.get_path(name))
        return self.get_path(name)

    def names(self) -> list[str]:
        return _list_directories(self._home)

    def drop(self, name: str) -> None:
        shutil.rmtree(self.get_path(name), ignore_errors=True)
        with self._guard:
            if self._lock is not None and not self.names():
                _remove_if_empty(self._home)
                self._release()

    def adopt(self) -> None:
        """Take over what ended runs have left."""
        for name in _list_directories(self._root):
            if name.startswith(RUN_PREFIX) and name != self._home.name:
                with contextlib.suppress(FileNotFoundError):  # that run has just ended and left nothing
                    self._take_over(self._root / name)

    def close(self) -> None:
        """Release the lock; the next run may take over the rest."""
        with self._guard:
            self._release()

    def _acquire(self) -> int:
        while True:
            private_files.make_folder(self._home)
            with contextlib.suppress(FileNotFoundError):  # removed as the empty directory of an ended run
                lock = os.open(self._home, os.O_RDONLY)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_same_directory(self._home, lock):
                    return lock
                os.close(lock)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_over(self, home: Path) -> None:
        lock = os.open(home, os.O_RDONLY)
        try:
            if try_lock(lock):
                for name in _list_directories(home):
                    self._move(home / name)
                _remove_if_empty(home)
        finally:
            os.close(lock)

    def _move(self, folder: Path) -> None:
        target = self.make(folder.name)
        if os.listdir(target):
            shutil.rmtree(folder)
        else:
            folder.rename(target)


def _list_directories(place: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(place) if entry.is_dir()) if place.is_dir() else []


def _remove_if_empty(home: Path) -> None:
    with contextlib.suppress(OSError):  # not empty again
        home.rmdir()


def _is_same_directory(home: Path, lock: int) -> bool:
    """Return whether the path still leads to the locked directory."""
    return home.exists() and os.path.samestat(home.stat(), os.fstat(lock))

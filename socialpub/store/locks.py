"""The locks that keep others out of a database file, and the error of a start that cannot be."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK_SECONDS = 5.0


class StartError(Exception):
    """The database cannot be used as it is; the message says why and what to do."""


def write_lock_path(database: Path) -> Path:
    """Held for each transaction by whoever writes: the server and the commands beside it."""
    return database.with_name(database.name + ".write")


def open_lock(path: Path) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+b")  # noqa: SIM115 - closed with the database
    except OSError as error:
        raise StartError(f"cannot write beside the database: {error}") from error


@contextlib.contextmanager
def held(file: Any) -> Iterator[None]:
    deadline = time.monotonic() + LOCK_SECONDS
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise OSError("another process has held the database for too long")
        time.sleep(0.005)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def try_lock(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class ServeLock:
    """`{database}.lock`: one server for each SQLite file, held until the process ends."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".lock")
        self._file = open_lock(self._path)

    def take(self) -> bool:
        """Whether this process is now the one server of the file."""
        if not try_lock(self._file):
            return False
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()
        return True

    def release(self) -> None:
        self._file.close()

"""The locks that keep others out of a database file, and the error of a start that cannot be."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from socialpub.base.security import private_files
from socialpub.base.system import os_errors

LOCK_SECONDS = 5.0


class StartError(Exception):
    """The database cannot be used as it is; the message says why and what to do."""


def unusable_error(path: Path, error: BaseException) -> StartError:
    """The error of a file that was not changed: what the disk says, or that the file may be damaged."""
    said = os_errors.find_access_problem(path) or os_errors.describe_at(path, error)
    if said:
        return StartError(f"{path} cannot be used: {said}. Nothing was changed.")
    return StartError(f"{path}: {error}. Nothing was changed. If the file is damaged, put a backup in its place.")


def damaged_error(path: Path, why: str) -> StartError:
    """The error of a file that was looked at before anything was written."""
    return StartError(f"{path} is damaged ({why}). Nothing was changed. Put a backup in its place.")


def _get_side_path(database: Path, end: str) -> Path:
    """A file beside the database itself, whatever link leads to it: both names mean one lock."""
    real = Path(os.path.realpath(database))
    return real.with_name(real.name + end)


def get_write_lock_path(database: Path) -> Path:
    """Held for each transaction by whoever writes: the server and the commands beside it."""
    return _get_side_path(database, ".write")


def list_files(database: Path) -> tuple[Path, ...]:
    """The database and what lies beside it, under their real names."""
    return tuple(_get_side_path(database, end) for end in ("", "-wal", "-shm", ".lock", ".write"))


def remove_files(database: Path) -> None:
    """Remove a file that nobody has open, and what lies beside it; a link itself, not where it leads."""
    for end in ("", "-wal", "-shm", "-journal", ".lock", ".write"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def check_hard_links(database: Path) -> None:
    """StartError for a file that has two names (hard links): SQLite keeps a log for each, and two logs destroy it."""
    with contextlib.suppress(OSError):
        found = os.stat(database)
        names = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
        if names > 1:
            raise StartError(
                f"{database} has {names} names (hard links), and under each SQLite would keep a log of its own. "
                f"Find them with: find / -xdev -samefile {database}. Remove the others, or copy the file."
            )


def check_access(database: Path) -> None:
    """StartError unless this process may use the database and what lies beside it: SQLite would begin, and stop."""
    why = os_errors.find_creation_problem(Path(os.path.realpath(database)).parent)
    for path in (database, *list_files(database)[1:]):
        why = why or os_errors.find_access_problem(path)
        if why:
            raise StartError(f"{path} cannot be used: {why}{private_files.suggest_chown(path)}. Nothing was changed.")


def open_lock(path: Path) -> Any:
    try:
        private_files.make_folder(path.parent)
        return os.fdopen(private_files.open_or_create(path), "a+b")
    except OSError as error:
        why = (
            os_errors.find_access_problem(path)
            or os_errors.find_creation_problem(path.parent)
            or os_errors.describe(error)
        )
        raise StartError(f"cannot write beside the database: {path}: {why}") from error


@contextlib.contextmanager
def hold(file: Any) -> Iterator[None]:
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
        self._path = _get_side_path(database, ".lock")
        self._file = open_lock(self._path)

    def take(self) -> bool:
        """Whether this process is now the one server of the file."""
        if not try_lock(self._file):
            return False
        with contextlib.suppress(OSError):  # who holds the lock is only for whoever looks; a disk may be full
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"{os.getpid()}\n".encode())
        return True

    def release(self) -> None:
        self._file.close()


def is_served(database: Path) -> bool:
    """Whether a server has this file, or just begins to."""
    lock = _get_side_path(database, ".lock")
    if not lock.exists():
        return False
    with open_lock(lock) as file:
        return not try_lock(file)

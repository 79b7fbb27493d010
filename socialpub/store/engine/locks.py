"""File locks of a database, and StartError."""

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
_SQLITE_HEADER = b"SQLite format 3\0"


class StartError(Exception):
    """The database cannot be used; the message says why and what to do."""


def unusable_error(path: Path, error: BaseException) -> StartError:
    """Return the error of a file that was not changed, with the system's reason if known."""
    reason = os_errors.find_access_problem(path) or os_errors.describe_at(path, error)
    if reason:
        return StartError(f"{path} cannot be used: {reason}. Nothing was changed.")
    return StartError(f"{path}: {error}. Nothing was changed. If the file is damaged, put a backup in its place.")


def damaged_error(path: Path, why: str) -> StartError:
    """Return the error of a file that failed its check before anything was written."""
    return StartError(f"{path} is damaged ({why}). Nothing was changed. Put a backup in its place.")


def _get_side_path(database: Path, suffix: str) -> Path:
    """Return the path of a file beside the database.

    Links are resolved, so that all names of a database share one lock.
    """
    real = Path(os.path.realpath(database))
    return real.with_name(real.name + suffix)


def get_write_lock_path(database: Path) -> Path:
    """Return the path of the lock that a writer holds during each transaction.

    Writers are the server and the commands that run beside it.
    """
    return _get_side_path(database, ".write")


def list_files(database: Path) -> tuple[Path, ...]:
    """Return the paths of the database and its side files, links resolved."""
    return tuple(_get_side_path(database, suffix) for suffix in ("", "-wal", "-shm", ".lock", ".write"))


def remove_files(database: Path) -> None:
    """Delete a database that is not open, and its side files; delete a link, not its target."""
    for suffix in ("", "-wal", "-shm", "-journal", ".lock", ".write"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def check_kind(database: Path) -> None:
    """Raise StartError for a file of another program, before anything is changed."""
    with contextlib.suppress(OSError):  # missing, or the error is reported when it is opened
        if not database.is_file():
            return
        with database.open("rb") as file:
            begin = file.read(len(_SQLITE_HEADER))
        if begin and begin != _SQLITE_HEADER:
            raise unusable_error(database, ValueError("file is not a database"))


def check_hard_links(database: Path) -> None:
    """Raise StartError if the file has several hard links.

    SQLite would keep a separate WAL for each name, which destroys the database.
    """
    with contextlib.suppress(OSError):
        status = os.stat(database)
        names = status.st_nlink if stat.S_ISREG(status.st_mode) else 1
        if names > 1:
            raise StartError(
                f"{database} has {names} names (hard links), and SQLite would keep a separate log for each. "
                f"Find them with: find / -xdev -samefile {database}. Remove the others, or copy the file."
            )


def check_access(database: Path) -> None:
    """Raise StartError unless this process can use the database and its side files."""
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
    """The lock `{database}.lock`: one server per SQLite file, held until the process ends."""

    def __init__(self, database: Path) -> None:
        self._path = _get_side_path(database, ".lock")
        self._file = open_lock(self._path)

    def take(self) -> bool:
        """Take the lock; return False if another server holds it."""
        if not try_lock(self._file):
            return False
        with contextlib.suppress(OSError):  # the process id is only information; the disk may be full
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), f"{os.getpid()}\n".encode())
        return True

    def release(self) -> None:
        self._file.close()


def is_served(database: Path) -> bool:
    """Return whether a server has this file open, or is starting."""
    lock = _get_side_path(database, ".lock")
    if not lock.exists():
        return False
    with open_lock(lock) as file:
        return not try_lock(file)

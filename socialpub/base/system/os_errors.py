"""Errors of disks and files as texts for operators, without numbers and tracebacks."""

from __future__ import annotations

import errno
import os
import sqlite3

_ERRNO_TEXTS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of this user on the disk is used up",
    errno.EFBIG: "it cannot grow any further",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "this user may not use it",
    errno.EPERM: "this user may not use it",
    errno.EISDIR: "it is a folder, and a file is needed",
    errno.ENOTDIR: "its folder is a file",
    errno.EEXIST: "a file has the name of its folder",
    errno.ENOENT: "it is not there",
    errno.ELOOP: "its link cannot be followed",
    errno.EIO: "the disk cannot be read or written",
    errno.ESTALE: "the disk is no longer mounted",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
}
_SQLITE_TEXTS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk refuses to read or write",
    sqlite3.SQLITE_PERM: "this user may not use it",
    sqlite3.SQLITE_BUSY: "another process has held it for too long",
    sqlite3.SQLITE_LOCKED: "another process has held it for too long",
    sqlite3.SQLITE_PROTOCOL: "another process has held it for too long",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
}
WAL_INDEX_BYTES = 1 << 16  # how much SQLite allocates at once


def describe(error: BaseException) -> str | None:
    """Return the cause of a system or disk error in a few words.

    None for other errors, damage included.
    """
    if isinstance(error, OSError):
        return _ERRNO_TEXTS.get(error.errno or 0, (error.strerror or str(error)).lower())
    code = _find_sqlite_code(error)
    return None if code is None else _SQLITE_TEXTS.get(code & 0xFF)


def describe_at(path: str | os.PathLike[str], error: BaseException) -> str | None:
    """Return the cause of an error of a database file.

    On a full disk the WAL index cannot grow, which SQLite reports as an I/O error.
    """
    text = describe(error)
    return _ERRNO_TEXTS[errno.ENOSPC] if text == _SQLITE_TEXTS[sqlite3.SQLITE_IOERR] and _is_full(path) else text


def _is_full(path: str | os.PathLike[str]) -> bool:
    try:
        space = os.statvfs(path)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < WAL_INDEX_BYTES


def _find_sqlite_code(error: BaseException) -> int | None:
    """Return SQLite's code of an error, also of one that peewee has wrapped."""
    for found in (error, getattr(error, "orig", None), error.__cause__, error.__context__):
        code = getattr(found, "sqlite_errorcode", None)
        if code is not None:
            return int(code)
    return None


def find_access_problem(path: str | os.PathLike[str]) -> str | None:
    """Return why this process cannot read and write an existing file; None if it can."""
    if os.path.isdir(path):
        return _ERRNO_TEXTS[errno.EISDIR]
    for mode, words in ((os.R_OK, "read it"), (os.W_OK, "write it, or the disk is read-only")):
        if os.path.exists(path) and not os.access(path, mode):
            return f"this user may not {words}"
    return None


def find_creation_problem(folder: str | os.PathLike[str]) -> str | None:
    """Return why this process cannot create files in an existing folder; None if it can."""
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
        return "this user may not write into its folder, or the disk is read-only"
    return None

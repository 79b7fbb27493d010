"""Temporary directories for files in progress; leftovers of killed processes are removed.

Each is on the same file system as its destination, so a rename is enough, and locked while its process lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from socialpub.base.security import private_files
from socialpub.base.system import directories

PART_PREFIX = ".socialpub-part-"  # beside a file named by a user
S3_PREFIX = ".s3-"  # in the data directory: transfers to and from a bucket
PINS_PREFIX = ".backup-"  # beside the media directories, which have two letters
RESTORE_PREFIX = ".restoring-"  # beside the media and the master key
_RANDOM_SUFFIX = re.compile("[a-z0-9_]{8}")  # suffix added by `make_temporary_folder`


@contextlib.contextmanager
def create_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a temporary directory in `parent`, after removing leftovers there."""
    private_files.make_folder(parent)
    sweep(parent)
    folder, held = _create_locked(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def give_name(part: Path, file: Path) -> None:
    """Give a finished file its name, durably. Raises FileExistsError if it is taken by now."""
    with part.open("rb") as finished:
        os.fsync(finished.fileno())
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # file system without hard links
        os.replace(part, file)
    directories.sync(file.parent)


def sweep(parent: Path) -> None:
    """Remove the temporary directories in `parent` whose processes have ended."""
    for prefix in (PART_PREFIX, S3_PREFIX, PINS_PREFIX, RESTORE_PREFIX):
        for left in parent.glob(f"{prefix}*"):
            if _RANDOM_SUFFIX.fullmatch(left.name.removeprefix(prefix)):
                _remove_leftover(left)


def _create_locked(parent: Path, prefix: str) -> tuple[Path, int]:
    """Create and lock a directory; retry if another process swept it before the lock."""
    while True:
        folder = private_files.make_temporary_folder(parent, prefix)
        with contextlib.suppress(OSError):
            held = _lock(folder)
            if folder.exists():
                return folder, held
            os.close(held)
        if not parent.is_dir():
            raise FileNotFoundError(str(parent))


def _lock(folder: Path) -> int:
    """Lock a directory for the life of this process. Raises OSError if it is locked."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_leftover(folder: Path) -> None:
    with contextlib.suppress(OSError):  # in use, gone, or another user's
        held = _lock(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)

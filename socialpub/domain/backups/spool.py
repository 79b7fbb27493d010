"""A folder for one file on its way to a bucket or from one; what a killed process left is removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

SPOOL = ".s3-"


@contextlib.contextmanager
def spool(data_dir: Path) -> Iterator[Path]:
    """An empty folder beside the data, which is as large as they are, and gone afterwards."""
    data_dir.mkdir(parents=True, exist_ok=True)
    for left in data_dir.glob(f"{SPOOL}*"):
        remove_left(left)
    folder = Path(tempfile.mkdtemp(dir=data_dir, prefix=SPOOL))
    held = locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def locked(folder: Path) -> int:
    """A descriptor that says, as long as this process lives, that the folder is in use; OSError when another has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def remove_left(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is in use, or gone
        held = locked(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)

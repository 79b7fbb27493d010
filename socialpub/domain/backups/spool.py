"""Folders for what is on its way; what a killed process left is removed by the next, whatever it works on.

Each lies beside what it becomes, so that a rename is enough, and is locked for as long as its process lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from socialpub.base import private

BESIDE = ".socialpub-part-"  # beside a file that a user named
SPOOL = ".s3-"  # in the data folder: a file on its way to a bucket or from one
PINS = ".backup-"  # beside the folders of media, which have two letters
RESTORING = ".restoring-"  # beside the media and the master key
_RANDOM = re.compile("[a-z0-9_]{8}")  # what `make_temporary_folder` adds


@contextlib.contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty folder in `parent`, gone afterwards; those that killed processes left there are removed."""
    private.make_folder(parent)
    sweep(parent)
    folder, held = _made(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(parent: Path) -> None:
    """Remove the working folders in `parent` whose processes have gone."""
    for prefix in (BESIDE, SPOOL, PINS, RESTORING):
        for left in parent.glob(f"{prefix}*"):
            if _RANDOM.fullmatch(left.name.removeprefix(prefix)):
                _remove_left(left)


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that locks it; again where another process swept it before it was locked."""
    while True:
        folder = private.make_temporary_folder(parent, prefix)
        with contextlib.suppress(OSError):
            held = _locked(folder)
            if folder.exists():
                return folder, held
            os.close(held)
        if not parent.is_dir():
            raise FileNotFoundError(str(parent))


def _locked(folder: Path) -> int:
    """A descriptor that says, as long as this process lives, that the folder is in use; OSError when another has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_left(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is in use, gone, or another user's
        held = _locked(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)

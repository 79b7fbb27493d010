"""What a caller is told when the disk refuses, and names that stay after a power cut."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from socialpub.base import troubles
from socialpub.base.errors import ApiError, refuse

log = logging.getLogger("socialpub.files")

FULL_RETRY_SECONDS = 60


def unusable(error: OSError) -> ApiError:
    """What a caller is told when the disk refuses; the log names the file too."""
    why = troubles.why(error)
    log.error("%s cannot be used: %s", error.filename or "the data folder", why)
    return refuse("storage.unavailable", f"Files cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Whatever the disk refuses while the block runs is ApiError `storage.unavailable`."""
    try:
        yield
    except OSError as error:
        raise unusable(error) from error


def sync(folder: Path) -> None:
    """The names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

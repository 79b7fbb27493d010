"""Durable directory entries."""

from __future__ import annotations

import os
from pathlib import Path


def sync(folder: Path) -> None:
    """Sync a folder, so that new and renamed files in it survive a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Names that stay after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(folder: Path) -> None:
    """The names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Directories: durable entries, and those that are shipped with the package."""

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


def find_shipped_directory(name: str) -> Path:
    """Return the directory `templates` or `migrations`.

    It is beside the package in a checkout, and inside the package when installed.
    """
    inside = Path(__file__).parents[2] / "_shipped" / name
    return inside if inside.is_dir() else Path(__file__).parents[3] / name

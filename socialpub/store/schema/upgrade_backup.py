"""Copies of the database from before an upgrade, checked before anything is changed.

A copy is named after the first migration that it lacks. It starts paused wherever it is opened, since its queued posts
may have been published since. `docs/running.md` explains how to restore it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from pathlib import Path

from socialpub.base import fault_injection
from socialpub.base.system import directories
from socialpub.store.engine.integrity import check_integrity
from socialpub.store.engine.locks import StartError, list_files, remove_files, unusable_error
from socialpub.store.schema import snapshot

log = logging.getLogger("socialpub.store")

SPARE_BYTES = 16 * 1024 * 1024


def create(database: Path, first: str, limit: int) -> None:
    """Copy the database before its first missing migration is applied; keep `limit` copies.

    Raise StartError, and leave no file, if there is no space or the copy is damaged. An interrupted upgrade that
    continues has its copy already.
    """
    real = Path(os.path.realpath(database))
    target = _get_path(real, first)
    if (now := _read_progress(real)) and any(
        _read_progress(other) == now for other in _list_copies(real) if other < target
    ):
        return
    _check_space(real)
    log.info("copying %s to %s before the schema is upgraded", database, target)
    part = real.with_name(f".{target.name}.part")
    try:
        _make_copy(real, part)
        directories.sync(real.parent)
        fault_injection.hit("upgrade.copied")
        os.replace(part, target)
        directories.sync(real.parent)
    except (sqlite3.Error, OSError) as error:
        raise unusable_error(target, error) from error
    finally:
        remove_files(part)
    _delete_oldest(real, limit)


def remove_leftovers(database: Path) -> None:
    """Delete unfinished copies of killed upgrades; the caller holds the writer lock."""
    real = Path(os.path.realpath(database))
    for left in real.parent.glob(f".{real.stem}-before-[0-9][0-9][0-9][0-9]_*{real.suffix}.part*"):
        left.unlink(missing_ok=True)


def _get_path(real: Path, first: str) -> Path:
    return real.with_name(f"{real.stem}-before-{first}{real.suffix}")


def _list_copies(real: Path) -> list[Path]:
    """Return the existing copies, the oldest schema first."""
    return sorted(real.parent.glob(f"{real.stem}-before-[0-9][0-9][0-9][0-9]_*{real.suffix}"))


def _read_progress(path: Path) -> object:
    """Return how far the servers on a file have come; None if none ran.

    It changes with each server run that writes to the file.
    """
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as found:
        return found.execute("SELECT epoch, beat, mark, seen_at FROM instance").fetchone()


def _check_space(real: Path) -> None:
    """Check the space for the copy and as much again: a migration may rewrite most of the file."""
    needed = 2 * sum(path.stat().st_size for path in list_files(real)[:2] if path.exists()) + SPARE_BYTES
    free = shutil.disk_usage(real.parent).free
    if free < needed:
        raise StartError(
            f"{real} needs a schema upgrade, and is copied first. Copy and upgrade need "
            f"{_format_megabytes(needed)}, and {real.parent} has {_format_megabytes(free)} left. Nothing was changed. "
            "Free some space, or make a backup with the previous version and set backup.before_upgrade = 0."
        )


def _format_megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"


def _make_copy(real: Path, part: Path) -> None:
    """Make a complete and synced copy; raise StartError if it is not intact."""
    remove_files(part)
    with contextlib.closing(sqlite3.connect(real)) as source:
        snapshot.copy(source, part)
    fault_injection.hit("upgrade.part")
    check_integrity(part)
    snapshot.checkpoint(part)
    with part.open("rb") as file:
        os.fsync(file.fileno())


def _delete_oldest(real: Path, limit: int) -> None:
    for path in _list_copies(real)[:-limit]:
        path.unlink(missing_ok=True)
        log.info("deleted the old copy %s; the %d newest copies stay", path, limit)

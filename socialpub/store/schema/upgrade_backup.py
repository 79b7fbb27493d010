"""The database as it was before an upgrade: a copy beside it, looked through before anything is changed.

It is named after the first migration that it does not have. Wherever it is opened it begins paused: what it calls
queued may have been published since. `docs/running.md` says how it is put back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from socialpub.base import fault_injection
from socialpub.base.security import private_files
from socialpub.base.system import directories
from socialpub.store.engine.integrity import check_integrity
from socialpub.store.engine.locks import StartError, list_files, remove_files, unusable_error

log = logging.getLogger("socialpub.store")

PAGES = 2048  # copied between two reports
SPARE_BYTES = 16 * 1024 * 1024
ProgressCallback = Callable[[int, int], None]
"""How much of how much has been done."""


def copy(source: sqlite3.Connection, target: Path, told: ProgressCallback = lambda done, total: None) -> None:
    """What a connection sees, as a file that begins paused wherever it is opened."""
    private_files.create_if_missing(target)
    with contextlib.closing(sqlite3.connect(target)) as fresh:
        source.backup(fresh, pages=PAGES, progress=lambda _, left, total: told(total - left, total))
        fresh.execute("PRAGMA journal_mode = delete")
        fresh.execute("UPDATE instance SET paused = 'restored', moved = NULL")  # a copy was not moved on purpose
        fresh.commit()


def checkpoint(path: Path) -> None:
    """A file that nobody has open, without a log beside it."""
    with contextlib.closing(sqlite3.connect(path)) as found:
        found.execute("PRAGMA journal_mode = delete")


def create(database: Path, first: str, most: int) -> None:
    """Copy the database before its first missing migration is applied, and keep so many such copies.

    StartError, and nothing is left of it, when there is no room for it or the copy is damaged. An upgrade that was cut
    short and goes on has its copy already.
    """
    real = Path(os.path.realpath(database))
    place = _get_path(real, first)
    if (now := _read_progress(real)) and any(
        _read_progress(kept) == now for kept in _list_copies(real) if kept < place
    ):
        return
    _check_space(real)
    log.info("%s is copied to %s before it is brought to the newest schema", database, place)
    part = real.with_name(f".{place.name}.part")
    try:
        _make_copy(real, part)
        directories.sync(real.parent)
        fault_injection.hit("upgrade.copied")
        os.replace(part, place)
        directories.sync(real.parent)
    except (sqlite3.Error, OSError) as error:
        raise unusable_error(place, error) from error
    finally:
        remove_files(part)
    _delete_oldest(real, most)


def remove_leftovers(database: Path) -> None:
    """Remove what killed upgrades left of their copies, whichever they were; the writer lock is held."""
    real = Path(os.path.realpath(database))
    for left in real.parent.glob(f".{real.stem}-before-[0-9][0-9][0-9][0-9]_*{real.suffix}.part*"):
        left.unlink(missing_ok=True)


def _get_path(real: Path, first: str) -> Path:
    return real.with_name(f"{real.stem}-before-{first}{real.suffix}")


def _list_copies(real: Path) -> list[Path]:
    """The copies that are there, the oldest schema first."""
    return sorted(real.parent.glob(f"{real.stem}-before-[0-9][0-9][0-9][0-9]_*{real.suffix}"))


def _read_progress(path: Path) -> object:
    """How far the servers on a file have come; none: None. What a server has written to since has another."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as found:
        return found.execute("SELECT epoch, beat, mark, seen_at FROM instance").fetchone()


def _check_space(real: Path) -> None:
    """A copy, and as much again: a migration may write most of the file anew."""
    needed = 2 * sum(path.stat().st_size for path in list_files(real)[:2] if path.exists()) + SPARE_BYTES
    free = shutil.disk_usage(real.parent).free
    if free < needed:
        raise StartError(
            f"{real} is to be brought to a newer schema, and a copy of it is made first. Both need "
            f"{_format_megabytes(needed)}, and {real.parent} has {_format_megabytes(free)} left. Nothing was changed. "
            "Make room, or make a backup with the former version and set backup.before_upgrade = 0."
        )


def _format_megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"


def _make_copy(real: Path, part: Path) -> None:
    """A whole copy, on the disk; StartError for one that is not."""
    remove_files(part)
    with contextlib.closing(sqlite3.connect(real)) as source:
        copy(source, part)
    fault_injection.hit("upgrade.part")
    check_integrity(part)
    checkpoint(part)
    with part.open("rb") as file:
        os.fsync(file.fileno())


def _delete_oldest(real: Path, most: int) -> None:
    for path in _list_copies(real)[:-most]:
        path.unlink(missing_ok=True)
        log.info("%s was removed: there are %d newer ones", path, most)

"""Migrates a database file to the latest schema."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import peewee
from playhouse.migrations import Runner

from socialpub.base.security import private_files
from socialpub.base.system.directories import find_shipped_directory
from socialpub.store.engine.locks import StartError, get_write_lock_path, hold, open_lock, unusable_error
from socialpub.store.engine.sqlite import make_peewee_database
from socialpub.store.schema import upgrade_backup

log = logging.getLogger("socialpub.store")


def migrate(path: Path, *, keep: int = 0) -> tuple[str | None, str | None, list[str]]:
    """Apply the missing migrations.

    Return the newest migration before and after, and the applied ones. A file with data is copied first, and `keep`
    such copies are kept (`upgrade_backup.py`); 0: no copy. Each file of `migrations/` is applied in one transaction
    with its record. Raise StartError for a file that is no database, is damaged, or was written by a newer socialpub.
    """
    with contextlib.closing(open_lock(get_write_lock_path(path))) as lock, hold(lock), _open_runner(path) as runner:
        before = _find_newest(runner)
        upgrade_backup.remove_leftovers(path)
        if keep and before and (first := _find_first_missing(runner)):
            upgrade_backup.create(path, first, keep)
        applied = runner.up()
        after = _find_newest(runner)
        if applied:
            log.info("%s: migrations applied: %d, from %s to %s", path, len(applied), before or "nothing", after)
        return before, after, applied


def count_missing(path: Path) -> int:
    """Return the number of missing migrations; raise StartError as `migrate` does."""
    return count_migrations(path)[1]


def count_migrations(path: Path) -> tuple[int, int]:
    """Return the numbers of applied and missing migrations, without changes.

    Raise StartError as `migrate` does.
    """
    with _open_runner(path) as runner:
        missing = [migration.applied is None for migration in runner.status()]
        return missing.count(False), missing.count(True)


@contextlib.contextmanager
def _open_runner(path: Path) -> Iterator[Runner]:
    """Open a file, or create it. Raise StartError as `migrate` does."""
    database = make_peewee_database(path)
    try:
        private_files.create_if_missing(path)
        database.connect()
        runner = Runner(database, str(find_shipped_directory("migrations")))
        _refuse_newer(path, runner)
        yield runner
    except (peewee.DatabaseError, sqlite3.DatabaseError, OSError) as error:
        raise unusable_error(path, error) from error
    finally:
        database.close()


def _find_first_missing(runner: Runner) -> str | None:
    return next((migration.name for migration in runner.status() if migration.applied is None), None)


def _find_newest(runner: Runner) -> str | None:
    return max(runner.applied(), default=None)


def _refuse_newer(path: Path, runner: Runner) -> None:
    unknown = [m.name for m in runner.status() if m.path is None]
    if unknown:
        raise StartError(f"{path} was written by a newer socialpub ({', '.join(unknown)}); install that version")

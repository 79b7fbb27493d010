"""Bringing a database file to the newest schema, and looking whether it is whole."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import peewee
from playhouse.migrations import Runner

from socialpub.base import troubles
from socialpub.base.config import shipped
from socialpub.store.connections import peewee_database
from socialpub.store.locks import StartError, damaged, held, open_lock, unusable, write_lock_path

CHECKED_WHOLE = 256 * 1024 * 1024


def migrate(path: Path) -> tuple[str | None, str | None, list[str]]:
    """Bring the file to the newest schema: (name of the newest migration before, after, those applied now).

    Each file of `migrations/` is applied in one transaction with its record. StartError for a file that is no
    database, is damaged, or was written by a newer socialpub.
    """
    with contextlib.closing(open_lock(write_lock_path(path))) as lock, held(lock):
        database = peewee_database(path)
        try:
            database.connect()
            runner = Runner(database, str(shipped("migrations")))
            before = _newest(runner)
            _refuse_newer(path, runner)
            applied = runner.up()
            return before, _newest(runner), applied
        except (peewee.DatabaseError, sqlite3.DatabaseError, OSError) as error:
            raise unusable(path, error) from error
        finally:
            database.close()


def _newest(runner: Runner) -> str | None:
    return max(runner.applied(), default=None)


def _refuse_newer(path: Path, runner: Runner) -> None:
    unknown = [m.name for m in runner.status() if m.path is None]
    if unknown:
        raise StartError(f"{path} was written by a newer socialpub ({', '.join(unknown)}); install that version")


def check_integrity(path: Path) -> None:
    """StartError unless SQLite finds the file whole; run before a server opens its port.

    Above CHECKED_WHOLE indexes and references are left out, which makes it several times faster.
    """
    database, whole = peewee_database(path), path.stat().st_size <= CHECKED_WHOLE
    check = "integrity_check" if whole else "quick_check"
    try:
        database.connect()
        problems = [row[0] for row in database.execute_sql(f"PRAGMA {check}(5)").fetchall()]
        lost = database.execute_sql("PRAGMA foreign_key_check").fetchone() if whole else None
        problems += [f"a row of {lost[0]} names a row of {lost[2]} that is not there"] if lost else []
    except (peewee.DatabaseError, sqlite3.DatabaseError) as error:
        if troubles.why(error):
            raise unusable(path, error) from error
        problems = [str(error)]
    finally:
        database.close()
    if problems != ["ok"]:
        raise damaged(path, "; ".join(problems))

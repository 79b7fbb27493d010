"""Atomic migrations under interruption, and refusal of a newer file."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from pathlib import Path

import pytest

from socialpub.store.engine.locks import StartError
from socialpub.store.schema import migration
from tests.support import earlier_databases


def tables(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {row[0] for row in rows}


def _migrate(path: Path, look: object) -> None:
    """`database.migrate` with a look at each statement before it is run."""

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            look(sql)  # type: ignore[operator]
            return super().execute(sql, *values)  # type: ignore[arg-type]

        def cursor(self, factory: type[sqlite3.Cursor] = sqlite3.Cursor) -> sqlite3.Cursor:
            return super().cursor(WatchedCursor)

    class WatchedCursor(sqlite3.Cursor):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            look(sql)  # type: ignore[operator]
            return super().execute(sql, *values)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        plain = sqlite3.connect
        patched.setattr(sqlite3, "connect", lambda *a, **more: plain(*a, **{**more, "factory": Watched}))
        migration.migrate(path)


class CutError(sqlite3.OperationalError):
    """The disk failed at this statement."""


def apart(quick: int) -> pytest.MarkDecorator:
    """Each statement is cut in the slow tests, and one of so many in the quick ones."""
    return pytest.mark.parametrize("apart", [quick, pytest.param(1, marks=pytest.mark.slow)])


def cut_at(path: Path, nth: int) -> bool:
    """Whether a migration came to its nth statement, and failed there."""
    seen = 0

    def look(sql: str) -> None:
        nonlocal seen
        seen += 1
        if seen == nth + 1:
            raise CutError("disk I/O error")

    try:
        _migrate(path, look)
    except StartError:
        return True
    return False


@pytest.mark.slow
@apart(67)
def test_a_new_file_is_empty_or_whole_wherever_its_making_fails(tmp_path: Path, apart: int) -> None:
    migration.migrate(tmp_path / "whole.db")
    for nth in itertools.count(0, apart):
        path = tmp_path / f"{nth}.db"
        if not cut_at(path, nth):
            break
        assert tables(path) in (set(), {"schema_migration"}, tables(tmp_path / "whole.db")), f"statement {nth}"
        migration.migrate(path)
        assert everything(path) == everything(tmp_path / "whole.db")
    assert nth > 100


@pytest.mark.slow
@apart(23)
@pytest.mark.parametrize("number", range(1, earlier_databases.newest_version()))
def test_rows_are_as_they_were_wherever_an_upgrade_fails(number: int, apart: int, tmp_path: Path) -> None:
    """Between two migrations, never within one; and the next time it goes on."""
    source = earlier_databases.make_database(tmp_path / "former.db", number, tmp_path)
    steps = []
    for count in range(number, earlier_databases.newest_version() + 1):
        shutil.copy(source, tmp_path / "step.db")
        with earlier_databases.limited_migrations(count, tmp_path):
            migration.migrate(tmp_path / "step.db")
        steps.append(everything(tmp_path / "step.db"))
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), tmp_path):
        for nth in itertools.count(0, apart):
            path = tmp_path / f"{nth}.db"
            shutil.copy(source, path)
            if not cut_at(path, nth):
                break
            assert everything(path) in steps, f"statement {nth}"
            migration.migrate(path)
            assert everything(path) == steps[-1]
            assert rows(path, "PRAGMA integrity_check") + rows(path, "PRAGMA foreign_key_check") == [("ok",)]
            path.unlink()
    assert nth > 20


def everything(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The schema, and every row of every table, but when migrations were applied."""
    names = [str(name) for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    kept = [name for name in names if name not in ("schema_migration", "post_search")]  # that has no content
    schema = rows(path, "SELECT name, sql FROM sqlite_master ORDER BY name")
    return {name: rows(path, f'SELECT * FROM "{name}"') for name in kept} | {"sqlite_master": schema}


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = earlier_databases.make_database(tmp_path / "socialpub.db", earlier_databases.newest_version(), tmp_path)
    before = everything(path)
    with pytest.raises(StartError, match="newer socialpub"):
        migration.migrate(path)
    assert everything(path) == before

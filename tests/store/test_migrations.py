"""Migrations: whole or not at all, refused when newer, and equal to the models."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from socialpub.base.config import shipped
from socialpub.store import db
from socialpub.store.locks import StartError


def tables(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {row[0] for row in rows}


def statements_of(path: Path) -> int:
    """How many statements one whole migration of a fresh file takes."""
    seen: list[str] = []
    _migrate(path, lambda sql: seen.append(sql))
    return len(seen)


def _migrate(path: Path, look: object) -> None:
    """`db.migrate` with a look at each statement before it is run."""

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
        db.migrate(path)


class CutError(sqlite3.OperationalError):
    """The disk failed at this statement."""


def test_a_migration_that_fails_at_any_statement_leaves_the_old_schema(tmp_path: Path) -> None:
    total = statements_of(tmp_path / "whole.db")
    wanted = tables(tmp_path / "whole.db")
    steps = [set(), *_schemas(tmp_path)]
    assert total > 30
    for nth in range(total):
        path = tmp_path / f"{nth}.db"
        seen = 0

        def look(sql: str, nth: int = nth) -> None:
            nonlocal seen
            seen += 1
            if seen == nth + 1 and "CREATE" in sql and "migration" not in sql.lower():
                raise CutError("disk I/O error")

        with contextlib.suppress(StartError):
            _migrate(path, look)
            assert tables(path) == wanted
            continue
        assert tables(path) in steps, f"statement {nth} left something between two schemas"
        db.migrate(path)
        assert tables(path) == wanted


def _schemas(folder: Path) -> list[set[str]]:
    """The tables before the first migration, and after each."""
    found = []
    for number in range(len(_files()) + 1):
        part = folder / f"first {number}"
        part.mkdir()
        for source in _files()[:number]:
            (part / source.name).write_text(source.read_text())
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("socialpub.store.migrate.shipped", lambda name, part=part: part)
            db.migrate(part / "socialpub.db")
        found.append(tables(part / "socialpub.db"))
    return found


def _files() -> list[Path]:
    return sorted(shipped("migrations").glob("[0-9]*.py"))


def test_a_second_migration_finds_nothing_to_do(tmp_path: Path) -> None:
    path = tmp_path / "socialpub.db"
    before, after, applied = db.migrate(path)
    assert (before, bool(after), bool(applied)) == (None, True, True)
    assert db.migrate(path) == (after, after, [])


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "socialpub.db"
    db.migrate(path)
    older = tmp_path / "older"
    older.mkdir()
    for source in _files()[:-1]:
        (older / source.name).write_text(source.read_text())
    monkeypatch.setattr("socialpub.store.migrate.shipped", lambda name: older)
    with pytest.raises(StartError, match="newer socialpub"):
        db.migrate(path)

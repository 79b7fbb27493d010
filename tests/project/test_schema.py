"""Migrated schema equals the models, and migrations are numbered without gaps."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import peewee

from socialpub.base.system.directories import find_shipped_directory
from socialpub.store.engine.id_fields import SurrogateKeyField, UuidField
from socialpub.store.queries import id_columns
from socialpub.store.schema import migration
from socialpub.store.schema.models import TABLES

MIGRATIONS = sorted(path.stem for path in find_shipped_directory("migrations").glob("*.py"))


def _from_models(path: Path) -> None:
    database = peewee.SqliteDatabase(str(path))
    with database.bind_ctx(TABLES):
        database.create_tables(TABLES, safe=False)
    database.close()


def _from_migrations(path: Path) -> None:
    migration.migrate(path)


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    # The text search's tables are virtual, or its own: no model describes them.
    return sorted(name for (name,) in rows if name != "schema_migration" and not name.startswith("post_search"))


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, Any]:
    """Of each column: type, NOT NULL, default, place in the primary key."""
    rows = connection.execute(f"PRAGMA table_xinfo('{table}')")
    return {name: (kind, required, default, key) for _, name, kind, required, default, key, _ in rows}


def _has_rowid(connection: sqlite3.Connection, table: str) -> bool:
    """Whether its rows are in a tree of their own, beside that of the primary key."""
    return connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (table,)).fetchone() == (0,)


def _references(connection: sqlite3.Connection, table: str) -> set[Any]:
    return {tuple(row[2:]) for row in connection.execute(f"PRAGMA foreign_key_list('{table}')")}


def _indexes(connection: sqlite3.Connection, table: str) -> dict[str, Any]:
    """Of each index: unique, partial, its columns in order, and the condition as it is written."""
    found = {}
    for _, name, unique, _, partial in connection.execute(f"PRAGMA index_list('{table}')").fetchall():
        columns = [(row[2], row[3]) for row in connection.execute(f"PRAGMA index_xinfo('{name}')") if row[5]]
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone() or ("",)
        found[name] = (unique, partial, columns, re.sub(r"\s+", " ", (sql or "").partition("WHERE")[2]).strip())
    return found


def schema(path: Path, make: Callable[[Path], None]) -> dict[str, Any]:
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: {
                "columns": _columns(connection, table),
                "rowid": _has_rowid(connection, table),
                "references": _references(connection, table),
                "indexes": _indexes(connection, table),
            }
            for table in _tables(connection)
        }


def test_the_migrated_schema_is_that_of_the_models(tmp_path: Path) -> None:
    migrated, modelled = schema(tmp_path / "a.db", _from_migrations), schema(tmp_path / "b.db", _from_models)
    assert sorted(migrated) == sorted(modelled) == sorted(table._meta.table_name for table in TABLES)
    for table in modelled:
        assert migrated[table] == modelled[table], table


def test_the_schema_has_what_this_comparison_looks_at(tmp_path: Path) -> None:
    found = schema(tmp_path / "a.db", _from_migrations)
    assert found["post"]["columns"]["status"] == ("TEXT", 1, None, 0)
    assert found["post"]["columns"]["error_code"] == ("TEXT", 0, None, 0)
    assert found["intent"]["indexes"]["intent_open"] == (1, 1, [("post", 0), ("step", 0)], "outcome IS NULL")
    assert any(row[0] == "profile" for row in found["post"]["references"])


def test_ids_are_kept_as_the_statements_read_them() -> None:
    """The models and `statements/ids.py` name the same columns."""
    numbered, as_bytes = defaultdict[str, dict[str, str]](dict), defaultdict[str, set[str]](set)
    for model in TABLES:
        for field in model._meta.sorted_fields:
            if isinstance(field, SurrogateKeyField):
                numbered[model._meta.table_name][field.column_name] = field.rel_model._meta.table_name
            elif isinstance(field, UuidField):
                as_bytes[model._meta.table_name].add(field.column_name)
    assert numbered == id_columns.NUMBER_COLUMNS
    assert as_bytes == {table: set(columns) for table, columns in id_columns.UUID_COLUMNS.items()}


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert migration.migrate(path) == (None, MIGRATIONS[-1], MIGRATIONS)
    assert migration.migrate(path) == (MIGRATIONS[-1], MIGRATIONS[-1], [])


def test_migrations_are_numbered_one_after_the_other() -> None:
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+", name) for name in MIGRATIONS)
    assert [int(name[:4]) for name in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))

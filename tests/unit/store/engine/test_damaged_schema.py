"""Detection of a bit flip in the schema text that SQLite's own checks miss."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from socialpub.store.engine.locks import StartError
from socialpub.store.schema import migration, models


@pytest.mark.parametrize(
    "bit, why", [(0, "table webhook_endpoint has no column events"), (7, "its schema cannot be read: Could not decode")]
)
def test_a_column_under_another_name_is_damage_and_no_traceback(bit: int, why: str, tmp_path: Path) -> None:
    path = tmp_path / "socialpub.db"
    migration.migrate(path)
    models.check_columns(path)
    _flip(path, b" events ", bit)
    with pytest.raises(StartError) as refused:
        models.check_columns(path)
    assert str(refused.value).startswith(f"{path} is damaged ({why}")
    assert str(refused.value).endswith("Put a backup in its place.")


def _flip(path: Path, name: bytes, bit: int) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        ((schema,),) = connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_schema WHERE name = 'webhook_endpoint'")
        damaged = bytearray(schema)
        damaged[schema.index(name) + 1] ^= 1 << bit
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute(
            "UPDATE sqlite_schema SET sql = CAST(? AS TEXT) WHERE name = 'webhook_endpoint'", (bytes(damaged),)
        )

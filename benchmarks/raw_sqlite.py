"""Baseline database: sqlite3 alone writes the rows of a scheduled batch, durably.

`python -m benchmarks.raw_sqlite`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BenchError
from benchmarks.servers import ROOT, CheckoutServer

Value = str | bytes | int | float | None
_OF_THE_BATCH = {  # the rows of one batch, by table
    "batch": "SELECT * FROM batch WHERE id = ?",
    "post": "SELECT * FROM post WHERE batch = ? ORDER BY position",
    "event": "SELECT * FROM event WHERE post IN (SELECT number FROM post WHERE batch = ?)",
    "job": "SELECT * FROM job WHERE key IN (SELECT id FROM post WHERE batch = ?)",
}
_GIVEN_ANEW = {"batch": ("id",), "post": ("id", "batch"), "event": (), "job": ("key",)}  # events have numbers alone


def rate(
    side: CheckoutServer,
    folder: Path,
    seconds: int,
    *,
    targets: int,
    group: int = 1,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Posts a second, on a copy of a side's database: batches of so many, so many batches a commit."""
    accounts = [{"accountId": account} for account in side.people.accounts[:targets]]
    side.post({"text": "To be copied.", "targets": accounts, "scheduledAt": "2099-01-01T00:00:00Z"})
    copy = folder / f"raw-{uuid.uuid4().hex}.db"
    try:
        with closing(sqlite3.connect(side.database)) as live, closing(sqlite3.connect(copy)) as into:
            live.backup(into)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.raw_sqlite", str(copy), str(seconds)],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for file in folder.glob(f"{copy.name}*"):
            file.unlink()
    if done.returncode:
        raise BenchError(f"sqlite3 alone failed: {done.stderr[-1000:]}")
    return float(json.loads(done.stdout))


@dataclass(frozen=True)
class TableRows:
    """The rows of one table, to be written again and again with other ids."""

    sql: str
    columns: tuple[str, ...]
    values: list[tuple[Value, ...]]
    anew: tuple[int, ...]

    @classmethod
    def read(cls, connection: sqlite3.Connection, table: str, batch: Value) -> TableRows:
        found = connection.execute(_OF_THE_BATCH[table], (batch,))
        names = [column[0] for column in found.description]
        kept = [place for place, name in enumerate(names) if name != "number"]  # which is given by the table
        columns = tuple(names[place] for place in kept)
        values = [tuple(row[place] for place in kept) for row in found]
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        return cls(sql, columns, values, tuple(columns.index(name) for name in _GIVEN_ANEW[table]))

    def again(self, ids: dict[Value, Value]) -> list[tuple[Value, ...]]:
        made = []
        for row in self.values:
            values = list(row)
            for place in self.anew:
                old = values[place]
                values[place] = ids.setdefault(old, os.urandom(16) if isinstance(old, bytes) else str(uuid.uuid4()))
            made.append(tuple(values))
        return made


def _write(connection: sqlite3.Connection, seconds: float) -> float:
    (batch,) = connection.execute("SELECT id FROM batch ORDER BY created_at DESC LIMIT 1").fetchone()
    tables = {table: TableRows.read(connection, table, batch) for table in _OF_THE_BATCH}
    began, posts = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        connection.execute("BEGIN IMMEDIATE")
        ids: dict[Value, Value] = {}
        for table, rows in tables.items():
            for values in rows.again(ids):
                connection.execute(rows.sql, values)
                posts += table == "post"
        connection.execute("COMMIT")
    return posts / (time.monotonic() - began)


def main() -> None:
    path, seconds = sys.argv[1:]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA foreign_keys = on")
        print(json.dumps(_write(connection, float(seconds))))


if __name__ == "__main__":
    main()

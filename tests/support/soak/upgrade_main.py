"""Database upgrades killed at every SQL statement, each in a forked process.

Prints as JSON the number of statements of an upgrade, the number of kills, and each kill after which the database
content differed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from socialpub.store.schema import migration
from tests.support import earlier_databases

StatementHook = Callable[[str], None]


class _Cursor(sqlite3.Cursor):
    look: StatementHook

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        _Cursor.look(sql)
        return super().execute(sql, *values)


class _Connection(sqlite3.Connection):
    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        _Cursor.look(sql)
        return super().execute(sql, *values)

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_Cursor)


def upgrade(path: Path, look: StatementHook) -> None:
    plain = sqlite3.connect
    _Cursor.look = look  # type: ignore[method-assign,assignment]
    sqlite3.connect = lambda *given, **more: plain(*given, **{"factory": _Connection, **more})  # type: ignore[assignment]
    try:
        migration.migrate(path, keep=2)
    finally:
        sqlite3.connect = plain


def kill_at_statement(path: Path, nth: int) -> bool:
    """Whether an upgrade came to its nth statement, and was killed there."""
    child = os.fork()
    if child == 0:
        seen = 0

        def look(sql: str) -> None:
            nonlocal seen
            seen += 1
            if seen == nth:
                os.kill(os.getpid(), signal.SIGKILL)

        upgrade(path, look)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def read_content(path: Path) -> list[Any]:
    """What the database says: posts and what hangs on them, by the columns that every schema has."""
    with contextlib.closing(sqlite3.connect(path)) as found:
        whole = found.execute("PRAGMA integrity_check").fetchall()
        lost = found.execute("PRAGMA foreign_key_check").fetchall()
        accounts = _known(found, "account", "id organization profile platform platform_account_id secret")
        posts = _known(found, "post", "id batch account status text media")
        attempts = _known(found, "attempt", "post number started_at")
        intents = _known(found, "intent", "post step number outcome")
        batches = _known(found, "batch", "id organization created_at")
        rest = [
            found.execute(f'SELECT count(*) FROM "{table}"').fetchone()
            for table in ("api_key", "event", "idempotency", "job", "media", "user", "session", "usage")
        ]
    return [whole, lost, accounts, posts, attempts, intents, batches, rest]


def _known(connection: sqlite3.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    """These columns of a table's rows, in the order of the first."""
    asked = earlier_databases.column_expressions(connection, table)
    named = ", ".join(asked[column] for column in columns.split())
    return connection.execute(f"SELECT {named} FROM {table} ORDER BY 1, 2, 3").fetchall()


def copy_database(source: Path, path: Path) -> None:
    for left in path.parent.glob("socialpub*"):
        left.unlink()
    shutil.copy(source, path)


def main(source: Path, folder: Path) -> dict[str, Any]:
    path, before = folder / "socialpub.db", read_content(source)
    kills, wrong, nth = 0, list[str](), 1
    while True:
        copy_database(source, path)
        if not kill_at_statement(path, nth):
            break
        kills += 1
        if read_content(path) != before:
            wrong.append(f"after the kill at statement {nth}")
        if kills % 3 == 0:
            kill_at_statement(path, nth // 2 + 1)  # and the one that goes on is killed too
        migration.migrate(path, keep=2)
        if read_content(path) != before:
            wrong.append(f"after the upgrade that followed the kill at statement {nth}")
        copies = list(folder.glob("socialpub-before-*.db"))
        if len(copies) != 1 or read_content(copies[0]) != before:
            wrong.append(f"the copy, after the kill at statement {nth}: {[copy.name for copy in copies]}")
        nth += 1
    return {"statements": nth, "kills": kills, "wrong": wrong}


if __name__ == "__main__":
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), Path(sys.argv[1]).parent):
        print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))

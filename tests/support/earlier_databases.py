"""Databases of earlier schema versions, and a program with additional test migrations.

The program has one migration so far, so upgrades are tested with those of `tests/support/migrations/`. Rows are
generated from the schema: a new table or column needs no line here unless it requires a special value.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from socialpub.base.security import crypto
from socialpub.base.system.directories import find_shipped_directory
from socialpub.store.queries import encrypted_columns
from socialpub.store.queries.events import TYPE_NUMBERS
from socialpub.store.queries.id_columns import select_column
from socialpub.store.schema import migration

ROWS = 6
NOW_MS = 1_795_000_000_000  # November 2026
LATER_MS = 10**13
KEY = crypto.generate_api_key("svc_live_", bytes)  # of the first key, as its owner has it
MASTER = crypto.MasterKey(bytes(range(32)))
VAULT = crypto.Vault([MASTER], os.urandom)
SEALED = {(each.table, each.column) for each in encrypted_columns.ENCRYPTED_COLUMNS}
STATUSES = ("published", "failed", "queued", "rejected", "canceled", "published")
OWNERS = ("organization", "profile", "account")  # everything is of the first

WORDS: dict[str, Any] = {  # by table and column, or by column; None where a column may have none
    "organization.tier": "self_host",
    "account.platform": "bluesky",
    "account.status": "active",
    "post.platform": "bluesky",
    "post.media": "[]",
    "warnings": "[]",
    "options": "{}",
    "extra": "{}",
    "data": "{}",
    "events": "[]",
    "secret": None,
    "previous_secret": None,
    "client_key": None,
    "signing_key": None,
    "key_id": None,
    "disconnected_at": None,
    "deleted_at": None,
    "revoked_at": None,
    "scopes": None,
    "accounts": None,
    "api_key.expires_at": None,
    "epoch": None,
    "instance.epoch": 3,
    "intent.epoch": 3,
    "saved": None,
    "platform_response": "{}",
    "refusal": None,
    "evidence": None,
    "settled_by": None,
    "choices": None,
    "renewals": None,
    "attention": None,
    "account_groups": None,
    "error": None,
    "error_code": None,
    "profile": None,
    "idempotency.body": "{}",
    "idempotency.status": 202,
    "idempotency.sealed": 0,
    "idempotency.batch": None,
    "active": 0,
    "webhook_delivery.status": "delivered",
    "notification.status": "delivered",
    "notification_channel.kind": "ntfy",
    "shown": '{"kind": "ntfy", "topic": "t"}',
    "event.type": TYPE_NUMBERS["post.published"],
    "user.role": "owner",
    "job.kind": "publish",
    "visible_at": LATER_MS,
    "intent.outcome": "ok",
    "media.kind": "image",
    "media.content_type": "image/png",
    "paused": None,
    "moved": None,
}


LATER_MIGRATIONS = tuple(Path(__file__).parent / "migrations" / f"{stem}.py" for stem in ("rebuilt_accounts", "labels"))
MIGRATIONS_VARIABLE = "TESTS_MIGRATIONS"
"""The variable that tells forked commands (`tests/support/forked_commands.py`) where their migrations are."""


def newest_version() -> int:
    """How many migrations the program of a later version has."""
    return len(_files())


def migration_name(number: int) -> str:
    """The name of a migration."""
    return _files()[number - 1][0]


def _files() -> list[tuple[str, Path]]:
    """The program's migrations and those of tests after them, by the names under which they are applied."""
    shipped_ones = sorted(find_shipped_directory("migrations").glob("[0-9]*.py"))
    later = [f"{number:04d}_{path.stem}" for number, path in enumerate(LATER_MIGRATIONS, len(shipped_ones) + 1)]
    return [*((path.stem, path) for path in shipped_ones), *zip(later, LATER_MIGRATIONS, strict=True)]


@contextlib.contextmanager
def limited_migrations(number: int, folder: Path) -> Iterator[None]:
    """While the block runs, the program and the commands forked from it have so many migrations."""
    part = folder / f"migrations-{number}"
    part.mkdir(parents=True, exist_ok=True)
    for stem, source in _files()[:number]:
        (part / f"{stem}.py").write_text(source.read_text())
    for path in (part, *part.glob("*.py")):
        path.chmod(0o755)  # other users' commands read them too
    with (
        mock.patch("socialpub.store.schema.migration.find_shipped_directory", return_value=part),
        mock.patch.dict(os.environ, {MIGRATIONS_VARIABLE: str(part)}),
    ):
        yield


def make_database(path: Path, number: int, folder: Path) -> Path:
    """A database with the first migrations, and rows in every table. `folder`: for what is needed on the way."""
    with limited_migrations(number, folder):
        migration.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = 1")
        for table in _tables_by_reference(connection):
            for place in range(1 if table == "instance" else ROWS):
                _insert(connection, table, place)
        connection.commit()
    return path


def table_names(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in found if name != "schema_migration" and not name.startswith("post_search")]


def column_expressions(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """What is asked for each column of a table so that ids are told as text."""
    return {row[1]: select_column(table, row[1]) for row in connection.execute(f"PRAGMA table_info('{table}')")}


def _tables_by_reference(connection: sqlite3.Connection) -> list[str]:
    """What others refer to comes first."""
    left, done = table_names(connection), list[str]()
    while left:
        for table in left:
            if {to for to, _ in _references(connection, table).values()} <= {*done, table}:
                done.append(table)
                left.remove(table)
                break
    return done


def _references(connection: sqlite3.Connection, table: str) -> dict[str, tuple[str, str]]:
    rows = connection.execute(f"PRAGMA foreign_key_list('{table}')").fetchall()
    return {row[3]: (row[2], row[4]) for row in rows}


def _insert(connection: sqlite3.Connection, table: str, place: int) -> None:
    columns = connection.execute(f"PRAGMA table_info('{table}')").fetchall()
    references = _references(connection, table)
    is_numbered = sum(bool(key) for *_, key in columns) == 1 and table != "instance"  # SQLite gives the number
    row = {
        name: _value(connection, references, table, name, kind, place, required=bool(required))
        for _, name, kind, required, _, key in columns
        if not (key and kind == "INTEGER" and is_numbered)
    }
    named = ", ".join(f'"{name}"' for name in row)
    connection.execute(f'INSERT INTO "{table}" ({named}) VALUES ({", ".join("?" * len(row))})', [*row.values()])


def _value(
    connection: sqlite3.Connection,
    references: dict[str, tuple[str, str]],
    table: str,
    name: str,
    kind: str,
    place: int,
    *,
    required: bool,
) -> Any:
    if (own := _usable_value(table, name, place)) is not None:
        return own
    if name in references and (required or name != "profile"):
        to, column = references[name]
        rows = connection.execute(f'SELECT "{column}" FROM "{to}" ORDER BY rowid').fetchall() if to != "batch" else []
        rows = rows or connection.execute(f'SELECT "{column}" FROM "{to}" ORDER BY "{column}"').fetchall()
        return rows[0 if to in OWNERS else place % len(rows)][0]
    for word in (f"{table}.{name}", name):
        if word in WORDS and (WORDS[word] is not None or not required):
            return WORDS[word]
    if name.endswith(("_at", "_until")) or name == "at":
        return NOW_MS + place
    if not required and (table, name) in SEALED:
        return None
    if name == "secret":
        return VAULT.seal(b"{}", (table, name, _id(table, place)))
    text = f"{table} {name} {place}"
    return {"INTEGER": place + 1, "REAL": 1.5, "BLOB": text.encode()}.get(kind, text)


def _usable_value(table: str, name: str, place: int) -> Any:
    """What a row needs so that a server can work with it."""
    status = STATUSES[place % len(STATUSES)]
    if (table, name) == ("post", "status"):
        return status
    if (table, name) == ("post", "scheduled_at"):
        return LATER_MS if status == "queued" else None
    if (table, name) in (("post", "next_attempt_at"), ("post", "due_at")):
        return None
    if (table, name) == ("post", "text_fold"):
        return f"post text {place}"
    if (table, name) == ("api_key", "digest"):
        return crypto.digest(KEY if place == 0 else f"another {place}")
    if (table, name) == ("job", "key"):
        return _post(place)
    if name == "id" and table not in ("instance",):
        return _id(table, place)
    if (table, name) == ("intent", "attempt"):
        return place + 1
    return None


def _id(table: str, place: int) -> str:
    return _post(place) if table == "post" else f"01a20000-0000-7000-8000-{sum(map(ord, table)):04d}{place:08d}"


def _post(place: int) -> str:
    return f"01a20000-0000-7000-8000-9999{place:08d}"


def write_key_file(folder: Path) -> None:
    """The master key that their secrets are sealed with, where a server looks for it."""
    path = folder / "master.key"
    path.write_bytes(crypto.format_master_keys([MASTER]))
    path.chmod(0o600)

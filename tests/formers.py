"""Databases as earlier versions left them: at any migration, with rows in every table that there was then.

The schema is what the migrations make; its rows are made from the schema, so a table or a column that comes later needs
no line here, unless it has a word of its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from socialpub.base import crypto
from socialpub.base.config import shipped
from socialpub.store import db
from socialpub.store.ids import kept
from socialpub.store.statements import sealed
from socialpub.store.statements.events import TYPES
from socialpub.store.statements.ids import told

ROWS = 6
NOW_MS = 1_795_000_000_000  # November 2026
LATER_MS = 10**13
KEY = crypto.mint_key("svc_live_", bytes)  # of the first key, as its owner has it
MASTER = crypto.MasterKey(bytes(range(32)))
VAULT = crypto.Vault([MASTER], os.urandom)
SEALED = {(each.table, each.column) for each in sealed.SEALED}
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
    "event.type": "post.published",
    "user.role": "owner",
    "job.kind": "publish",
    "visible_at": LATER_MS,
    "intent.outcome": "ok",
    "media.kind": "image",
    "media.content_type": "image/png",
    "paused": None,
    "moved": None,
}


def newest() -> int:
    return len(_files())


def _files() -> list[Path]:
    return sorted(shipped("migrations").glob("[0-9]*.py"))


@contextlib.contextmanager
def only(number: int, folder: Path) -> Iterator[None]:
    """The program as it was: with so many migrations."""
    part = folder / f"migrations-{number}"
    part.mkdir(parents=True, exist_ok=True)
    for source in _files()[:number]:
        (part / source.name).write_text(source.read_text())
    with mock.patch("socialpub.store.migrate.shipped", return_value=part):
        yield


def made(path: Path, number: int, folder: Path) -> Path:
    """A database with the first migrations, and rows in every table. `folder`: for what is needed on the way."""
    with only(number, folder):
        db.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = 1")
        for table in _in_order(connection):
            for place in range(1 if table == "instance" else ROWS):
                _insert(connection, table, place)
        if number < _number_of("search_behind"):
            _search(connection)
        connection.commit()
    return path


def _number_of(name: str) -> int:
    return next(place for place, path in enumerate(_files(), 1) if name in path.name)


def tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in found if name != "schema_migration" and not name.startswith("post_search")]


def known(connection: sqlite3.Connection, table: str, of: str = "") -> dict[str, str]:
    """What is asked for each column of a table so that ids are told as text, however this schema keeps them."""
    info = connection.execute(f"PRAGMA table_info('{table}')").fetchall()
    shorter = {name for _, name, kind, *_ in info if kind in ("INTEGER", "BLOB")}
    return {name: told(table, name, of) if name in shorter else f'"{of or table}"."{name}"' for _, name, *_ in info}


def _in_order(connection: sqlite3.Connection) -> list[str]:
    """What others refer to comes first."""
    left, done = tables(connection), list[str]()
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
    row = {
        name: _stored(_value(connection, references, table, name, kind, place, required=bool(required)), kind)
        for _, name, kind, required, _, key in columns
        if not (key and kind == "INTEGER" and table != "instance")
    }
    named = ", ".join(f'"{name}"' for name in row)
    connection.execute(f'INSERT INTO "{table}" ({named}) VALUES ({", ".join("?" * len(row))})', [*row.values()])


def _stored(value: Any, kind: str) -> Any:
    """An id in a column of bytes."""
    return kept(value) if kind == "BLOB" and isinstance(value, str) else value


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
    if (own := _own(connection, table, name, place)) is not None:
        return own
    if (table, name, kind) == ("event", "type", "INTEGER"):
        return TYPES[WORDS["event.type"]]
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
    return (
        place + 1
        if kind in ("INTEGER", "BIGINT")
        else 1.5
        if kind == "REAL"
        else text.encode()
        if kind == "BLOB"
        else text
    )


def _own(connection: sqlite3.Connection, table: str, name: str, place: int) -> Any:
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
    if (table, name) == ("intent", "attempt") and not _references(connection, "intent").get("attempt"):
        return place + 1
    return None


def _id(table: str, place: int) -> str:
    return _post(place) if table == "post" else f"01a20000-0000-7000-8000-{sum(map(ord, table)):04d}{place:08d}"


def _post(place: int) -> str:
    return f"01a20000-0000-7000-8000-9999{place:08d}"


def key_file(folder: Path) -> None:
    """The master key that their secrets are sealed with, where a server looks for it."""
    path = folder / "master.key"
    path.write_bytes(crypto.written([MASTER]))
    path.chmod(0o600)


def _search(connection: sqlite3.Connection) -> None:
    """The index of the search as the server kept it up to date then."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'post_search'").fetchone():
        connection.execute(
            "INSERT INTO post_search (rowid, fold, organization, profile, platform) "
            "SELECT number, text_fold, substr(organization, -3), substr(profile, -3), substr(platform, 1, 3) FROM post"
        )


def name(number: int) -> str:
    """The name of a migration."""
    return _files()[number - 1].stem

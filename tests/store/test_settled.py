"""What rarely changes is kept until it has, whoever changed it; what changes all the time does not touch it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from socialpub.store import sql
from socialpub.store.db import Database, Tx
from socialpub.store.statements import settled
from socialpub.store.unchanged import Unchanged

ORGANIZATION = "INSERT INTO organization (id, name, tier, created_at) VALUES ('o', 'name', 'free', 0)"
PROFILE = """
    INSERT INTO profile (id, organization, name, slug, created_at, updated_at) VALUES ('p', 'o', '', '', 0, 0)
"""
ACCOUNT = """
    INSERT INTO account
    (id, organization, profile, platform, platform_account_id, status, extra, created_at, updated_at)
    VALUES ('a', 'o', 'p', 'twitter', '1', 'active', '{}', 0, 0)
"""
KEY = """
    INSERT INTO api_key (id, organization, name, prefix, last4, digest, created_at) VALUES ('k', 'o', '', '', '', '', 0)
"""
ENDPOINT = """
    INSERT INTO webhook_endpoint (id, organization, url, events, active, secret, created_at, updated_at)
    VALUES ('w', 'o', '', '[]', 1, '', 0, 0)
"""
CHANNEL = """
    INSERT INTO notification_channel (id, organization, kind, shown, events, active, secret, created_at, updated_at)
    VALUES ('c', 'o', '', '', '[]', 1, '', 0, 0)
"""
INSTANCE = "INSERT INTO instance (id, epoch, beat, mark, seen_at) VALUES (1, 0, 0, '', 0)"
ROWS = (ORGANIZATION, PROFILE, ACCOUNT, KEY, ENDPOINT, CHANNEL)
CHANGES = (
    "UPDATE organization SET tier = 'pro'",
    "UPDATE profile SET deleted_at = 1",
    "UPDATE account SET disconnected_at = 1",
    "UPDATE account SET extra = '[]'",
    "UPDATE account SET secret = 'other'",
    "UPDATE account SET token_expires_at = 1",
    "UPDATE account SET attention = '{}'",
    "UPDATE api_key SET revoked_at = 1",
    "UPDATE webhook_endpoint SET active = 0",
    "UPDATE notification_channel SET events = '[1]'",
    "UPDATE instance SET paused = 'why' WHERE id = 1",
    "UPDATE instance SET epoch = epoch + 1 WHERE id = 1",
)
SEEN = "UPDATE instance SET seen_at = seen_at + 1 WHERE id = 1"
NOTED = (
    "UPDATE webhook_endpoint SET last_delivery_at = 1",
    "UPDATE notification_channel SET failing_since = 1",
    "UPDATE account SET renewed_at = 1",
    "UPDATE api_key SET last_used_at = 1",
    SEEN,
    "INSERT INTO usage (organization, period, posts, warned, exceeded) VALUES ('o', '2026-11', 1, 0, 0)",
)
TIER = "SELECT tier FROM organization WHERE id = 'o'"


class Undo(Exception):
    """Nothing of this write is to stand."""


@pytest.fixture
def filled(database: Database) -> Database:
    database.write(lambda tx: [sql.execute(text) for text in (INSTANCE, *ROWS)]).result()
    return database


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as connection:
        yield connection


def change(database: Database, text: str) -> None:
    database.write(lambda tx: sql.execute(text)).result()


@pytest.mark.parametrize("text", [*ROWS, *CHANGES, *(f"DELETE FROM {name}" for name in ("api_key", "account"))])
def test_each_change_of_this_process_is_heard_of(text: str, filled: Database) -> None:
    if text in ROWS:
        for name in ("api_key", "account", "webhook_endpoint", "notification_channel", "profile", "organization"):
            change(filled, f"DELETE FROM {name}")
        for row in ROWS[: ROWS.index(text) if text in ROWS[:2] else 2]:
            change(filled, row)
    before = filled.settled()
    change(filled, text)
    assert filled.settled() != before


@pytest.mark.parametrize("text", NOTED)
def test_what_is_noted_all_the_time_is_not(text: str, filled: Database) -> None:
    before = filled.settled()
    change(filled, text)
    assert filled.settled() == before


def test_each_table_that_is_kept_has_a_trigger_for_each_kind_of_change(filled: Database) -> None:
    made = filled.write(lambda tx: sql.every("SELECT name FROM sqlite_temp_schema WHERE type = 'trigger'")).result()
    assert len(made) == len(settled.WATCH) == 3 * len({text.split("main.")[1].split()[0] for text in settled.WATCH})


def test_whatever_another_process_commits_is_heard_of(filled: Database, other: sqlite3.Connection) -> None:
    for _ in range(3):
        before = filled.settled()
        other.execute(SEEN)  # what it was cannot be told
        after = filled.settled()
        assert after != before
        change(filled, SEEN)
        assert filled.settled() == after
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for _ in range(3):
        before = filled.settled()
        other.execute(SEEN)
        assert filled.settled() != before


def test_a_transaction_hears_of_what_was_committed_before_it(filled: Database, other: sqlite3.Connection) -> None:
    before = filled.settled()
    other.execute("UPDATE organization SET tier = 'pro'")
    assert filled.write(lambda tx: filled.settled()).result() != before


def test_a_transaction_hears_of_what_it_has_changed_itself(filled: Database) -> None:
    def both(tx: Tx) -> tuple[int, int]:
        before = filled.settled()
        sql.execute(CHANGES[0])
        return before, filled.settled()

    before, within = filled.write(both).result()
    assert before != within
    assert filled.settled() not in (before, within)  # what was read meanwhile, of what was committed, is of before


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_undone_is_not_kept(alone: bool, filled: Database) -> None:
    kept: Unchanged[str] = Unchanged(filled.settled, 10)

    def tier() -> str:
        return kept.get_now("tier", lambda: str(sql.value(TIER)))

    def undone(tx: Tx) -> None:
        sql.execute(CHANGES[0])
        assert tier() == "pro"
        raise Undo

    def held(tx: Tx) -> None:
        others.extend((filled.write(undone), filled.write(lambda tx: tier())))

    others: list[object] = []
    if alone:
        with pytest.raises(Undo):
            filled.write(undone).result()
    else:
        filled.write(held).result()
        failed, after = others
        with pytest.raises(Undo):
            failed.result()  # type: ignore[attr-defined]
        assert after.result() == "free"  # type: ignore[attr-defined]
    assert filled.write(lambda tx: tier()).result() == "free"


def test_a_commit_of_which_nobody_can_tell_whether_it_wrote_is_anybodys(
    filled: Database, other: sqlite3.Connection
) -> None:
    def undone(tx: Tx) -> None:
        sql.execute(SEEN)
        raise Undo

    asked: list[object] = []
    filled.write(lambda tx: asked.extend(filled.write(undone) for _ in range(2))).result()
    for each in asked:
        with pytest.raises(Undo):
            each.result()  # type: ignore[attr-defined]
    before = filled.settled()
    other.execute("UPDATE organization SET tier = 'pro'")
    assert filled.settled() != before


def test_the_fence_is_asked_again_once_somebody_else_has_committed(filled: Database, other: sqlite3.Connection) -> None:
    asked: list[int] = []
    guard: Callable[[], None] = lambda: asked.append(1)  # noqa: E731
    filled.guard = guard
    for _ in range(3):
        change(filled, SEEN)
    assert len(asked) == 1
    other.execute(SEEN)
    change(filled, SEEN)
    assert len(asked) == 2
    change(filled, CHANGES[-1])
    change(filled, SEEN)
    assert len(asked) == 3

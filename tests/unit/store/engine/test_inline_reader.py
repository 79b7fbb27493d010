"""Inline reads on the event loop: time limit, and fallback to a reader thread."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from socialpub.base.config import Settings
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.context.app_context import close_context, open_context
from socialpub.store.database import Database, ReadTooLongError, proxy
from socialpub.store.engine import sql
from socialpub.store.engine.inline_reader import STEPS_MAX, THREAD_ONLY_SECONDS, InlineReader
from tests.support.app_server import MovableClock

T = TypeVar("T")
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT count(*) FROM n"


def here(run: Callable[[], T]) -> tuple[T, int]:
    """What it gives, and the thread in which it ran."""
    return run(), threading.get_ident()


def test_small_read_runs_in_this_thread_and_leaves_no_connection(database: Database) -> None:
    assert database.try_inline(lambda: here(lambda: sql.fetch_value("SELECT 7"))) == (7, threading.get_ident())
    assert proxy.is_closed()


def test_an_inline_read_sees_each_commit_and_writes_nothing(database: Database) -> None:
    assert database.try_inline(lambda: sql.fetch_value("SELECT count(*) FROM organization")) == 0
    add = "INSERT INTO organization (id, name, tier, created_at) VALUES ('a', '', '', 0)"
    database.write(lambda tx: sql.update(add)).result()
    assert database.try_inline(lambda: sql.fetch_value("SELECT count(*) FROM organization")) == 1
    with pytest.raises(ReadTooLongError):
        database.try_inline(lambda: sql.update("DELETE FROM organization"))
    assert database.try_inline(lambda: sql.fetch_value("SELECT count(*) FROM organization")) == 1


def test_a_long_read_is_stopped_and_the_next_one_is_not(database: Database) -> None:
    with pytest.raises(ReadTooLongError):
        database.try_inline(lambda: sql.fetch_value(COUNT, (3 * STEPS_MAX,)))
    for _ in range(5):
        assert database.try_inline(lambda: sql.fetch_value(COUNT, (10,))) == 10


def test_what_a_read_says_itself_is_passed_on(database: Database) -> None:
    def refuse() -> None:
        raise ApiError("not_found")

    with pytest.raises(ApiError):
        database.try_inline(refuse)
    assert proxy.is_closed()


def test_only_one_thread_reads_inline(database: Database) -> None:
    assert database.try_inline(lambda: sql.fetch_value("SELECT 1")) == 1
    with ThreadPoolExecutor(1) as other, pytest.raises(ReadTooLongError):
        other.submit(database.try_inline, lambda: sql.fetch_value("SELECT 1")).result(30)


def test_nothing_is_left_of_a_closed_database(database: Database, path: Path) -> None:
    database.try_inline(lambda: sql.fetch_value("SELECT 1"))
    database.close()
    with pytest.raises(ReadTooLongError):
        database.try_inline(lambda: sql.fetch_value("SELECT 1"))
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = delete").fetchone() == ("delete",)  # nobody else has it open


def test_organization_with_a_slow_inline_read_uses_threads_for_a_while(database: Database, path: Path) -> None:
    clock = MovableClock()
    inline = InlineReader(path, database.files, clock.monotonic, slow=-1.0)  # so every read is long
    assert inline.read("a", lambda: sql.fetch_value("SELECT 1")) == 1
    with pytest.raises(ReadTooLongError):
        inline.read("a", lambda: sql.fetch_value("SELECT 1"))
    assert inline.read("b", lambda: sql.fetch_value("SELECT 2")) == 2
    clock.skip(THREAD_ONLY_SECONDS + 0.1)
    assert inline.read("a", lambda: sql.fetch_value("SELECT 3")) == 3
    inline.close()


@pytest.mark.parametrize("to_identify", [False, True])
def test_what_is_long_runs_again_in_a_reader_thread(path: Path, to_identify: bool) -> None:
    ran: list[int] = []

    def run() -> Any:
        ran.append(threading.get_ident())
        return sql.fetch_value(COUNT, (3 * STEPS_MAX,))

    settings = Settings.model_validate({"database": {"url": str(path)}})
    service = open_context(Runtime(settings, load_vault(settings)))
    try:
        assert asyncio.run(service.read_inline(run, to_identify=to_identify)) == 3 * STEPS_MAX
    finally:
        close_context(service)
    assert ran[0] == threading.get_ident()
    assert len(set(ran)) == 2

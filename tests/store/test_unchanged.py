"""What is kept until the next commit, whoever makes it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from socialpub.store import sql
from socialpub.store.db import Database, LongError
from socialpub.store.unchanged import Answers, Unchanged

ADD = "INSERT INTO organization (id, name, tier, created_at) VALUES (hex(randomblob(8)), '', '', 0)"
COUNT = "SELECT count(*) FROM organization"


class Counted:
    """How many organizations there are, and how often that was read."""

    def __init__(self, database: Database, most: int = 10, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.database, self.meanwhile, self.reads = database, meanwhile, 0
        self.kept: Answers[int] = Answers(database.place, most, lambda value: 1)

    async def read(self) -> int | None:
        self.reads += 1
        found: int = self.database.glance(lambda: sql.value(COUNT))
        self.meanwhile()
        return found or None

    def get(self, name: str = "a") -> int | None:
        return asyncio.run(self.kept.get(name, self.read))


def write(database: Database) -> None:
    database.write(lambda tx: sql.change(ADD)).result()


def test_it_is_read_once_until_this_process_commits(database: Database) -> None:
    write(database)
    counted = Counted(database)
    assert [counted.get(), counted.get(), counted.reads] == [1, 1, 1]
    write(database)
    assert [counted.get(), counted.get(), counted.reads] == [2, 2, 2]


def test_it_is_read_again_once_another_connection_has_committed(database: Database, path: Path) -> None:
    write(database)
    counted = Counted(database)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        for number in range(2, 20):
            assert counted.get() == number - 1
            other.execute(ADD)
            assert counted.get() == number
        other.execute("PRAGMA wal_checkpoint(RESTART)")
        assert counted.get() == 19
        other.execute(ADD)  # the log begins anew
        assert counted.get() == 20


def test_what_changes_while_it_is_read_is_read_again(database: Database) -> None:
    write(database)
    counted = Counted(database, meanwhile=lambda: write(database))
    assert [counted.get(), counted.get()] == [1, 2]


def test_nothing_is_not_kept_and_what_is_kept_is_bounded(database: Database) -> None:
    counted = Counted(database, most=2)
    assert [counted.get(), counted.get(), counted.reads] == [None, None, 2]
    write(database)
    assert [counted.get(name) for name in "abbcbc"] == [1] * 6
    assert counted.reads == 2 + 3


def test_what_is_kept_is_bounded_by_its_size(database: Database) -> None:
    write(database)
    reads: list[str] = []
    kept: Unchanged[bytes] = Unchanged(database.place.commits, 100, len)

    def get(name: str, size: int) -> int:
        async def read() -> bytes:
            reads.append(name)
            return b"x" * size

        return len(asyncio.run(kept.get(name, read)) or b"")

    assert [get("large", 11), get("large", 11)] == [11, 11]
    assert reads == ["large", "large"]
    names = [str(number) for number in range(11)]
    assert [get(name, 10) for name in (*names, *names[1:], "0")] == [10] * 22
    assert reads[2:] == [*names, "0"]  # which was the oldest when there was no more room


def test_nothing_is_told_from_memory_once_the_files_are_gone(database: Database, path: Path) -> None:
    write(database)
    counted = Counted(database)
    ask = lambda: asyncio.run(counted.kept.get_in_place("a", counted.read))  # noqa: E731
    assert [ask(), ask(), counted.reads] == [1, 1, 1]
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(LongError):
        ask()
    path.with_name("elsewhere").rename(path)
    assert [ask(), counted.reads] == [1, 2]


def test_a_closed_database_keeps_nothing(database: Database) -> None:
    write(database)
    counted = Counted(database)
    counted.get()
    database.close()
    assert database.place.commits() == b""

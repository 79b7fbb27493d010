"""Batching of concurrent writes of one kind, with individual fallback on failure."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from socialpub.base.errors import ApiError
from socialpub.store.database import Database, Tx
from socialpub.store.engine import sql
from socialpub.store.queries.bulk import ROWS_MAX, BulkInsert, BulkUpdate
from tests.support.app_server import blocked_writer
from tests.support.new_database import create_database

ONES = BulkInsert("INSERT INTO one (name, other, kind)", own=2, shared=1)
TURNED = BulkInsert(
    "INSERT INTO one (name, other, kind)", own=2, shared=1, values="{0} || '!', coalesce({last}, 0), {shared}"
)

CHANGED = BulkUpdate(
    "UPDATE one SET other = own.column2, kind = ?1 FROM {rows} AS own WHERE one.name = own.column1", own=2, shared=1
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    create_database(tmp_path / "socialpub.db")
    database = Database(tmp_path / "socialpub.db").open()
    database.write(lambda tx: sql.execute("CREATE TABLE one (name TEXT UNIQUE, other, kind)")).result()
    yield database
    database.close()


def rows(database: Database) -> list[tuple[object, ...]]:
    return database.read(lambda: sql.fetch_all("SELECT name, other, kind FROM one ORDER BY rowid")).result()


class Kind:
    """Writes names; remembers with how many it was called, and what was committed."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.committed: list[list[str]] = []

    def __call__(self, tx: Tx, names: Sequence[str]) -> list[str]:
        self.calls.append(list(names))
        tx.after_commit(lambda: self.committed.append(list(names)))
        sql.insert(ONES, [(name, None) for name in names], ("kind",))
        return [name.upper() for name in names]


def together(database: Database, kind: Kind, names: Sequence[str]) -> list[str | BaseException]:
    """All are asked for while another write is under way."""
    with blocked_writer(database):
        promises = [database.write_together(kind, name) for name in names]
    answers: list[str | BaseException] = []
    for promise in promises:
        try:
            answers.append(promise.result())
        except sqlite3.IntegrityError as error:
            answers.append(error)
    return answers


def test_many_are_one_call_and_each_has_its_answer(database: Database) -> None:
    kind = Kind()
    assert together(database, kind, ["a", "b", "c"]) == ["A", "B", "C"]
    assert kind.calls == kind.committed == [["a", "b", "c"]]
    assert [name for name, *_ in rows(database)] == ["a", "b", "c"]


def test_where_one_fails_each_is_done_by_itself(database: Database) -> None:
    kind = Kind()
    answers = together(database, kind, ["a", "b", "a", "c"])
    assert [answer if isinstance(answer, str) else type(answer).__name__ for answer in answers] == [
        "A",
        "B",
        "IntegrityError",
        "C",
    ]
    assert kind.calls == [["a", "b", "a", "c"], ["a"], ["b"], ["a"], ["c"]]
    assert kind.committed == [["a"], ["b"], ["c"]]  # nothing of what was undone
    assert [name for name, *_ in rows(database)] == ["a", "b", "c"]


def test_other_writes_keep_their_place_between_them(database: Database) -> None:
    kind, order = Kind(), list[str]()
    with blocked_writer(database):
        asked = [database.write_together(kind, "a"), database.write_together(kind, "b")]
        between = database.write(lambda tx: order.extend(name for (name,) in sql.fetch_all("SELECT name FROM one")))
        asked.append(database.write_together(kind, "c"))
    between.result()
    assert [promise.result() for promise in asked] == ["A", "B", "C"]
    assert order == ["a", "b"]
    assert kind.calls == [["a", "b"], ["c"]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, ROWS_MAX - 1, ROWS_MAX, ROWS_MAX + 1, 3 * ROWS_MAX + 5])
def test_rows_are_written_in_their_order_however_many_they_are(count: int, database: Database) -> None:
    wanted = [(f"n{number:04}", number or None) for number in range(count)]
    last = database.write(lambda tx: sql.insert(ONES, wanted, ("k",))).result()
    assert rows(database) == [(*row, "k") for row in wanted]
    assert last == count


@pytest.mark.parametrize("count", [1, 5])
def test_what_a_row_writes_may_be_made_of_its_values(count: int, database: Database) -> None:
    wanted = [(f"n{number}", number or None) for number in range(count)]
    database.write(lambda tx: sql.insert(TURNED, wanted, ("k",))).result()
    assert rows(database) == [(f"n{number}!", number, "k") for number in range(count)]


def test_a_statement_has_few_texts(database: Database) -> None:
    texts = {text for count in range(1, 500) for text, _ in ONES.calls([("x", 1)] * count, ("k",))}
    assert len(texts) == ROWS_MAX.bit_length()


def test_an_awaited_write_that_nobody_waits_for_any_more_is_done(database: Database) -> None:
    kind = Kind()

    async def main() -> list[str]:
        with blocked_writer(database):
            lost = asyncio.ensure_future(_awaited(database, kind, "lost"))
            tasks = [asyncio.ensure_future(_awaited(database, kind, f"n{number}")) for number in range(20)]
            await asyncio.sleep(0)
            lost.cancel()
            await asyncio.sleep(0)
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [f"N{number}" for number in range(20)]
    assert ("lost", None, "kind") in rows(database)


async def _awaited(database: Database, kind: Kind, name: str) -> str:
    answer: str = await database.write_together(kind, name)
    return answer


def test_whoever_asks_from_many_threads_is_answered(database: Database) -> None:
    kind = Kind()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: database.write_together(kind, f"n{number}").result(), range(200)))
    assert found == [f"N{number}" for number in range(200)]
    assert len(rows(database)) == 200


def test_what_is_asked_when_the_database_is_being_closed_is_refused(database: Database) -> None:
    database.close()
    with pytest.raises(ApiError) as refused:
        database.write_together(Kind(), "late").result()
    assert refused.value.rule == "storage.unavailable"


@pytest.mark.parametrize("many", [1, 2, 3, ROWS_MAX, ROWS_MAX + 1, 2 * ROWS_MAX + 5])
def test_many_rows_are_changed_each_by_its_own_values(many: int, database: Database) -> None:
    names = [f"name {number}" for number in range(many)]

    def write(tx: Tx) -> int:
        sql.insert(ONES, [(name, None) for name in (*names, "another")], ("kind",))
        values = [(name, place) for place, name in enumerate(names)]
        return sql.update_all(CHANGED, [*values, ("nobody", 0)], ("changed",))

    assert database.write(write).result() == many
    changed = [(name, place, "changed") for place, name in enumerate(names)]
    assert rows(database) == [*changed, ("another", None, "kind")]
    assert len({CHANGED.text(1 << size) for size in range(7)}) == 7


def test_a_name_of_any_characters_is_found(database: Database) -> None:
    odd = ["", "\x00", "a\x00b", "'", "\u2028", "\U0001f389", '"\\']

    def write(tx: Tx) -> int:
        sql.insert(ONES, [(name, None) for name in odd], ("kind",))
        return sql.update_all(CHANGED, [(name, name) for name in odd], ("changed",))

    assert database.write(write).result() == len(odd)
    assert [(name, other) for name, other, _ in rows(database)] == [(name, name) for name in odd]


def test_alternating_kinds_are_batched_and_single_writes_keep_their_place(
    database: Database,
) -> None:
    one, two, seen = Kind(), Kind(), list[list[str]]()
    with blocked_writer(database):
        asked = [database.write_together(kind, name) for name, kind in zip("abcd", (one, two, one, two), strict=True)]
        between = database.write(
            lambda tx: seen.append([str(name) for (name,) in sql.fetch_all("SELECT name FROM one")])
        )
        asked += [database.write_together(kind, name) for name, kind in zip("efg", (two, one, two), strict=True)]
    between.result()
    assert [promise.result() for promise in asked] == list("ABCDEFG")
    assert (one.calls, two.calls) == ([["a", "c"], ["f"]], [["b", "d"], ["e", "g"]])
    assert [sorted(names) for names in seen] == [list("abcd")]

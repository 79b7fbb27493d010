"""Writes of a kind that come together are done in one go; where that fails, each by itself."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.store import db, sql
from socialpub.store.db import Database, Promise, Tx
from socialpub.store.place import LostError
from socialpub.store.statements.rows import MOST, Changes, Rows
from socialpub.store.writer import _Write
from tests.kit import busy_writer
from tests.soak.world import wait_for

ONES = Rows("INSERT INTO one (name, other, kind)", own=2, shared=1)
TURNED = Rows(
    "INSERT INTO one (name, other, kind)", own=2, shared=1, values="{0} || '!', coalesce({last}, 0), {shared}"
)

CHANGED = Changes(
    "UPDATE one SET other = own.column2, kind = ?1 FROM {rows} AS own WHERE one.name = own.column1", own=2, shared=1
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    db.migrate(tmp_path / "socialpub.db")
    database = Database(tmp_path / "socialpub.db").open()
    database.write(lambda tx: sql.execute("CREATE TABLE one (name TEXT UNIQUE, other, kind)")).result()
    yield database
    database.close()


def rows(database: Database) -> list[tuple[object, ...]]:
    return database.read(lambda: sql.every("SELECT name, other, kind FROM one ORDER BY rowid")).result()


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
    with busy_writer(database):
        promises = [database.write_together(kind, name) for name in names]
    answers: list[str | BaseException] = []
    for promise in promises:
        try:
            answers.append(promise.result())
        except sqlite3.IntegrityError as error:
            answers.append(error)
    return answers


class Naps:
    """How often the thread that writes has waited for more of a group, and what is done in the next such time."""

    def __init__(self) -> None:
        self.count, self.then = 0, list[Callable[[], object]]()

    def wait(self, seconds: float) -> None:
        self.count += 1
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def naps(database: Database, monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps()
    monkeypatch.setattr(database._writer, "_lingering", naps)
    return naps


def test_those_that_come_one_by_one_are_waited_for_once_several_did_and_while_more_are_owed(
    database: Database, naps: Naps
) -> None:
    kind, late = Kind(), list[Promise[str]]()
    database.is_more_owed = lambda: True
    assert together(database, kind, ["a", "b"]) == ["A", "B"]
    naps.then.append(lambda: late.append(database.write_together(kind, "d")))
    assert database.write_together(kind, "c").result() == "C"
    assert late[0].result() == "D"
    assert kind.calls == [["a", "b"], ["c", "d"]]
    assert naps.count == 1
    assert [database.write_together(kind, name).result() for name in ("e", "f")] == ["E", "F"]
    assert (kind.calls[2:], naps.count) == ([["e"], ["f"]], 2)  # two came again, so that the next is waited with


def test_nobody_is_waited_for_where_nothing_is_owed(database: Database, naps: Naps) -> None:
    kind = Kind()
    for number in range(3):
        assert len(together(database, kind, [f"a{number}", f"b{number}"])) == 2
        assert database.write_together(kind, f"c{number}").result() == f"C{number}"
    assert naps.count == 0


def test_whoever_comes_alone_waits_for_nobody(database: Database, naps: Naps) -> None:
    kind = Kind()
    database.is_more_owed = lambda: True
    for number in range(3):
        assert database.write_together(kind, f"a{number}").result() == f"A{number}"
    assert naps.count == 0


def test_what_a_loop_asks_for_is_not_waited_with(database: Database, naps: Naps) -> None:
    """It comes together by itself."""
    kind = Kind()
    database.is_more_owed = lambda: True

    async def ask() -> None:
        for number in range(3):
            asked = [database.write_together(kind, f"{name}{number}") for name in "abc"]
            assert [await each for each in asked] == [f"A{number}", f"B{number}", f"C{number}"]

    asyncio.run(ask())
    assert (len(kind.calls), naps.count) == (3, 0)


# --- When who asked is told ------------------------------------------------------------------------------------------


def told_in_order(database: Database, ask: Callable[[Callable[..., list[None]]], Promise[object]]) -> list[str]:
    """What happens when another write comes while the first one is written, and is asked for by `ask`."""
    gate, order, over, second = threading.Event(), list[str](), threading.Event(), list[Promise[object]]()

    def written(tx: Tx, given: object = None) -> list[None]:
        order.append("second written")
        sql.execute("INSERT INTO one (name) VALUES ('second')")
        return [None]

    def first(tx: Tx, given: Sequence[object]) -> list[None]:
        gate.wait(20)
        second.append(ask(written))
        sql.execute("INSERT INTO one (name) VALUES ('first')")
        return [None]

    promise = database.write_together(first, None)
    promise.when_over(lambda error: order.append("first told" if error is None else "first failed"))
    gate.set()
    promise.result(20)
    assert wait_for(lambda: "first told" in order or "first failed" in order, 20)  # who waits may be ahead of it
    second[0].when_over(lambda error: order.append("second told" if error is None else "second failed"))
    second[0].when_over(lambda error: over.set())
    assert over.wait(20)
    return order


def test_who_waits_is_told_while_the_next_ones_go_to_the_disk(database: Database) -> None:
    """What follows from being told would keep them from it."""
    order = told_in_order(database, lambda written: database.write_together(written, None))
    assert order == ["second written", "first told", "second told"]


def test_who_waits_is_told_before_a_write_that_may_take_its_time(database: Database) -> None:
    assert told_in_order(database, database.write) == ["first told", "second written", "second told"]


def test_who_waits_is_told_though_the_next_ones_cannot_be_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, LostError()])

    def look() -> None:
        if (trouble := next(looks, None)) is not None:
            raise trouble

    def ask(written: Callable[..., list[None]]) -> Promise[object]:
        return database.write_together(written, None)

    monkeypatch.setattr(database.place, "look", look)
    monkeypatch.setattr(database.place, "look_lately", lambda: None)  # which looks as well, now and then
    assert told_in_order(database, ask) == ["second written", "first told", "second failed"]
    assert [name for name, *_ in rows(database)] == ["first"]


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
    with busy_writer(database):
        asked = [database.write_together(kind, "a"), database.write_together(kind, "b")]
        between = database.write(lambda tx: order.extend(name for (name,) in sql.every("SELECT name FROM one")))
        asked.append(database.write_together(kind, "c"))
    between.result()
    assert [promise.result() for promise in asked] == ["A", "B", "C"]
    assert order == ["a", "b"]
    assert kind.calls == [["a", "b"], ["c"]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, MOST - 1, MOST, MOST + 1, 3 * MOST + 5])
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
    assert len(texts) == MOST.bit_length()


def test_an_awaited_write_that_nobody_waits_for_any_more_is_done(database: Database) -> None:
    """And the loop is told of many in one call."""
    kind = Kind()

    async def main() -> tuple[list[str], int]:
        loop, calls = asyncio.get_running_loop(), 0
        real = loop.call_soon_threadsafe

        def counted(*given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            return real(*given, **named)  # type: ignore[arg-type]

        with busy_writer(database):
            lost = asyncio.ensure_future(_awaited(database, kind, "lost"))
            tasks = [asyncio.ensure_future(_awaited(database, kind, f"n{number}")) for number in range(20)]
            await asyncio.sleep(0)
            lost.cancel()
            for _ in range(100):  # the loop goes round a few times before it hands them over
                await asyncio.sleep(0)
            assert database._writer._inbox.qsize() == len(tasks) + 1
            loop.call_soon_threadsafe = counted  # type: ignore[assignment, method-assign]
        database.write(lambda tx: None).result()  # all are written and told before the loop goes on
        return await asyncio.gather(*tasks), calls

    answers, calls = asyncio.run(main())
    assert answers == [f"N{number}" for number in range(20)]
    assert calls == 1
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


def test_what_is_asked_while_a_loop_goes_round_is_one_transaction(database: Database) -> None:
    kind = Kind()
    asyncio.run(_burst(database, kind))
    assert [len(names) for names in kind.calls] == [20]


async def _burst(database: Database, kind: Kind) -> list[str]:
    return await asyncio.gather(*(_asked(database, kind, str(number)) for number in range(20)))


def test_what_is_handed_over_at_once_is_one_transaction_however_early_its_first_is_seen(
    database: Database,
) -> None:
    class Seen(queue.SimpleQueue[Any]):
        """Whoever puts something in goes on when it has been taken out, or nobody comes for it."""

        def __init__(self) -> None:
            self.taken = threading.Semaphore(0)

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            super().put(item)
            self.taken.acquire(timeout=0.01)

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            item = super().get()
            self.taken.release()
            return item

    kind, writer = Kind(), database._writer
    before, writer._inbox = writer._inbox, Seen()
    before.put(_nothing())  # the thread waits at the one that it had
    asyncio.run(_burst(database, kind))
    assert [len(names) for names in kind.calls] == [20]


def _nothing() -> Any:
    return _Write(lambda tx: None, "")


async def _asked(database: Database, kind: Kind, name: str) -> str:
    return str(await database.write_together(kind, name))


def test_what_is_asked_when_the_database_is_being_closed_is_refused(database: Database) -> None:
    async def late() -> None:
        promise = database.write_together(Kind(), "late")
        database.close()
        await promise

    with pytest.raises(ApiError) as refused:
        asyncio.run(late())
    assert refused.value.rule == "storage.unavailable"


@pytest.mark.parametrize("many", [1, 2, 3, MOST, MOST + 1, 2 * MOST + 5])
def test_many_rows_are_changed_each_by_its_own_values(many: int, database: Database) -> None:
    names = [f"name {number}" for number in range(many)]

    def write(tx: Tx) -> int:
        sql.insert(ONES, [(name, None) for name in (*names, "another")], ("kind",))
        values = [(name, place) for place, name in enumerate(names)]
        return sql.change_all(CHANGED, [*values, ("nobody", 0)], ("changed",))

    assert database.write(write).result() == many
    changed = [(name, place, "changed") for place, name in enumerate(names)]
    assert rows(database) == [*changed, ("another", None, "kind")]
    assert len({CHANGED.text(1 << size) for size in range(7)}) == 7


def test_a_name_of_any_characters_is_found(database: Database) -> None:
    odd = ["", "\x00", "a\x00b", "'", "\u2028", "\U0001f389", '"\\']

    def write(tx: Tx) -> int:
        sql.insert(ONES, [(name, None) for name in odd], ("kind",))
        return sql.change_all(CHANGED, [(name, name) for name in odd], ("changed",))

    assert database.write(write).result() == len(odd)
    assert [(name, other) for name, other, _ in rows(database)] == [(name, name) for name in odd]


def test_kinds_that_come_in_turn_are_each_done_in_one_go_and_what_is_of_no_kind_keeps_its_place(
    database: Database,
) -> None:
    one, two, seen = Kind(), Kind(), list[list[str]]()
    with busy_writer(database):
        asked = [database.write_together(kind, name) for name, kind in zip("abcd", (one, two, one, two), strict=True)]
        between = database.write(lambda tx: seen.append([str(name) for (name,) in sql.every("SELECT name FROM one")]))
        asked += [database.write_together(kind, name) for name, kind in zip("efg", (two, one, two), strict=True)]
    between.result()
    assert [promise.result() for promise in asked] == list("ABCDEFG")
    assert (one.calls, two.calls) == ([["a", "c"], ["f"]], [["b", "d"], ["e", "g"]])
    assert [sorted(names) for names in seen] == [list("abcd")]

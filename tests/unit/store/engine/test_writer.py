"""Database writer: group commit, savepoint per write, durable answers, disk failures."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peewee
import pytest

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError
from socialpub.store import database as db
from socialpub.store.database import Database, FencedError, Tx
from socialpub.store.engine import locks
from socialpub.store.engine.integrity import check_integrity
from socialpub.store.engine.locks import ServeLock, StartError
from socialpub.store.engine.sqlite import STORAGE_RETRY_SECONDS
from socialpub.store.engine.writer import GROUP_OWNER_MAX
from socialpub.store.schema import migration
from socialpub.store.schema.models import Instance, Organization
from tests.support.app_server import blocked_writer


def insert(name: str) -> Callable[[Tx], str]:
    def run(tx: Tx) -> str:
        Organization.insert(id=name, name=name, created_at=1).execute()
        return name

    return run


def names(database: Database) -> set[str]:
    return database.read(lambda: {row[0] for row in Organization.select(Organization.id).tuples()}).result()


def on_disk(path: Path) -> set[str]:
    """What another process would see."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM organization")}


def count_commits(database: Database, run: Callable[[], Any]) -> int:
    """How many transactions the writer ended while `run` was at work."""
    commits: list[str] = []

    def trace(sql: str) -> None:
        if sql.startswith("COMMIT"):
            commits.append(sql)

    database.write(lambda tx: db.proxy.connection().set_trace_callback(trace)).result()
    commits.clear()
    run()
    database.write(lambda tx: db.proxy.connection().set_trace_callback(None)).result()
    return len(commits)


# --- Group commit --------------------------------------------------------------------------------------------------


def asked_by(owner: str, ask: Callable[[], db.DbFuture[str]]) -> db.DbFuture[str]:
    def run() -> db.DbFuture[str]:
        db.current_requester.set(ShareKey(owner=owner))
        return ask()

    return contextvars.copy_context().run(run)


def test_whatever_waits_is_one_transaction(database: Database) -> None:
    def run() -> None:
        with blocked_writer(database):
            answers = [database.write(insert(f"org {number}")) for number in range(GROUP_OWNER_MAX)]
        assert [answer.result() for answer in answers] == [f"org {number}" for number in range(GROUP_OWNER_MAX)]

    assert count_commits(database, run) == 2  # the one that kept the writer busy, and all the others
    assert len(names(database)) == GROUP_OWNER_MAX


@pytest.mark.parametrize("waiting, groups", [(1, 1), (31, 1), (32, 1), (33, 2), (100, 4)])
def test_a_group_has_at_most_32_writes_of_an_owner(database: Database, waiting: int, groups: int) -> None:
    def run() -> None:
        with blocked_writer(database):
            answers = [database.write(insert(f"org {number}")) for number in range(waiting)]
        for answer in answers:
            answer.result()

    assert count_commits(database, run) == 1 + groups


@pytest.mark.parametrize("waiting, groups", [(255, 1), (256, 1), (257, 2), (600, 3)])
def test_a_group_has_at_most_256_writes(database: Database, waiting: int, groups: int) -> None:
    def ask(number: int) -> db.DbFuture[str]:
        return asked_by(f"owner {number}", lambda: database.write(insert(f"org {number}")))

    def run() -> None:
        with blocked_writer(database):
            answers = [ask(number) for number in range(waiting)]
        for answer in answers:
            answer.result()

    assert count_commits(database, run) == 1 + groups


def test_who_asks_for_many_writes_keeps_nobody_else_waiting(database: Database) -> None:
    """The one is in the next group, right behind the first of the many; the writes of each keep their order."""
    order: list[str] = []

    def ask(name: str) -> db.DbFuture[str]:
        return asked_by(name.split()[0], lambda: database.write(lambda tx: order.append(name) or name))

    with blocked_writer(database):
        answers = [ask(f"many {number}") for number in range(100)] + [ask("one 0"), ask("one 1")]
    for answer in answers:
        answer.result()
    assert order[:4] == ["many 0", "one 0", "many 1", "one 1"]
    assert [name for name in order if name.startswith("many")] == [f"many {number}" for number in range(100)]


def test_an_answer_comes_after_its_row_is_on_the_disk(database: Database, path: Path) -> None:
    for number in range(20):
        assert database.write(insert(f"org {number}")).result() in on_disk(path)


def test_an_exception_undoes_its_own_write_and_no_other(database: Database) -> None:
    def insert_and_fail(tx: Tx) -> None:
        insert("gone")(tx)
        raise KeyError("no")

    with blocked_writer(database):
        before, failing, after = (
            database.write(insert("before")),
            database.write(insert_and_fail),
            database.write(insert("after")),
        )
    assert before.result() == "before"
    with pytest.raises(KeyError):
        failing.result()
    assert after.result() == "after"
    assert names(database) == {"before", "after"}


def test_a_broken_constraint_is_told_as_it_is(database: Database) -> None:
    database.write(insert("one")).result()
    with pytest.raises(peewee.IntegrityError):
        database.write(insert("one")).result()


def test_an_api_error_of_a_write_reaches_its_caller(database: Database) -> None:
    def refuse(tx: Tx) -> None:
        raise ApiError("not_found", "There is no such thing.")

    with pytest.raises(ApiError, match="There is no such thing."):
        database.write(refuse).result()


def test_callbacks_run_after_the_commit_and_only_then(database: Database, path: Path) -> None:
    seen: list[set[str]] = []

    def write(tx: Tx) -> None:
        insert("one")(tx)
        tx.after_commit(lambda: seen.append(on_disk(path)))
        assert seen == []

    def fail(tx: Tx) -> None:
        tx.after_commit(lambda: seen.append({"never"}))
        raise KeyError

    database.write(write).result()
    with pytest.raises(KeyError):
        database.write(fail).result()
    assert seen == [{"one"}]


def test_callbacks_do_not_run_when_the_commit_fails(database: Database) -> None:
    seen: list[str] = []
    fault_injection.plan("db.commit=enospc")
    with pytest.raises(ApiError):
        database.write(lambda tx: tx.after_commit(lambda: seen.append("ran"))).result()
    assert seen == []


def test_a_callback_that_fails_costs_neither_its_answer_nor_the_writer(database: Database) -> None:
    def write(tx: Tx) -> str:
        tx.after_commit(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
        return insert("one")(tx)

    assert database.write(write).result() == "one"
    assert database.write(insert("two")).result() == "two"


def test_an_answer_can_be_awaited_and_survives_its_waiter(database: Database) -> None:
    async def run() -> str:
        with blocked_writer(database):
            waiter = asyncio.ensure_future(_await(database.write(insert("one"))))
            await asyncio.sleep(0)
            waiter.cancel()
        return await database.write(insert("two"))

    assert asyncio.run(run()) == "two"
    assert names(database) == {"one", "two"}


async def _await(answer: Any) -> Any:
    return await answer


# --- Reading -------------------------------------------------------------------------------------------------------


def test_readers_cannot_write(database: Database) -> None:
    with pytest.raises(ApiError) as refused:
        database.read(lambda: insert("one")(Tx())).result()
    assert refused.value.rule == "storage.unavailable"
    assert names(database) == set()


def test_a_read_sees_one_moment(database: Database) -> None:
    def read() -> tuple[int, int]:
        first = Organization.select().count()
        database.write(insert("one")).result()
        return first, Organization.select().count()

    assert database.read(read).result() == (0, 0)
    assert names(database) == {"one"}


def test_an_error_of_a_read_reaches_its_caller(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        database.read(lambda: 1 // 0).result()
    assert names(database) == set()


# --- When the disk or another process is in the way ------------------------------------------------------------------


def test_full_disk_fails_every_waiter_and_recovers(database: Database) -> None:
    fault_injection.plan("db.commit=enospc")
    with busy_writer_failing(database):
        answers = [database.write(insert(f"org {number}")) for number in range(3)]
    for answer in answers:
        with pytest.raises(ApiError) as refused:
            answer.result()
        assert (refused.value.status, refused.value.rule) == (503, "storage.unavailable")
        assert refused.value.retry_after == STORAGE_RETRY_SECONDS
    assert names(database) == set()
    fault_injection.plan("")
    assert database.write(insert("one")).result() == "one"


def test_a_refusal_is_not_answered_before_the_write_that_it_rests_on(database: Database) -> None:
    """The row that makes a name taken was in the transaction that failed: it is not taken."""
    fault_injection.plan("db.commit=enospc")
    with busy_writer_failing(database):
        answers = [database.write(insert("one")), database.write(insert("one"))]
    for answer in answers:
        with pytest.raises(ApiError) as refused:
            answer.result()
        assert refused.value.rule == "storage.unavailable"
    assert names(database) == set()


@contextlib.contextmanager
def busy_writer_failing(database: Database) -> Iterator[None]:
    with contextlib.suppress(ApiError), blocked_writer(database):
        yield


def test_a_file_that_may_not_grow_is_a_full_disk(database: Database) -> None:
    """SQLite's own `database or disk is full`, by a page limit: the whole group is undone and told."""
    pages = database.write(lambda tx: db.proxy.execute_sql("PRAGMA page_count").fetchone()[0]).result()
    database.write(lambda tx: db.proxy.execute_sql(f"PRAGMA max_page_count = {pages}").fetchone()).result()

    def grow(tx: Tx) -> None:
        Organization.insert(id="big", name="x" * 1_000_000, created_at=1).execute()

    with pytest.raises(ApiError) as refused:
        database.write(grow).result()
    assert refused.value.rule == "storage.unavailable"
    database.write(lambda tx: db.proxy.execute_sql("PRAGMA max_page_count = 1000000").fetchone()).result()
    database.write(grow).result()
    assert names(database) == {"big"}


def test_any_failure_of_a_transaction_leaves_the_writer_alive(database: Database) -> None:
    fault_injection.plan("db.commit=raise@1")
    with pytest.raises(ApiError):
        database.write(insert("one")).result()
    assert database.write(insert("two")).result() == "two"
    assert names(database) == {"two"}


def test_a_writer_beside_us_is_waited_for(database: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _held_by_another(path):
        answer = database.write(insert("one"))
        with pytest.raises(TimeoutError):
            answer.result(0.3)
    assert answer.result(60) == "one"


def test_a_writer_beside_us_that_does_not_end_is_told_as_503(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.2)
    with _held_by_another(path):
        with pytest.raises(ApiError) as refused:
            database.write(insert("one")).result(60)
        assert refused.value.rule == "storage.unavailable"
        assert names(database) == set()  # reads go on
    assert database.write(insert("two")).result() == "two"
    assert names(database) == {"two"}


@contextlib.contextmanager
def _held_by_another(path: Path) -> Iterator[None]:
    """The write lock as a command beside the server would hold it."""
    with locks.open_lock(locks.get_write_lock_path(path)) as file, locks.hold(file):
        yield


def test_a_damaged_page_is_told_as_503_and_not_as_a_bug(database: Database, path: Path) -> None:
    def fill(tx: Tx) -> None:
        for number in range(300):
            insert(f"org {number:04} " + "x" * 200)(tx)

    database.write(fill).result()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(ApiError) as refused:
        database.read(lambda: list(Organization.select().order_by(Organization.name).tuples())).result()
    assert refused.value.rule == "storage.unavailable"


# --- Fencing and closing -------------------------------------------------------------------------------------------


def test_a_fenced_writer_writes_nothing_any_more(database: Database) -> None:
    def guard() -> None:
        raise FencedError("taken over")

    database.guard_writes(guard)
    with pytest.raises(ApiError):
        database.write(insert("one")).result()
    assert database.fenced.is_set()
    assert names(database) == set()


def test_the_guard_runs_in_each_transaction_and_sees_other_processes(database: Database, path: Path) -> None:
    def epoch() -> int:
        return int(Instance.select(Instance.epoch).where(Instance.id == 1).scalar())

    database.write(lambda tx: Instance.insert(id=1, epoch=7).execute()).result()

    def guard() -> None:
        if epoch() != 7:
            raise FencedError("taken over")

    database.guard_writes(guard)
    database.write(insert("one")).result()
    with contextlib.closing(sqlite3.connect(path)) as another, another:
        another.execute("UPDATE instance SET epoch = 8")
    with pytest.raises(ApiError):
        database.write(insert("two")).result()
    assert on_disk(path) == {"one"}


def test_closing_ends_what_was_asked_for_and_refuses_what_comes_later(path: Path) -> None:
    database = Database(path).open()
    answers = [database.write(insert(f"org {number}")) for number in range(50)]
    database.close()
    assert [answer.result(60) for answer in answers] == [f"org {number}" for number in range(50)]
    for late in (database.write(insert("late")), database.read(lambda: 1)):
        with pytest.raises(ApiError) as refused:
            late.result(60)
        assert refused.value.rule == "storage.unavailable"
    database.close()
    assert len(on_disk(path)) == 50


def test_no_write_is_left_without_an_answer_while_closing(path: Path) -> None:
    database = Database(path).open()
    answers: list[Any] = []
    go = threading.Barrier(5)

    def write(number: int) -> None:
        go.wait()
        answers.extend(database.write(insert(f"org {number} {step}")) for step in range(200))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    go.wait()
    database.close()
    for thread in threads:
        thread.join()
    told = [_outcome(answer) for answer in answers]
    assert len(told) == 800
    assert told.count("written") == len(on_disk(path))


def _outcome(answer: Any) -> str:
    try:
        answer.result(60)
    except ApiError as error:
        return str(error.rule)
    return "written"


def test_connections_are_set_up_for_durability(database: Database) -> None:
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000, "trusted_schema": 0}

    def settings() -> dict[str, Any]:
        return {name: db.proxy.execute_sql(f"PRAGMA {name}").fetchone()[0] for name in (*wanted, "query_only")}

    assert database.write(lambda tx: settings()).result() == wanted | {"query_only": 0}
    assert database.read(settings).result() == wanted | {"query_only": 1}


def test_readers_never_checkpoint(database: Database) -> None:
    assert database.read(lambda: db.proxy.execute_sql("PRAGMA wal_autocheckpoint").fetchone()[0]).result() == 0
    assert database.write(lambda tx: db.proxy.execute_sql("PRAGMA wal_autocheckpoint").fetchone()[0]).result() == 4000


# --- One server for each file --------------------------------------------------------------------------------------


def test_one_server_has_the_file(path: Path) -> None:
    first, second = ServeLock(path), ServeLock(path)
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    second.release()


# --- Starting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 500, b"SQLite format 3\x00" + b"\xff" * 8000], ids=["text", "header only"]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "socialpub.db"
    path.write_bytes(content)
    with pytest.raises(StartError, match=r"socialpub\.db"):
        check_integrity(path)
    with pytest.raises(StartError, match=r"socialpub\.db"):
        migration.migrate(path)
    assert path.read_bytes() == content


def test_a_file_whose_rows_name_rows_that_are_not_there_is_damaged(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = 0")
        columns = "id, organization, name, slug, created_at, updated_at"
        connection.execute(f"INSERT INTO profile ({columns}) VALUES ('p', 'lost', 'P', 'p', 0, 0)")
    with pytest.raises(StartError, match="a row of profile refers to a missing row of organization"):
        check_integrity(path)


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StartError, match="cannot write beside the database"):
        migration.migrate(tmp_path / "file" / "socialpub.db")

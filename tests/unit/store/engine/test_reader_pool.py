"""Reader connection pool: time limits, bounded queue, no state left on connections."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS, ShareKey
from socialpub.base.errors import ApiError
from socialpub.store.database import READERS, REQUEST_QUEUE, Database, current_requester, proxy
from socialpub.store.engine.reader_pool import READ_SECONDS, STEPS_BETWEEN_CHECKS
from socialpub.store.engine.sqlite import DbFuture
from tests.support.app_server import MovableClock
from tests.support.soak.soak_world import wait_for

T = TypeVar("T")
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {}) SELECT count(*) FROM n"
ENDLESS, LONG = COUNT.format(""), COUNT.format(f"LIMIT {STEPS_BETWEEN_CHECKS}")


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def database(path: Path, clock: MovableClock) -> Iterator[Database]:
    database = Database(path, clock).open()
    yield database
    database.close()


def asks(database: Database, owner: str, run: Callable[[], T]) -> DbFuture[T]:
    """A read of a request."""

    def ask() -> DbFuture[T]:
        current_requester.set(ShareKey(owner=owner))
        return database.read(run)

    return contextvars.copy_context().run(ask)


def first(statement: str) -> Any:
    return proxy.execute_sql(statement).fetchone()[0]


def refusal(promise: DbFuture[Any]) -> str:
    with pytest.raises(ApiError) as refused:
        promise.result(30)
    assert (refused.value.status, refused.value.retry_after) == (503, BUSY_RETRY_SECONDS)
    return refused.value.rule or ""


def test_a_read_ends_with_its_time_and_leaves_nothing_to_the_next(database: Database, clock: MovableClock) -> None:
    database.write(lambda tx: proxy.execute_sql("CREATE TABLE seen (n)")).result()
    began, where = threading.Event(), []

    def endless() -> Any:
        where.append(id(proxy.connection()))
        began.set()
        return first(ENDLESS)

    def after() -> tuple[int, Any, Any]:
        return id(proxy.connection()), first(LONG), first("SELECT count(*) FROM seen")

    read = asks(database, "a", endless)
    assert began.wait(30)
    clock.skip(READ_SECONDS)
    assert refusal(read) == "http.deadline"
    database.write(lambda tx: proxy.execute_sql("INSERT INTO seen VALUES (1)")).result()
    found = []
    assert wait_for(lambda: found.append(asks(database, "a", after).result(30)) or found[-1][0] == where[0], 30)
    assert found[-1][1:] == (STEPS_BETWEEN_CHECKS, 1)


def test_many_short_statements_end_with_their_time_too(database: Database, clock: MovableClock) -> None:
    began = threading.Event()

    def restless() -> None:
        while True:
            first("SELECT 1")
            began.set()

    read = asks(database, "a", restless)
    assert began.wait(30)
    clock.skip(READ_SECONDS)
    assert refusal(read) == "http.deadline"


def test_a_read_that_waited_too_long_is_not_begun(database: Database, clock: MovableClock) -> None:
    over, begun = threading.Event(), []
    held = [asks(database, f"o{number}", lambda: over.wait(30)) for number in range(READERS)]
    late = asks(database, "late", lambda: begun.append(first("SELECT 1")))
    clock.skip(READ_SECONDS)
    over.set()
    assert refusal(late) == "http.deadline"
    assert begun == []
    assert all(each.result(30) for each in held)


def test_the_engines_reads_have_no_limit_and_wait_for_no_request(database: Database, clock: MovableClock) -> None:
    over = threading.Event()
    held = [asks(database, f"o{number}", lambda: over.wait(30)) for number in range(READERS)]

    def late() -> Any:
        clock.skip(2 * READ_SECONDS)
        return first(LONG)

    assert database.read(late).result(30) == STEPS_BETWEEN_CHECKS
    over.set()
    assert all(each.result(30) for each in held)


def test_a_look_up_waits_for_no_read(database: Database) -> None:
    over, running = threading.Event(), threading.Semaphore(0)

    def hold() -> bool:
        running.release()
        return over.wait(30)

    held = [asks(database, f"o{number}", hold) for number in range(READERS)]
    held += [database.read(hold) for _ in range(READERS)]
    for _ in held:
        assert running.acquire(timeout=30)
    assert database.look_up(lambda: first("SELECT 7")).result(30) == 7
    over.set()
    assert all(each.result(30) for each in held)


def test_what_waits_for_a_reader_is_bounded(database: Database) -> None:
    over, running = threading.Event(), threading.Semaphore(0)

    def hold() -> bool:
        running.release()
        return over.wait(30)

    held = [asks(database, f"o{number}", hold) for number in range(READERS)]
    for _ in held:
        assert running.acquire(timeout=30)
    waiting = [asks(database, "greedy", lambda: 1) for _ in range(REQUEST_QUEUE.owner)]
    assert refusal(asks(database, "greedy", lambda: 1)) == "http.busy"
    modest = asks(database, "modest", lambda: 2)
    over.set()
    assert modest.result(30) == 2
    assert [each.result(30) for each in waiting] == [1] * REQUEST_QUEUE.owner
    assert all(each.result(30) for each in held)

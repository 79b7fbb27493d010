"""Self-test of the database work counter (`counting`) on statements of known cost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.engine.reader_pool import current_requester
from socialpub.store.queries.authentication import FIND_OWNER
from socialpub.store.schema.models import Organization
from tests.support.app_server import AppServer, Person, blocked_writer
from tests.support.database_costs import DatabaseCounter

THREE = "SELECT value FROM json_each('[1, 2, 3]')"
FOUR = "SELECT value FROM json_each('[1, 2, 3, 4]')"


@pytest.fixture
def asking() -> Iterator[None]:
    """What the test does by itself is done for a request."""
    token = current_requester.set(ShareKey(owner="somebody"))
    yield
    current_requester.reset(token)


@pytest.mark.usefixtures("asking")
def test_a_read_is_its_statement_its_rows_and_what_begins_and_ends_it(
    counting: DatabaseCounter, server: AppServer
) -> None:
    with counting.while_() as done:
        server.service.read(lambda: sql.fetch_all(THREE)).result()
    asked = done.asked
    assert (asked.reads, asked.writes, asked.commits, asked.sql) == (1, 0, 0, [THREE, "BEGIN", "ROLLBACK"])
    assert (asked.within, asked.steps, asked.built) == ([THREE], 1 + 4 + 1, [])


@pytest.mark.usefixtures("asking")
def test_writes_that_share_a_transaction_are_told_from_those_that_do_not(
    counting: DatabaseCounter, server: AppServer
) -> None:
    def renamed(tx: Tx) -> None:
        Organization.update(name="New").where(Organization.id == "nobody").execute()

    with counting.while_() as done:
        server.service.write(renamed).result()
    assert (done.asked.writes, done.asked.commits, len(done.asked.built)) == (1, 1, 1), done
    assert [text.split()[0] for text in done.asked.sql if text.startswith(("BEGIN", "COMMIT"))] == ["BEGIN", "COMMIT"]
    assert done.asked.built[0] in done.asked.within


def test_what_no_request_asks_for_is_counted_apart(counting: DatabaseCounter, server: AppServer) -> None:
    with counting.while_() as done:
        server.service.read(lambda: sql.fetch_all(THREE)).result()
    assert THREE in done.unasked.sql
    assert done.asked.statements == 0


@pytest.mark.usefixtures("asking")
def test_what_was_handed_over_before_is_not_counted(counting: DatabaseCounter, server: AppServer) -> None:
    """However late it is done: the engine is always about to write something."""
    with contextlib.ExitStack() as busy:
        busy.enter_context(blocked_writer(server.service.db))
        before = server.service.write(lambda tx: sql.fetch_all(THREE))
        with counting.while_() as done:
            after = server.service.write(lambda tx: sql.fetch_all(FOUR))
            busy.close()
            before.result()
            after.result()
    assert (done.asked.writes, set(done.asked.within)) == (1, {FOUR, FIND_OWNER}), done


def test_each_is_counted_with_its_own_savepoint(counting: DatabaseCounter, server: AppServer) -> None:
    with counting.while_() as done:
        with blocked_writer(server.service.db):
            server.service.write(lambda tx: sql.fetch_all(THREE))
            token = current_requester.set(ShareKey(owner="somebody"))
            asked = server.service.write(lambda tx: sql.fetch_all(FOUR))
            current_requester.reset(token)
        asked.result()
    assert sum(text.startswith("SAVEPOINT") for text in done.asked.sql) == 1, done
    assert sum(text.startswith("RELEASE") for text in done.asked.sql) == 1, done


def test_a_request_is_counted_with_who_asks(counting: DatabaseCounter, server: AppServer, alice: Person) -> None:
    alice.api.get("/v1/accounts")
    server.service.write(lambda tx: sql.update("UPDATE instance SET seen_at = seen_at + 1")).result()
    with counting.while_() as done:  # told from memory, had nothing been committed
        assert alice.api.get("/v1/accounts").status_code == 200
    assert done.asked.statements >= 1, done

"""Database cost of publishing: statements, built SQL, thread handoffs and commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.store.schema.models import Post
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly
from tests.support.database_costs import DatabaseCounter, DatabaseWork
from tests.support.engine_statements import own

TARGETS, TRIES, LATER = 25, 12, 60
EACH = 9  # statements for each target, beside the one that keeps the answer
ACCEPTED = 3  # of them, those that are not asked after the transaction that accepts it, which need not read it
LOOKED = 1  # whether it was the last of its batch, where a request waits for that
CLAIMED = 1  # the change of the row, where the acceptance has not inserted it as claimed


@pytest.fixture
def accounts(server: AppServer, alice: Person) -> list[str]:
    return [str(server.connect_bluesky(alice, f"b{number}")["id"]) for number in range(TARGETS)]


def least(
    counting: DatabaseCounter, server: AppServer, alice: Person, accounts: list[str], *, later: bool = False
) -> DatabaseWork:
    """What publishing to these accounts takes beside the request: the least that was seen twice, for timers write
    too, also in the same transactions."""
    found, seen = list[DatabaseWork](), Counter[tuple[int, int]]()
    for number in range(TRIES):
        body: dict[str, Any] = {"text": f"number {number}", "targets": [{"accountId": each} for each in accounts]}
        if later:
            body |= {"scheduledAt": format_instant(server.clock.now_ms() + LATER * 1000)}
        with counting.while_() as done:
            alice.api.publish(body, key=f"number {number}").raise_for_status()
            if later:
                server.skip(LATER + 1)
            while server.service.jobs.held() or len(server.lab.lab.ledger.posts()) < len(accounts) * (number + 1):
                sleep_briefly()
        found.append(done.unasked)
        seen[_size(done.unasked)] += 1
        if seen[min(seen)] > 1:
            break
    assert {row["status"] for row in server.rows(Post)} == {"published"}
    return min(found, key=_size)


def _size(work: DatabaseWork) -> tuple[int, int]:
    return work.writes, len(own(work))


def made_anew(work: DatabaseWork) -> list[str]:
    return [text for text in work.built if '"idempotency"' not in text]


def test_immediate_post_takes_two_transactions(counting: DatabaseCounter, server: AppServer, alice: Person) -> None:
    work = least(counting, server, alice, [alice.bluesky])
    assert (work.writes, work.commits, len(own(work)), made_anew(work)) == (1, 1, EACH - ACCEPTED + LOOKED + 1, []), (
        work
    )


def test_an_immediate_post_is_inserted_as_claimed(
    counting: DatabaseCounter, server: AppServer, alice: Person, accounts: list[str]
) -> None:
    """Its row is changed once, when what became of it is known."""
    for targets in (1, 3):
        body = {"text": f"to {targets}", "targets": [{"accountId": each} for each in accounts[:targets]]}
        with counting.while_() as done:
            alice.api.publish(body).raise_for_status()
        assert not any(text.lstrip().startswith("UPDATE post ") for text in done.asked.within), done
    rows = server.rows(Post)
    assert {(row["status"], row["attempts"], row["tries"]) for row in rows} == {("published", 1, 1)}
    assert all(row["draft_at"] == row["created_at"] for row in rows)
    assert len({row["draft_nonce"] for row in rows}) == len(rows) == 4


def test_where_no_thread_is_there_for_it_at_once_it_is_claimed_later(
    counting: DatabaseCounter, make_server: Callable[..., AppServer]
) -> None:
    """Between the commit of the intent and the send nothing may wait."""
    server = make_server(publishing={"threads": 1})
    alice = server.connected_person("Alice")
    work = least(counting, server, alice, [alice.bluesky])
    assert (work.writes, work.commits, len(own(work)), made_anew(work)) == (2, 2, EACH + CLAIMED + LOOKED + 1, []), work


@pytest.mark.slow
def test_25_targets_take_no_more_each(
    counting: DatabaseCounter, server: AppServer, alice: Person, accounts: list[str]
) -> None:
    work = least(counting, server, alice, accounts)
    assert (work.writes, made_anew(work)) == (TARGETS, []), work
    assert len(own(work)) <= (EACH - ACCEPTED + LOOKED) * TARGETS + 1, work  # fewer where results come together


@pytest.mark.slow
def test_a_scheduled_post_takes_the_workers_claim_beside_them(
    counting: DatabaseCounter, server: AppServer, alice: Person
) -> None:
    work = least(counting, server, alice, [alice.bluesky], later=True)
    assert (work.writes, len(own(work)), made_anew(work)) == (3, EACH + CLAIMED, []), work

"""Database cost of accepting and moving posts, counted in statements and transactions."""

from __future__ import annotations

import pytest

from tests.support.database_costs import CountedWork, DatabaseCounter
from tests.support.request_cast import RequestCast, make_picture

STATEMENTS, STEPS = 19, 27
CLAIMED = 2  # more where it begins, and what it sends is written down, by the same transaction


def scheduled(counting: DatabaseCounter, world: RequestCast, key: str = "", **fields: object) -> CountedWork:
    body = world.body(scheduledAt=world.soon(), **fields)
    world.alice.api.publish(body | {"text": "so that all is warm"}, key and f"{key}-warm")
    with counting.while_() as done:
        assert world.alice.api.publish(body, key).status_code == 202
    return done


@pytest.mark.parametrize("key", ["", "a-key"])
def test_a_scheduled_post_is_two_looks_and_one_transaction(
    key: str, counting: DatabaseCounter, world: RequestCast
) -> None:
    asked = scheduled(counting, world, key).asked
    assert (asked.reads, asked.lookups, asked.inline) == (0, 0, 2), asked  # the key, and what is named
    assert (asked.writes, asked.commits) == (1, 1), asked
    assert asked.built == []
    assert asked.statements <= STATEMENTS, asked
    assert asked.steps <= STEPS, asked


def test_more_targets_take_no_more_statements(counting: DatabaseCounter, world: RequestCast) -> None:
    names = [world.server.connect(world.alice, "bluesky", f"bluesky-{number}")["id"] for number in range(24)]
    targets = [{"accountId": account} for account in (world.alice.bluesky, *names)]
    asked = scheduled(counting, world, targets=targets).asked
    assert (asked.writes, asked.commits, asked.built) == (1, 1, [])
    assert asked.statements <= STATEMENTS, asked
    assert asked.steps <= STEPS, asked


def test_a_post_that_is_published_now_is_accepted_by_one_transaction_too(
    counting: DatabaseCounter, world: RequestCast
) -> None:
    world.published(text="so that all is warm")
    with counting.while_() as done:
        world.published(text="now")
    asked = done.asked
    assert (asked.reads, asked.writes, asked.commits, asked.built) == (0, 1, 1, []), asked
    assert asked.statements <= STATEMENTS + CLAIMED, asked


def test_stored_media_are_two_statements_more(counting: DatabaseCounter, world: RequestCast) -> None:
    files = [{"file": (name, make_picture(), "image/png")} for name in ("a.png", "b.png")]
    media = [world.alice.api.post("/v1/media", files=file).json()["id"] for file in files]
    asked = scheduled(counting, world, media=media).asked
    assert (asked.writes, asked.commits, asked.built) == (1, 1, []), asked
    assert asked.statements <= STATEMENTS + 2, asked


def test_a_text_that_was_there_is_one_statement_more(counting: DatabaseCounter, world: RequestCast) -> None:
    scheduled(counting, world)
    asked = scheduled(counting, world).asked
    assert [text for text in asked.sql if "sought" in text] != []
    assert asked.statements <= STATEMENTS + 1, asked


def test_an_external_id_is_three_statements_and_its_repeat_no_write(
    counting: DatabaseCounter, world: RequestCast
) -> None:
    asked = scheduled(counting, world).asked
    body = world.body(scheduledAt=world.soon(), externalId="an-id", text="another")
    with counting.while_() as done:
        assert world.alice.api.publish(body).status_code == 202
    assert (done.asked.writes, done.asked.commits, done.asked.built) == (1, 1, []), done.asked
    assert len(done.asked.within) == len(asked.within) + 3, done.asked  # before, in the transaction, and its row
    with counting.while_() as again:
        assert "Idempotency-Replayed" in world.alice.api.publish(body).headers
    assert (again.asked.writes, again.asked.commits) == (0, 0), again.asked


def test_the_pieces_of_a_moved_thread_are_read_once(counting: DatabaseCounter, world: RequestCast) -> None:
    """They were read again for each piece: the writer was held up by the square of their number."""
    costs = []
    for count in (4, 12, 24):
        thread = [{"text": f"piece {number}"} for number in range(count)]
        batch = world.alice.api.publish(world.body(scheduledAt=world.soon(), thread=thread)).json()["id"]
        with counting.while_() as done:
            moved = world.alice.api.patch(f"/v1/batches/{batch}", json={"scheduledAt": world.soon(7200)})
        assert moved.status_code == 200
        costs.append(done.asked.steps)
    assert (costs[2] - costs[1]) / 12 < 1.2 * (costs[1] - costs[0]) / 8, costs

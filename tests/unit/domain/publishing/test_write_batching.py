"""Batched writes of concurrent posts: shared statements, independent results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.publishing import run, transactions
from socialpub.store.engine import sql
from socialpub.store.schema.models import Attempt, Intent, Post
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly
from tests.support.database_costs import DatabaseCounter
from tests.support.engine_statements import own
from tests.support.writer_gate import WriterGate

TARGETS, HOUR = 12, 3600
ENDS = (
    "UPDATE intent SET outcome = 'ok'",
    "UPDATE post SET status = 'published'",
    "SELECT id, profile, accounts, events, 0 AS is_channel",  # the endpoints and channels
    "INSERT INTO event",
    "UPDATE attempt SET finished_at",
    "UPDATE account SET attention = NULL",
    "DELETE FROM job WHERE key",
    "SELECT created_at, scheduled_at",  # the batch that has ended
)
"""The statements of a result, whose post is the last of its batch."""


def connected(server: AppServer, person: Person) -> list[str]:
    return [str(server.connect_bluesky(person, f"b{number}")["id"]) for number in range(TARGETS)]


@pytest.fixture
def accounts(server: AppServer, alice: Person) -> list[str]:
    return connected(server, alice)


def published(
    server: AppServer, alice: Person, accounts: list[str], before: Callable[[], None] = lambda: None, wait: int = 50
) -> dict[str, Any]:
    """The answer to a post to all accounts, whose results come together; `before` runs just before these."""
    body = {"text": "together", "targets": [{"accountId": each} for each in accounts]}
    with WriterGate(server, transactions.publish_sent, len(accounts), before):
        answer = alice.api.post("/v1/posts", json=body, headers={"Prefer": f"wait={wait}"})
    while server.service.jobs.held():
        sleep_briefly()
    return dict(answer.raise_for_status().json())


def test_many_results_take_the_statements_of_one(
    counting: DatabaseCounter, server: AppServer, alice: Person, accounts: list[str]
) -> None:
    alice.api.publish({"text": "so that all is warm", "targets": [{"accountId": alice.bluesky}]}).raise_for_status()
    with counting.while_() as done:
        answer = published(server, alice, accounts)
    assert {result["status"] for result in answer["results"]} == {"published"}
    assert len(own(done.unasked)) <= len(ENDS) - 1, done  # the endpoints are in `LOOKS`
    texts = [" ".join(text.split()) for text in done.unasked.within]
    for begins in ENDS:
        assert sum(text.startswith(begins) for text in texts) == 1, (begins, done)
    assert {row["status"] for row in server.rows(Post)} == {"published"}
    assert {(row["succeeded"], row["platform_response"]) for row in server.rows(Attempt)} == {(True, None)}
    assert {(row["outcome"], row["plan"]) for row in server.rows(Intent)} == {("ok", "")}
    links = {row["id"]: row["platform_uri"] for row in server.rows(Post)}
    assert len(set(links.values())) == len(links) == TARGETS + 1
    for result in answer["results"]:
        assert result["uri"] == links[result["postId"]]
        (told,) = [data for type_, data in server.events(result["postId"]) if type_ == "post.published"]
        assert told["uri"] == result["uri"]


def test_who_has_lost_a_post_takes_nobodys_result_with_it(
    server: AppServer, alice: Person, accounts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Another run has taken one over meanwhile: that result is not written, and the others are, each by itself."""
    taken = "SELECT key FROM job ORDER BY key LIMIT 1"
    take = functools.partial(sql.execute, f"UPDATE job SET claims = claims + 1 WHERE key = ({taken})")
    answer = published(server, alice, accounts, take, wait=2)
    statuses = sorted(result["status"] for result in answer["results"])
    assert statuses == ["published"] * (TARGETS - 1) + ["publishing"]
    assert answer["status"] == "queued"
    (lost,) = [result["postId"] for result in answer["results"] if result["status"] == "publishing"]
    assert f"post {lost} was taken over by another run" in caplog.text
    assert [row["post"] for row in server.rows(Intent) if row["outcome"] is None] == [lost]
    assert [row["post"] for row in server.rows(Attempt) if row["finished_at"] is None] == [lost]


def test_many_posts_that_are_due_are_taken_with_the_statements_of_one(
    counting: DatabaseCounter, make_server: Callable[..., AppServer]
) -> None:
    server = make_server(publishing={"workers": 4 * TARGETS})
    alice = server.person("Alice")
    accounts = connected(server, alice)
    at = format_instant(server.clock.now_ms() + HOUR * 1000)
    body = {"text": "later", "targets": [{"accountId": each} for each in accounts], "scheduledAt": at}
    alice.api.publish(body).raise_for_status()
    with counting.while_() as done, WriterGate(server, run.claim_together, TARGETS):
        server.skip(HOUR + 1)
        while server.service.jobs.held() or len(server.lab.lab.ledger.posts()) < TARGETS:
            sleep_briefly()
    texts = [" ".join(text.split()) for text in done.unasked.within]
    for begins in ("INSERT INTO attempt", "INSERT INTO intent", "UPDATE post SET status = 'publishing'"):
        assert sum(text.startswith(begins) for text in texts) == 1, done
    assert {(row["status"], row["attempts"], row["tries"]) for row in server.rows(Post)} == {("published", 1, 1)}
    assert len({row["draft_nonce"] for row in server.rows(Post)}) == TARGETS
    rows = {row["post"]: row for row in server.rows(Intent)}
    assert {id_: row["account"] for id_, row in rows.items()} == {r["id"]: r["account"] for r in server.rows(Post)}
    assert {(row["number"], row["outcome"]) for row in rows.values()} == {(1, "ok")}

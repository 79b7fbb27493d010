"""Threads on servers of their own: their ends, their costs, and what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.domain.background.post_retention import PostRetention
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Event, Organization, Post
from tests.support.app_server import MovableClock, error_of, unchanged
from tests.support.connect_flow import sign_in
from tests.support.thread_posts import (
    FIVE,
    ThreadServer,
    accept,
    fail,
    own,
    scheduled,
)

MakeThreads = Callable[..., ThreadServer]


@pytest.fixture
def make_threads(tmp_path: Path, lab: SimulatorThread) -> Iterator[MakeThreads]:
    """Start a server of the test's own, with these settings."""
    made: list[ThreadServer] = []

    def make(**settings: dict[str, Any]) -> ThreadServer:
        server = ThreadServer(tmp_path, lab, MovableClock(), settings).start()
        assert isinstance(server, ThreadServer)
        made.append(server)
        return server.furnish()

    yield make
    for server in made:
        server.stop()


def test_the_answer_to_a_thread_that_ends_in_time_has_every_piece(make_threads: MakeThreads) -> None:
    server = make_threads()
    answer = server.alice.api.publish(server.body("bluesky", "a", "b", "c"))
    assert answer.status_code == 200
    (result,) = answer.json()["results"]
    assert (answer.json()["status"], result["status"]) == ("published", "published")
    uris = [entry.remote_id for entry in server.lab.lab.ledger.posts("bluesky")]
    assert [result["uri"], *(piece["uri"] for piece in result["thread"])] == uris
    assert [set(piece) for piece in result["thread"]] == [{"postId", "status", "uri"}] * 2


def test_a_thread_that_stops_is_a_partial_failure(make_threads: MakeThreads) -> None:
    server = make_threads()
    fail(server, "bluesky", 2)
    answer = server.alice.api.publish(server.body("bluesky", "a", "b", "c"))
    assert (answer.status_code, answer.json()["status"]) == (200, "partial_failed")
    pieces = answer.json()["results"][0]["thread"]
    assert [(piece["status"], piece["error"].get("rule")) for piece in pieces] == [
        ("failed", None),
        ("failed", "thread.previous_missing"),
    ]


def test_an_overdue_thread_fails_as_a_whole(make_threads: MakeThreads) -> None:
    server = make_threads()
    rows = scheduled(server, "bluesky", "overdue", 60)
    server.away(2 * 3600, server.alice)
    assert server.ended(rows[0]["batch"]) == ["failed"] * 3
    rules = [json.loads(row["error"])["rule"] for row in server.thread(rows[0]["batch"])]
    assert rules == ["schedule.overdue", "thread.previous_missing", "thread.previous_missing"]
    assert server.lab.lab.ledger.posts() == []


def test_a_disconnected_account_cancels_the_thread(make_threads: MakeThreads) -> None:
    server = make_threads()
    rows = scheduled(server, "twitter", "gone")
    account = server.alice.accounts["twitter"]["id"]
    browser = sign_in(server, server.alice.organization)
    assert browser.delete(f"/v1/accounts/{account}").status_code == 200
    assert server.ended(rows[0]["batch"]) == ["canceled"] * 3
    for row in rows:
        assert [type_ for type_, _ in server.events(row["id"])].count("post.canceled") == 1


def test_each_piece_costs_one_of_the_quota(make_threads: MakeThreads) -> None:
    server = make_threads(billing={"free": 6})
    server.service.write(
        lambda tx: Organization.update(tier="free").where(Organization.id == server.alice.organization).execute()
    ).result()
    batch = accept(server, "bluesky", *own("bluesky", "quota"))["id"]
    assert server.ended(batch) == ["published"] * 5
    with unchanged(server):
        refused = server.alice.api.publish(server.body("bluesky", "six", "seven"))
    assert (refused.status_code, error_of(refused)["code"]) == (402, "quota_exceeded")


def test_a_thread_is_kept_or_removed_as_a_whole(make_threads: MakeThreads) -> None:
    server = make_threads()
    batches = [accept(server, "bluesky", *own("bluesky", f"kept {n}", FIVE[:3]))["id"] for n in range(3)]
    for batch in batches:
        server.ended(batch)
    old, recent = server.thread(batches[0]), server.thread(batches[1])

    def age(tx: Any) -> None:
        Event.delete().execute()
        ids = [row["id"] for row in (*old, recent[0])]  # of the second thread the first piece only
        Post.update(updated_at=1, created_at=1).where(Post.id.in_(ids)).execute()

    server.service.write(age).result()
    assert PostRetention(server.service).run(server.clock.now_ms() - 3_600_000, 10)[0] == 3
    assert [len(server.thread(batch)) for batch in batches] == [0, 3, 3]

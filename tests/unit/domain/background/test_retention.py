"""Deletion of old history (events, attempts, responses) in small batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from socialpub.domain.background import retention
from socialpub.domain.background.retention import HistoryRetention
from socialpub.store.schema.models import Attempt, Event, Intent
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.publishing_state import publish_post

DAY = 86_400.0
KEPT = {"retention": {"events": "10d", "intents": "10d", "attempts": "10d"}}


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(**KEPT)


def forget(server: AppServer, days: float) -> int:
    """What is forgotten so many days from now."""
    return HistoryRetention(server.service).run(then(server, days))


def then(server: AppServer, days: float) -> int:
    return server.clock.now_ms() + int(days * DAY * 1000)


def test_what_is_past_its_time_goes_and_what_is_not_stays(server: AppServer, alice: Person) -> None:
    post = publish_post(alice, "long ago")
    assert forget(server, 9) == 0
    newest = max(row["number"] for row in server.rows(Event))
    assert forget(server, 11) >= 3
    assert server.rows(Intent, post=post) == []
    assert server.rows(Attempt, post=post) == []
    assert [row["number"] for row in server.rows(Event)] == [newest]
    shown = alice.api.get(f"/v1/posts/{post}").json()
    assert (shown["status"], shown["text"], shown["attempts"]) == ("published", "long ago", [])


def test_the_number_of_the_newest_event_is_never_given_again(server: AppServer, alice: Person) -> None:
    publish_post(alice, "one")
    cursor = alice.api.get("/v1/events").json()["endCursor"]
    forget(server, 11)
    publish_post(alice, "two")
    seen = alice.api.get("/v1/events", params={"cursor": cursor}).json()["data"]
    assert [event["type"] for event in seen][-1] == "post.published"
    assert len({event["id"] for event in seen}) == len(seen) >= 2


def test_what_belongs_to_an_open_post_stays(server: AppServer, alice: Person) -> None:
    post = publish_post(alice, "later", scheduledAt=format_instant(server.clock.now_ms() + int(40 * DAY * 1000)))
    before = server.events(post)
    assert before
    publish_post(alice, "now")  # whose event is the newest
    forget(server, 11)
    assert server.events(post) == before


def test_what_was_sent_for_a_post_that_is_not_published_stays(server: AppServer, alice: Person) -> None:
    refused = {"fault": "status:400", "platform": "bluesky", "operation": "*putRecord", "times": 9}
    server.lab.lab.faults.add([refused])
    post = publish_post(alice, "refused")
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] in ("failed", "rejected")
    before = server.rows(Intent, post=post), server.rows(Attempt, post=post)
    assert all(before)
    forget(server, 11)
    assert (server.rows(Intent, post=post), server.rows(Attempt, post=post)) == before


def test_no_more_than_a_part_goes_at_once_and_all_of_it_in_the_end(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "READ_BATCH", 3)
    monkeypatch.setattr(retention, "BATCHES_PER_RUN", 2)
    for number in range(5):
        publish_post(alice, f"post {number}")
    kept, counts = HistoryRetention(server.service), [1]
    while not kept.is_done:
        counts.append(kept.run(then(server, 11)))
    assert max(counts) <= 3 * 2 * 3  # a part of each of three tables
    assert len(counts) > 3
    assert len(server.rows(Intent)) == len(server.rows(Attempt)) == 0
    assert len(server.rows(Event)) == 1


def test_a_server_forgets_but_not_by_a_clock_in_doubt(server: AppServer, alice: Person) -> None:
    publish_post(alice, "one")
    kept = server.engine.periodic
    server.clock.set_ahead(11 * DAY)  # a jump: nobody has vouched for this clock
    try:
        kept.delete_expired()
        assert len(server.rows(Intent)) == 1
    finally:
        server.clock.set_ahead(-11 * DAY)
    server.clock.skip(11 * DAY)
    kept.delete_expired()
    assert server.rows(Intent) == []

"""GET /v1/events: everything that happened, in order, once, to whoever may see it."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from contextlib import closing
from typing import Any

import pytest

from socialpub.domain.shapes.events import EVENT_DATA
from socialpub.domain.webhooks import eventlog
from socialpub.store.models import Event
from tests.kit import Api, Person, Server, error_of
from tests.web.world import World

WRITERS, EACH = 3, 60


def happened(server: Server) -> list[str]:
    return [row["id"] for row in sorted(server.rows(Event), key=lambda row: row["number"])]


def pages(api: Api, **query: Any) -> list[dict[str, Any]]:
    """All pages from a place on, as a client follows `nextCursor`."""
    got = []
    while True:
        page = api.get("/v1/events", params=query).json()
        got.append(page)
        if page["nextCursor"] is None:
            return got
        query["cursor"] = page["nextCursor"]


def shown(got: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for page in got for event in page["data"]]


def publish(world: World, person: Person, text: str) -> str:
    answer = person.api.publish({"targets": [{"accountId": person.bluesky}], "text": text})
    return str(answer.json()["results"][0]["postId"])


@pytest.fixture
def told(world: World) -> World:
    """Three posts of Alice and one of Charlie, who is of another organization. Bob's key is bound to his profile."""
    for number in range(3):
        publish(world, world.alice, f"post {number}")
    publish(world, world.charlie, "Charlie's")
    return world


def test_everything_is_told_oldest_first_and_nothing_of_others(told: World) -> None:
    events = shown(pages(told.alice.api))
    mine = [row for row in told.server.rows(Event) if row["organization"] == told.alice.organization]
    assert [event["id"] for event in events] == [row["id"] for row in sorted(mine, key=lambda row: row["number"])]
    assert [event["type"] for event in events] == ["post.validated", "post.published"] * 3
    assert {event["organizationId"] for event in events} == {told.alice.organization}
    assert events[1]["data"]["uri"].startswith("at://")


def test_pages_of_any_size_are_the_same_events_in_the_same_bytes(told: World) -> None:
    whole = told.alice.api.get("/v1/events")
    singly = [told.alice.api.get("/v1/events", params={"limit": 1})]
    while cursor := singly[-1].json()["nextCursor"]:
        singly.append(told.alice.api.get("/v1/events", params={"limit": 1, "cursor": cursor}))
    assert shown([page.json() for page in singly]) == shown([whole.json()])
    for page in singly:
        assert page.text.partition('"data":[')[2].rpartition('],"nextCursor"')[0] in whole.text


def test_the_end_of_a_page_is_kept_to_ask_later_what_came_since(told: World) -> None:
    first = told.alice.api.get("/v1/events").json()
    assert first["nextCursor"] is None
    later = told.alice.api.get("/v1/events", params={"cursor": first["endCursor"]}).json()
    assert later["data"] == []
    post = publish(told, told.alice, "since then")
    since = told.alice.api.get("/v1/events", params={"cursor": later["endCursor"]}).json()
    assert [event["data"]["id"] for event in since["data"]] == [post, post]
    assert told.alice.api.get("/v1/events", params={"cursor": first["data"][-1]["id"]}).json()["data"] == since["data"]


def test_types_and_profiles_narrow_it(told: World) -> None:
    published = shown(pages(told.alice.api, type="post.published", limit=1))
    assert [event["type"] for event in published] == ["post.published"] * 3
    both = shown(pages(told.alice.api, type="post.published,post.validated"))
    assert both == shown(pages(told.alice.api))
    assert shown(pages(told.alice.api, profileId=told.alice.profile)) == both
    assert shown(pages(told.alice.api, type="token.revoked")) == []


def test_a_profiles_key_sees_that_profile_alone(told: World) -> None:
    bob = told.bob
    post = publish(told, bob, "Bob's")
    assert {event["data"]["id"] for event in shown(pages(bob.api))} == {post}
    assert post in {event["data"]["id"] for event in shown(pages(told.alice.api))}
    others = shown(pages(told.alice.api))[0]["id"]
    assert error_of(bob.api.get("/v1/events", params={"cursor": others}))["rule"] == "cursor"
    assert bob.api.get("/v1/events", params={"profileId": told.alice.profile}).status_code == 404


@pytest.mark.parametrize("cursor", ["evt_unknown", "x", "AAAA", "evt_", "0" * 200])
def test_a_cursor_of_another_list_or_nobodys_is_refused(told: World, cursor: str) -> None:
    assert error_of(told.alice.api.get("/v1/events", params={"cursor": cursor}))["rule"] == "cursor"
    posts = told.alice.api.get("/v1/posts", params={"limit": 1}).json()["nextCursor"]
    assert error_of(told.alice.api.get("/v1/events", params={"cursor": posts}))["rule"] == "cursor"


def test_unknown_types_are_refused_and_every_known_one_is_taken(told: World) -> None:
    assert told.alice.api.get("/v1/events", params={"type": "post.gone"}).status_code == 400
    for name in EVENT_DATA:
        assert told.alice.api.get("/v1/events", params={"type": name}).status_code == 200


def test_a_filter_that_nothing_passes_looks_at_so_many_and_goes_on(
    told: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventlog, "LOOKED_AT", 2)
    got = pages(told.alice.api, type="token.revoked")
    assert [len(page["data"]) for page in got] == [0, 0, 0, 0]
    assert [page["nextCursor"] is None for page in got] == [False, False, False, True]
    assert len(shown(pages(told.alice.api, type="post.published", limit=1))) == 3


def test_a_poller_never_skips_an_event_that_is_committed_later(told: World) -> None:
    """Three others write the same file, each holding its transaction open across a poll."""
    path, organization = told.server.service.db.path, told.alice.organization
    polled = threading.Semaphore(0)

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as other:
            for _ in range(EACH):
                other.execute("BEGIN IMMEDIATE")
                other.execute(
                    "INSERT INTO event (id, organization, type, data, created_at) VALUES (?, ?, ?, '{}', 1)",
                    (f"evt_{uuid.uuid4().hex[:22]}", organization, "quota.warning"),
                )
                polled.acquire()  # written, not committed; meanwhile somebody reads
                other.execute("COMMIT")

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    seen, cursor = [], told.alice.api.get("/v1/events").json()["endCursor"]
    while len(seen) < WRITERS * EACH:
        page = told.alice.api.get("/v1/events", params={"cursor": cursor, "type": "quota.warning"}).json()
        seen += [event["id"] for event in page["data"]]
        cursor = page["endCursor"]
        polled.release()
    for writer in writers:
        writer.join()
    assert seen == [event for event in happened(told.server) if event in set(seen)]
    assert len(set(seen)) == WRITERS * EACH

"""GET /v1/events: order, pagination, filters, cursors and scoping."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from contextlib import closing
from typing import Any

import pytest

from socialpub.base.security import crypto
from socialpub.domain.delivery.webhooks import event_log
from socialpub.domain.events import cursors
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.events import EVENTS
from socialpub.store.queries.events import TYPE_NUMBERS
from socialpub.store.schema.models import Event, Post
from tests.support.app_server import ApiClient, AppServer, error_of
from tests.support.publishing_state import publish_post
from tests.support.request_cast import RequestCast

WRITERS, EACH = 3, 60
PUT = "com.atproto.repo.putRecord"


def happened(server: AppServer) -> list[str]:
    return [event.id for event in server.happened()]


def pages(api: ApiClient, **query: Any) -> list[dict[str, Any]]:
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


@pytest.fixture
def told(world: RequestCast) -> RequestCast:
    """Three posts of Alice and one of Charlie, who is of another organization. Bob's key is bound to his profile."""
    for number in range(3):
        publish_post(world.alice, f"post {number}")
    publish_post(world.charlie, "Charlie's")
    return world


def test_everything_is_told_oldest_first_and_nothing_of_others(told: RequestCast) -> None:
    events = shown(pages(told.alice.api))
    mine = told.server.happened(organization=told.alice.organization)
    assert [event["id"] for event in events] == [event.id for event in mine]
    assert [event["type"] for event in events] == ["post.validated", "post.published"] * 3
    assert {event["organizationId"] for event in events} == {told.alice.organization}
    assert events[1]["data"]["uri"].startswith("at://")


def test_pages_of_any_size_are_the_same_events_in_the_same_bytes(told: RequestCast) -> None:
    whole = told.alice.api.get("/v1/events")
    singly = [told.alice.api.get("/v1/events", params={"limit": 1})]
    while cursor := singly[-1].json()["nextCursor"]:
        singly.append(told.alice.api.get("/v1/events", params={"limit": 1, "cursor": cursor}))
    assert shown([page.json() for page in singly]) == shown([whole.json()])
    for page in singly:
        assert page.text.partition('"data":[')[2].rpartition('],"nextCursor"')[0] in whole.text


def test_the_end_of_a_page_is_kept_to_ask_later_what_came_since(told: RequestCast) -> None:
    first = told.alice.api.get("/v1/events").json()
    assert first["nextCursor"] is None
    later = told.alice.api.get("/v1/events", params={"cursor": first["endCursor"]}).json()
    assert later["data"] == []
    post = publish_post(told.alice, "since then")
    since = told.alice.api.get("/v1/events", params={"cursor": later["endCursor"]}).json()
    assert [event["data"]["id"] for event in since["data"]] == [post, post]
    assert told.alice.api.get("/v1/events", params={"cursor": first["data"][-1]["id"]}).json()["data"] == since["data"]


def test_types_and_profiles_narrow_it(told: RequestCast) -> None:
    published = shown(pages(told.alice.api, type="post.published", limit=1))
    assert [event["type"] for event in published] == ["post.published"] * 3
    both = shown(pages(told.alice.api, type="post.published,post.validated"))
    assert both == shown(pages(told.alice.api))
    assert shown(pages(told.alice.api, profileId=told.alice.profile)) == both
    assert shown(pages(told.alice.api, type="token.revoked")) == []


def test_a_profiles_key_sees_that_profile_alone(told: RequestCast) -> None:
    bob = told.bob
    post = publish_post(bob, "Bob's")
    assert {event["data"]["id"] for event in shown(pages(bob.api))} == {post}
    assert post in {event["data"]["id"] for event in shown(pages(told.alice.api))}
    others = shown(pages(told.alice.api))[0]["id"]
    assert error_of(bob.api.get("/v1/events", params={"cursor": others}))["rule"] == "cursor"
    assert bob.api.get("/v1/events", params={"profileId": told.alice.profile}).status_code == 404


@pytest.mark.parametrize("cursor", ["evt_unknown", "x", "AAAA", "evt_", "0" * 200])
def test_a_cursor_of_another_list_or_nobodys_is_refused(told: RequestCast, cursor: str) -> None:
    assert error_of(told.alice.api.get("/v1/events", params={"cursor": cursor}))["rule"] == "cursor"
    posts = told.alice.api.get("/v1/posts", params={"limit": 1}).json()["nextCursor"]
    assert error_of(told.alice.api.get("/v1/events", params={"cursor": posts}))["rule"] == "cursor"


def test_unknown_types_are_refused_and_every_known_one_is_taken(told: RequestCast) -> None:
    assert told.alice.api.get("/v1/events", params={"type": "post.gone"}).status_code == 400
    for name in EVENTS:
        assert told.alice.api.get("/v1/events", params={"type": name}).status_code == 200


def test_a_filter_that_nothing_passes_looks_at_so_many_and_goes_on(
    told: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursors, "SCAN_MAX", 2)
    got = pages(told.alice.api, type="token.revoked")
    assert [len(page["data"]) for page in got] == [0, 0, 0, 0]
    assert [page["nextCursor"] is None for page in got] == [False, False, False, True]
    assert len(shown(pages(told.alice.api, type="post.published", limit=1))) == 3


@pytest.mark.slow
def test_a_poller_never_skips_an_event_that_is_committed_later(told: RequestCast) -> None:
    """Three others write the same file, each holding its transaction open across a poll."""
    path, organization = told.server.service.db.path, told.alice.organization
    polled = threading.Semaphore(0)

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as other:
            for _ in range(EACH):
                other.execute("BEGIN IMMEDIATE")
                other.execute(
                    "INSERT INTO event (organization, type, data, created_at) "
                    "SELECT number, ?, '{}', 1 FROM organization WHERE id = ?",
                    (TYPE_NUMBERS["quota.warning"], organization),
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


# --- What the rows of posts keep for their events ------------------------------------------------------------------


def refused(world: RequestCast, status: int) -> str:
    """The id of a post of Alice's that the platform did not take."""
    world.server.lab.lab.faults.add([{"fault": f"status:{status}", "operation": PUT, "times": 1}])
    return str(world.post(text="not taken").json()["results"][0]["postId"])


def told_of(world: RequestCast, post: str) -> list[dict[str, Any]]:
    return [event for event in shown(pages(world.alice.api)) if event["data"].get("id") == post]


@pytest.mark.parametrize(("status", "type_"), [(400, "post.rejected"), (429, "post.failed")])
def test_event_keeps_its_error_after_the_posts_row_changed(world: RequestCast, status: int, type_: str) -> None:
    """Its event leaves it in the row, until a person has the post tried again."""
    post = refused(world, status)
    before = told_of(world, post)
    assert [event["type"] for event in before] == ["post.validated", type_]
    assert before[1]["data"]["error"] == world.alice.api.get(f"/v1/posts/{post}").json()["error"]
    assert [row["data"] for row in world.server.rows(Event)] == [None, None]
    world.server.lab.lab.faults.add([{"fault": "status:401", "operation": PUT, "times": 1}])
    assert world.alice.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202
    world.server.wait(post, "failed", "rejected")
    after = told_of(world, post)
    assert after[:2] == before
    assert after[-1]["data"]["error"] != before[1]["data"]["error"]
    assert world.alice.api.post(f"/v1/posts/{post}/retry", json={"scheduledAt": world.soon()}).status_code == 202
    assert told_of(world, post)[: len(after)] == after


def test_an_id_is_the_events_own_and_in_the_order_of_the_log(told: RequestCast) -> None:
    events = shown(pages(told.alice.api)) + shown(pages(told.charlie.api))
    ids = [event["id"] for event in events]
    assert len(set(ids)) == len(ids) == 8
    for event in events:
        value = crypto.decode_base62(event["id"].removeprefix("evt_"))
        assert value is not None
        made = uuid.UUID(int=value)
        assert (made.version, made.variant) == (7, uuid.RFC_4122)
        assert made.int >> 80 == parse_instant(event["createdAt"])
    mine = [event["id"] for event in events[:6]]
    assert mine == sorted(mine)


def test_an_id_of_another_organization_or_time_is_no_place(told: RequestCast) -> None:
    (event, *_) = told.server.happened(organization=told.charlie.organization)
    for id in (
        event.id,
        event_log.compute_id(told.alice.organization, event.number, event.created_at),
        event_log.compute_id(told.alice.organization, 1, event.created_at + 1),
    ):
        assert error_of(told.alice.api.get("/v1/events", params={"cursor": id}))["rule"] == "cursor"


def test_a_row_that_was_changed_by_hand_breaks_no_page(told: RequestCast) -> None:
    (post, *_) = [event["data"]["id"] for event in shown(pages(told.alice.api, type="post.published"))]
    told.server.service.write(lambda tx: Post.update(published_at=None).where(Post.id == post).execute()).result()
    events = shown(pages(told.alice.api, type="post.published"))
    assert [event["data"]["publishedAt"] is None for event in events] == [True, False, False]

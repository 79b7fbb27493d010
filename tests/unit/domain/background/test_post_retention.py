"""Deletion of old posts with their dependent rows, and the posts that are exempt."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from socialpub.base import config
from socialpub.base.config import ConfigError, Settings
from socialpub.domain.background import post_retention
from socialpub.domain.background.retention import HISTORY_TABLES, HistoryRetention
from socialpub.store import search
from socialpub.store.engine import sql
from socialpub.store.schema.models import Attempt, Batch, Intent, Media, Post
from tests.support.app_server import AppServer, Person, error_of, format_instant
from tests.support.media_files import picture
from tests.support.publishing_state import publish_post
from tests.support.webhook_endpoints import register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import running_receiver

DAY = 86_400.0
KEPT = {"events": "7d", "intents": "7d", "attempts": "7d", "media": "7d", "posts": "10d"}


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(retention=KEPT)


def forget(server: AppServer, days: float) -> None:
    """All that is forgotten so many days from now."""
    kept = HistoryRetention(server.service)
    then = server.clock.now_ms() + int(days * DAY * 1000)
    kept.run(then)
    assert kept.run(then) == 0  # all was looked at


NEEDLES = "post_search WHERE post_search MATCH 'needle'"


def lose(server: AppServer, post: str) -> None:
    """The answer to a post was lost, and looking for it has shown nothing."""
    error = {"code": "platform_unavailable", "rule": "publish.outcome_unknown", "message": "lost"}
    for change in (
        Post.update(status="failed", error=json.dumps(error)).where(Post.id == post),
        Intent.update(outcome="unknown", remote=None).where(Intent.post == post),
    ):
        server.service.write(lambda tx, change=change: change.execute()).result()


def texts(server: AppServer) -> set[str]:
    return {row["text"] for row in server.rows(Post)}


def count(server: AppServer, table: str) -> int:
    return int(server.service.read(lambda: sql.fetch_value(f"SELECT count(*) FROM {table}")).result())


def test_a_post_past_its_time_goes_with_all_that_hangs_on_it(server: AppServer, alice: Person) -> None:
    post = publish_post(alice, "long ago")
    publish_post(alice, "newer")
    publish_post(alice, "the newest")
    forget(server, 9)
    assert texts(server) == {"long ago", "newer", "the newest"}
    forget(server, 11)
    assert texts(server) == {"the newest"}  # whose number the next would get again
    assert len(server.rows(Batch)) == 1
    assert server.rows(Attempt, post=post) == server.rows(Intent, post=post) == server.happened(post=post) == []
    answer = alice.api.get(f"/v1/posts/{post}")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    assert [shown["text"] for shown in alice.api.get("/v1/posts").json()["data"]] == ["the newest"]
    assert server.service.read(lambda: sql.fetch_all("PRAGMA foreign_key_check")).result() == []


def test_a_failed_and_a_canceled_post_go_too(server: AppServer, alice: Person) -> None:
    refused = {"fault": "status:400", "platform": "bluesky", "operation": "*putRecord", "times": 9}
    server.lab.lab.faults.add([refused])
    failed = publish_post(alice, "refused")
    canceled = publish_post(alice, "never", scheduledAt=format_instant(server.clock.now_ms() + int(DAY * 1000)))
    assert alice.api.delete(f"/v1/posts/{canceled}").is_success
    server.lab.lab.faults.clear()
    publish_post(alice, "the newest")
    assert {row["status"] for row in server.rows()} == {"rejected", "canceled", "published"}
    forget(server, 11)
    assert texts(server) == {"the newest"}
    assert server.rows(Attempt, post=failed) == server.rows(Intent, post=failed) == []


def test_what_is_scheduled_stays_with_its_whole_request(server: AppServer, alice: Person) -> None:
    server.connect_bluesky(alice, "second")
    targets = [{"accountId": alice.bluesky}, {"accountId": alice.accounts["second"]["id"]}]
    at = format_instant(server.clock.now_ms() + int(40 * DAY * 1000))
    answer = alice.api.publish({"text": "later", "targets": targets, "scheduledAt": at}).json()
    first = answer["results"][0]["postId"]
    assert alice.api.delete(f"/v1/posts/{first}").is_success
    publish_post(alice, "the newest")
    forget(server, 11)
    assert sorted(row["status"] for row in server.rows(text="later")) == ["canceled", "queued"]


def test_an_unknown_outcome_stays_until_somebody_has_said_what_it_is(server: AppServer, alice: Person) -> None:
    post = publish_post(alice, "who knows")
    lose(server, post)
    publish_post(alice, "the newest")
    forget(server, 300)
    assert texts(server) == {"who knows", "the newest"}
    assert alice.api.post(f"/v1/posts/{post}/settle", json={"published": False}).is_success
    publish_post(alice, "the newest by now")  # settling has made an event
    forget(server, 300)
    assert texts(server) == {"the newest by now"}


def test_a_post_stays_as_long_as_an_event_that_tells_of_it(server: AppServer, alice: Person) -> None:
    with running_receiver() as sink:
        sink.answer = lambda got: 503
        register_endpoint(alice, sink.url, events=["post.published"])
        publish_post(alice, "still to be told")
        publish_post(alice, "the newest")
        forget(server, 11)
        assert texts(server) == {"still to be told", "the newest"}
        sink.answer = lambda got: 204
        wait_for_deliveries(server, alice, 2, "succeeded")
    forget(server, 11)
    assert texts(server) == {"the newest"}


def test_posts_wait_while_there_are_many_events_to_forget(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_retention, "EVENTS_SCANNED_MAX", 2)
    monkeypatch.setattr(post_retention, "READ_BATCH", 1)
    for text in ("one", "two", "the newest"):
        publish_post(alice, text)
    at = server.clock.now_ms() + int(11 * DAY * 1000)
    kept = post_retention.PostRetention(server.service)
    assert kept.run(at, 9) == (0, False)
    assert texts(server) == {"one", "two", "the newest"}
    HistoryRetention(server.service)._delete_rows(HISTORY_TABLES[0], at)
    assert kept.run(at, 2) == (2, False)
    assert kept.run(at, 9) == (0, True)
    assert texts(server) == {"the newest"}


def test_what_is_gone_is_not_in_the_index_of_the_search(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "INDEX_BATCH", 2)
    monkeypatch.setattr(post_retention, "READ_BATCH", 3)
    monkeypatch.setattr(post_retention, "POSTS_PER_WRITE", 2)
    for number in range(12):
        publish_post(alice, f"needle {number} Straße xy")
    server.engine.periodic.index_posts()
    assert count(server, NEEDLES) == 12
    before = server.clock.now_ms()
    server.clock.skip(11 * DAY)
    for number in range(4):
        publish_post(alice, f"needle new {number} Straße xy")
    server.engine.periodic.index_posts()
    forget(server, 0)
    assert {row["created_at"] > before for row in server.rows()} == {True}
    assert count(server, NEEDLES) == 4
    for text in ("needle", "strasse", "xy", "y"):
        found = alice.api.get("/v1/posts", params={"q": text}).json()["data"]
        assert len(found) == 4, text
    assert alice.api.get("/v1/posts", params={"q": "needle 3 "}).json()["data"] == []
    server.service.write(
        lambda tx: sql.execute("INSERT INTO post_search (post_search) VALUES ('integrity-check')")
    ).result()


def test_rows_of_deleted_media_go_with_the_last_post_that_names_them(server: AppServer, alice: Person) -> None:
    files = {"file": ("a.jpg", picture(size=(64, 48)), "image/jpeg")}
    media = [alice.api.post("/v1/media", files=files).json()["id"] for _ in range(2)]
    publish_post(alice, "with a picture", media=[{"kind": "image", "mediaId": media[0]}])
    lose(server, publish_post(alice, "who knows", media=[{"kind": "image", "mediaId": media[1]}]))
    publish_post(alice, "the newest")
    forget(server, 8)
    assert [row["deleted_at"] is None for row in server.rows(Media)] == [False, False]
    forget(server, 11)
    assert texts(server) == {"who knows", "the newest"}
    assert [row["id"] for row in server.rows(Media)] == media[1:]


def test_a_clock_set_back_takes_no_media_row_from_a_post(server: AppServer, alice: Person) -> None:
    files = {"file": ("a.jpg", picture(size=(64, 48)), "image/jpeg")}
    media = alice.api.post("/v1/media", files=files).json()["id"]
    server.clock.skip(20 * DAY)
    publish_post(alice, "with a picture", media=[{"kind": "image", "mediaId": media}])
    server.clock.set_ahead(-20 * DAY)
    assert alice.api.delete(f"/v1/media/{media}").is_success
    forget(server, 15)
    assert texts(server) == {"with a picture"}
    assert [row["id"] for row in server.rows(Media)] == [media]


def test_a_key_replays_its_answer_though_the_post_is_gone(make_server: Callable[..., AppServer]) -> None:
    server = make_server(retention=KEPT | {"idempotency": "10d"})
    alice = server.connected_person("Alice")
    body = {"text": "once", "targets": [{"accountId": alice.bluesky}]}
    first = alice.api.publish(body, key="k")
    publish_post(alice, "the newest")
    forget(server, 11)
    assert texts(server) == {"the newest"}
    again = alice.api.publish(body, key="k")
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    assert len(server.lab.lab.ledger.posts()) == 2


def test_posts_are_kept_for_ever_unless_told_otherwise(make_server: Callable[..., AppServer]) -> None:
    server = make_server()
    alice = server.connected_person("Alice")
    publish_post(alice, "one")
    publish_post(alice, "two")
    HistoryRetention(server.service).run(server.clock.now_ms() + int(5000 * DAY * 1000))
    assert texts(server) == {"one", "two"}


@pytest.mark.parametrize(
    "kept", [{"posts": "6d", "events": "1d"}, {"posts": "89d"}, {"posts": "100d", "idempotency": "101d"}]
)
def test_posts_are_kept_as_long_as_what_refers_to_them(kept: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in kept.items():
        monkeypatch.setenv(f"SOCIALPUB_RETENTION__{name.upper()}", value)
    with pytest.raises(ConfigError, match="posts must be 0, or at least"):
        config.load()


def test_the_shortest_time_for_posts_is_taken() -> None:
    assert Settings(retention={"posts": "90d"}).retention.posts == 90 * DAY  # type: ignore[arg-type]

"""Edits of queued posts: content and time, checked as at acceptance, whole or not at all."""

from __future__ import annotations

import concurrent.futures
import re
from typing import Any

import httpx
import pytest

from socialpub.base import fault_injection
from socialpub.domain.access.actor import Actor
from socialpub.domain.posts import edits
from socialpub.store.database import Tx
from socialpub.store.schema.models import Media, Post
from tests.support.app_server import UNLIMITED, ApiClient, error_of, unchanged
from tests.support.media_uploads import stored_files, stored_media
from tests.support.post_outcomes import failed
from tests.support.request_cast import RequestCast, inline_item, make_picture

CLIENTS = 2


def edit(world: RequestCast, post: str, **change: Any) -> httpx.Response:
    return world.alice.api.patch(f"/v1/posts/{post}", json=change)


def told(world: RequestCast, post: str) -> list[tuple[str, dict[str, Any]]]:
    return world.server.events(post)[2:]


def publish_now(world: RequestCast, post: str) -> dict[str, Any]:
    world.server.skip(3700)
    world.server.wait(post, "published")
    (entry,) = world.server.lab.lab.ledger.posts()
    return {"text": entry.text, "media": [item.alt for item in entry.media]}


# --- What is changed ---


def test_new_text_is_what_goes_out(world: RequestCast) -> None:
    post = world.scheduled(text="old words", media=[inline_item(make_picture(), altText="a door")])
    answer = edit(world, post, text="new words")
    shown = answer.json()
    assert (answer.status_code, shown["text"], shown["status"]) == (200, "new words", "queued")
    ((type_, data),) = told(world, post)
    assert (type_, data["changed"], data["editedAt"]) == ("post.edited", ["text"], shown["updatedAt"])
    assert publish_now(world, post) == {"text": "new words", "media": ["a door"]}


def test_text_media_options_and_time_change_together(world: RequestCast) -> None:
    post, at = world.scheduled(text="old", media=[inline_item(make_picture())]), world.soon(5000)
    kept = stored_media(world.alice.api, make_picture(size=(9, 9)))
    media = [{"kind": "image", "mediaId": kept["id"], "altText": "new door"}, inline_item(make_picture(size=(5, 5)))]
    options = {"platform": "bluesky", "langs": ["de"]}
    answer = edit(world, post, text="new", media=media, options=options, scheduledAt=at)
    assert answer.status_code == 200, answer.text
    moved, edited = told(world, post)
    assert (moved[0], moved[1]["scheduledAt"]) == ("post.rescheduled", at)
    assert (edited[0], edited[1]["changed"], edited[1]["scheduledAt"]) == (
        "post.edited",
        ["text", "media", "options"],
        at,
    )
    detail = world.alice.api.get(f"/v1/posts/{post}").json()
    assert (detail["text"], detail["options"], detail["scheduledAt"]) == ("new", options, at)
    assert [ref["mediaId"] for ref in detail["mediaRefs"]] == [kept["id"], detail["mediaRefs"][1]["mediaId"]]
    (job,) = world.server.jobs()
    assert job["visible_at"] == world.server.rows(Post, id=post)[0]["scheduled_at"]
    world.server.skip(5100)
    world.server.wait(post, "published")
    (entry,) = world.server.lab.lab.ledger.posts()
    assert (entry.text, [item.alt for item in entry.media]) == ("new", ["new door", ""])


def test_an_edit_is_planned_again_where_another_came_between(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, write = world.scheduled(text="first"), edits._write

    def write_after_another(tx: Tx, who: Actor, plan: edits.EditPlan) -> bool:
        Post.update(text="between").where(Post.id == post).execute()
        return write(tx, who, plan)

    monkeypatch.setattr(edits, "_write", write_after_another)
    assert edit(world, post, text="first").json()["text"] == "first"
    ((_, data),) = told(world, post)
    assert data["changed"] == ["text"]


@pytest.mark.parametrize("what", ["posts", "batches"])
def test_an_edit_is_checked_again_beside_another_that_came_between(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """One takes the text away and the other the file: each leaves something, both together nothing."""
    body = world.body(text="text", media=[stored_media(world.alice.api)["id"]], scheduledAt=world.soon())
    batch = world.alice.api.publish(body).json()
    post = batch["results"][0]["postId"]
    address, write = f"/v1/{what}/{post if what == 'posts' else batch['id']}", edits._write

    def write_second(tx: Tx, who: Actor, plan: edits.EditPlan) -> bool:
        Post.update(text="", text_fold="").where(Post.id == post).execute()
        return write(tx, who, plan)

    monkeypatch.setattr(edits, "_write", write_second)
    with unchanged(world.server):
        refused = error_of(world.alice.api.patch(address, json={"media": []}))
    assert refused["code"] == "preflight_failed"
    assert "bluesky.text.non_empty" in str(refused)


def test_an_edit_whose_time_comes_while_it_is_checked_is_refused(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, write, at = world.scheduled(), edits._write, world.soon(60)

    def write_late(tx: Tx, who: Actor, plan: edits.EditPlan) -> bool:
        world.server.clock.skip(120)
        return write(tx, who, plan)

    monkeypatch.setattr(edits, "_write", write_late)
    with unchanged(world.server):
        assert error_of(edit(world, post, scheduledAt=at))["rule"] == "scheduledAt.future"


def test_a_description_is_changed_with_its_item(world: RequestCast) -> None:
    post = world.scheduled(media=[inline_item(make_picture(), altText="old")])
    (ref,) = world.alice.api.get(f"/v1/posts/{post}").json()["mediaRefs"]
    assert edit(world, post, media=[ref | {"altText": "new"}]).json()["mediaRefs"] == [ref | {"altText": "new"}]
    ((_, data),) = told(world, post)
    assert data["changed"] == ["media"]
    assert publish_now(world, post) == {"text": "hello", "media": ["new"]}


def test_media_are_removed_and_their_file_is_free_again(world: RequestCast) -> None:
    asset = stored_media(world.alice.api, make_picture())["id"]
    post = world.scheduled(media=[asset])
    assert error_of(world.alice.api.delete(f"/v1/media/{asset}"))["rule"] == "media.in_use"
    assert edit(world, post, media=[]).json()["mediaRefs"] == []
    assert world.alice.api.delete(f"/v1/media/{asset}").status_code == 200
    assert publish_now(world, post) == {"text": "hello", "media": []}


def test_new_media_are_kept_for_their_post(world: RequestCast) -> None:
    post, asset = world.scheduled(), stored_media(world.alice.api, make_picture())["id"]
    assert edit(world, post, media=[asset], scheduledAt=world.soon(90 * 86400)).status_code == 200
    assert error_of(world.alice.api.delete(f"/v1/media/{asset}"))["rule"] == "media.in_use"
    row, file = world.server.rows(Post, id=post)[0], world.server.rows(Media, id=asset)[0]
    assert file["used_at"] >= row["scheduled_at"]


def test_what_is_the_same_is_no_change(world: RequestCast) -> None:
    at = world.soon()
    post = world.scheduled(scheduledAt=at, text="same", media=[inline_item(make_picture())])
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    with unchanged(world.server):
        answer = edit(world, post, text="same", media=shown["mediaRefs"], scheduledAt=at)
    assert (answer.status_code, answer.json()["updatedAt"]) == (200, shown["updatedAt"])
    edit(world, post, text="same", scheduledAt=world.soon(5000))
    assert [type_ for type_, _ in told(world, post)] == ["post.rescheduled"]


def test_an_edited_post_is_found_by_its_new_text_alone(world: RequestCast) -> None:
    def found(text: str) -> list[str]:
        return [each["id"] for each in world.alice.api.get("/v1/posts", params={"q": text}).json()["data"]]

    posts = [world.scheduled(text=f"Äpfel number {n}", targets=[world.target()] * 25) for n in range(6)]
    for post in (posts[0], posts[-1]):  # one that is in the index, and one that may not be
        edit(world, post, text="Birnen")
        assert found("birnen")[0] == post
        assert post not in found("äpfel number")
        edit(world, post, text="Quitten")
        assert found("birnen") == []
    assert set(found("quitten")) == {posts[0], posts[-1]}


def test_warnings_are_those_of_the_new_content(world: RequestCast) -> None:
    world.scheduled(text="twice")
    post = world.scheduled(text="twice")
    assert [note["code"] for note in edit(world, post, media=[]).json()["warnings"]] == ["duplicate_content"]
    assert edit(world, post, text="once").json()["warnings"] == []
    assert [note["code"] for note in edit(world, post, text="twice").json()["warnings"]] == ["duplicate_content"]


def test_a_retried_post_is_edited_as_any_other(world: RequestCast) -> None:
    post = failed(world)
    retry = {"scheduledAt": world.soon()}
    assert world.alice.api.post(f"/v1/posts/{post}/retry", json=retry).status_code == 202
    assert edit(world, post, text="better").status_code == 200
    assert publish_now(world, post)["text"] == "better"


# --- What is refused ---


def test_every_failure_of_the_new_content_is_told_at_once(world: RequestCast) -> None:
    post = world.scheduled(media=[inline_item(make_picture())])
    media = [inline_item(make_picture(size=(n + 1, 1))) for n in range(5)]
    with unchanged(world.server):
        error = error_of(edit(world, post, text="x" * 301, media=media, scheduledAt=world.soon(5000)))
    assert error["code"] == "preflight_failed"
    assert {each["rule"] for each in error["platformResponse"]} == {
        "bluesky.text.max_graphemes",
        "bluesky.media.count_max",
    }


BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("scheduledAt", {}),
    ("text", {"text": None}),
    ("text", {"text": 5, "media": 7}),
    ("media.0.kind", {"media": [{"url": "https://example.org/a.jpg"}]}),
    ("media.source", {"media": [{"kind": "image"}]}),
    ("media.base64_invalid", {"media": [{"kind": "image", "bytesBase64": "%"}]}),
    ("media.unknown", {"media": ["med_0000000000000000000000"]}),
    ("options.platform", {"options": {}}),
    ("options.lang", {"options": {"platform": "bluesky", "lang": ["de"]}}),
    ("targets.options.platform_mismatch", {"options": {"platform": "threads"}}),
    ("scheduledAt.future", {"text": "new", "scheduledAt": "2020-01-01T00:00:00Z"}),
    ("firstComment", {"firstComment": {"text": "me"}}),
    ("targets", {"targets": [], "text": "new"}),
)


def test_bad_input_changes_nothing(corpus: RequestCast) -> None:
    post = corpus.scheduled()
    for rule, change in BAD:
        with unchanged(corpus.server):
            answer = edit(corpus, post, **change)
        assert (400 <= answer.status_code < 500, error_of(answer)["rule"]) == (True, rule), change


def test_a_reply_cannot_be_scheduled_by_an_edit(corpus: RequestCast) -> None:
    reply = {"platform": "bluesky", "replyToUri": "at://did:plc:a/app.bsky.feed.post/b", "replyToCid": "c"}
    post = corpus.scheduled()
    with unchanged(corpus.server):
        answer = edit(corpus, post, options=reply)
    assert error_of(answer)["rule"] == "scheduledAt.no_bluesky_reply"


def test_only_a_queued_post_before_its_time_is_edited(world: RequestCast) -> None:
    canceled, due, out = world.scheduled(), world.scheduled(), world.published()
    world.alice.api.delete(f"/v1/posts/{canceled}")
    for post in (canceled, out, failed(world)):
        answer = edit(world, post, text="new")
        assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.status")
    assert world.charlie.api.patch(f"/v1/posts/{due}", json={"text": "mine"}).status_code == 404
    with world.server.down(world.alice):
        world.server.clock.skip(3600)
    answer = edit(world, due, text="too late")
    assert (answer.status_code, error_of(answer)["rule"] in ("post.status", "post.scheduledAt.window")) == (409, True)


def test_foreign_media_are_not_to_be_had(world: RequestCast) -> None:
    foreign = stored_media(world.charlie.api, make_picture())["id"]
    post = world.scheduled()
    with unchanged(world.server):
        answer = edit(world, post, media=[foreign])
    assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")


def test_a_failed_transaction_leaves_post_file_and_event_as_they_were(world: RequestCast) -> None:
    post = world.scheduled()
    before = world.server.stock()["tables"]
    with world.alice.api.expecting_failure():
        fault_injection.plan("edit.before_commit=raise")
        answer = edit(world, post, text="new", media=[inline_item(make_picture())], scheduledAt=world.soon(5000))
        fault_injection.plan("")
    assert answer.status_code == 500
    assert world.server.stock()["tables"] == before
    assert stored_files(world.server) == []


def test_a_repeat_with_its_key_edits_once(world: RequestCast) -> None:
    post = world.scheduled()
    change, key = {"text": "new", "media": [inline_item(make_picture())]}, {"Idempotency-Key": "edit-1"}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        apis = [world.server.api(world.alice.key) for _ in range(4)]
        answers = list(pool.map(lambda api: api.patch(f"/v1/posts/{post}", json=change, headers=key), apis))
    assert {answer.text for answer in answers} == {answers[0].text}
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len(told(world, post)) == 1
    assert len(world.server.rows(Media)) == 1


# --- Two clients ---


def add_one(api: ApiClient, post: str, text: str, tag: str) -> int:
    """Add one to the number in the text that was seen, or in a newer one; return how often it was refused."""
    refused = 0
    while True:
        change = {"text": re.sub(r"\d+", lambda found: str(int(found[0]) + 1), text)}
        answer = api.patch(f"/v1/posts/{post}", json=change, headers={"If-Match": tag})
        if answer.status_code != 412:
            assert answer.status_code == 200, answer.text
            return refused
        refused += 1
        text, tag = error_of(answer)["platformResponse"]["text"], answer.headers["ETag"]


@pytest.mark.parametrize("changes", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_change_of_two_clients_is_lost(crowded: RequestCast, changes: int) -> None:
    post = crowded.scheduled(text="number 0")
    apis = [crowded.server.api(crowded.alice.key) for _ in range(CLIENTS)]
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for number in range(changes // CLIENTS):
            seen = crowded.alice.api.get(f"/v1/posts/{post}")
            text, tag = seen.json()["text"], seen.headers["ETag"]
            assert text == f"number {number * CLIENTS}"
            added = [pool.submit(add_one, api, post, text, tag) for api in apis]
            assert sorted(each.result() for each in added) == [0, 1], "both had seen the same"
    assert crowded.alice.api.get(f"/v1/posts/{post}").json()["text"] == f"number {changes}"


@pytest.mark.slow
def test_edits_at_once_without_a_tag_are_each_checked_whole(crowded: RequestCast) -> None:
    """What one client changes is checked beside what another has changed meanwhile."""
    threads = {"accountId": crowded.alice.accounts["threads"]["id"]}
    for number in range(6):
        post = crowded.scheduled(text=f"short {number}", targets=[threads])
        pictures = [inline_item(make_picture(size=(n + 1, 1))) for n in range(2)]
        changes: list[dict[str, Any]] = [{"text": ""}, {"media": []}, {"media": pictures}, {"text": "long"}]
        apis = [crowded.server.api(crowded.alice.key) for _ in changes]
        with concurrent.futures.ThreadPoolExecutor(len(changes)) as pool:
            list(pool.map(lambda api, change, post=post: api.patch(f"/v1/posts/{post}", json=change), apis, changes))
        shown = crowded.alice.api.get(f"/v1/posts/{post}").json()
        assert shown["text"] or shown["mediaRefs"], "nothing is left to publish"


@pytest.fixture
def crowded(make_server: Any) -> RequestCast:
    server = make_server(limits=UNLIMITED)
    alice = server.person("Alice")
    for platform in ("bluesky", "threads"):
        server.connect(alice, platform)
    return RequestCast(server, alice)

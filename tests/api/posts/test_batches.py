"""Batches: read as they are now, listed, waited for, edited and canceled whole."""

from __future__ import annotations

import concurrent.futures
import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.store.schema.models import ApiKey, Batch, Post
from tests.support.app_server import UNKNOWN_ID, AppServer, error_of, format_instant, unchanged
from tests.support.media_uploads import stored_media
from tests.support.post_outcomes import failed
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.unheard_requests import busy


def scheduled(world: RequestCast, *targets: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A batch of Alice's that is due in an hour, as it was accepted."""
    answer = world.post(**({"targets": list(targets) or [world.target()], "scheduledAt": world.soon()} | fields))
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def read(world: RequestCast, batch: str, **headers: str) -> httpx.Response:
    return world.alice.api.get(f"/v1/batches/{batch}", headers=headers)


def post_ids(batch: dict[str, Any]) -> list[str]:
    return [result["postId"] for result in batch["results"]]


# --- Reading ---


def test_a_batch_is_read_as_it_was_answered(world: RequestCast) -> None:
    accepted = scheduled(world, world.target(), world.target(text="other"))
    answer = read(world, accepted["id"])
    assert (answer.status_code, answer.json()) == (200, accepted)
    again = read(world, accepted["id"], **{"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    done = world.post().json()
    assert read(world, done["id"]).json() == done
    for api, batch in ((world.charlie.api, accepted["id"]), (world.alice.api, UNKNOWN_ID)):
        assert (api.get(f"/v1/batches/{batch}").status_code) == 404


def test_the_status_of_a_batch_follows_its_posts(world: RequestCast) -> None:
    batch = scheduled(world, *(world.target(text=f"n {n}") for n in range(3)))
    first, second, third = post_ids(batch)
    world.alice.api.delete(f"/v1/posts/{first}")
    assert read(world, batch["id"]).json()["status"] == "queued"
    world.server.skip(3700)
    world.server.wait(second, "published")
    world.server.wait(third, "published")
    shown = read(world, batch["id"]).json()
    assert (shown["status"], [each["status"] for each in shown["results"]]) == (
        "published",
        ["canceled", "published", "published"],
    )
    bad = world.alice.api.get(f"/v1/posts/{failed(world)}").json()["batchId"]
    assert read(world, bad).json()["status"] == "failed"


def test_batches_are_listed_newest_first_with_the_filters_of_posts(world: RequestCast) -> None:
    made = [scheduled(world, *[world.target()] * 3, text=f"Brot {n}") for n in range(5)]
    out = world.post(text="Butter").json()
    scheduled_by_charlie = world.charlie.api.publish(
        {"targets": [{"accountId": world.charlie.bluesky}], "text": "Brot", "scheduledAt": world.soon()}
    )
    assert scheduled_by_charlie.status_code == 202

    def walk(**query: Any) -> list[str]:
        ids, cursor = [], ""
        while cursor is not None:
            page = world.alice.api.get("/v1/batches", params={**query, "cursor": cursor}).json()
            ids += [each["id"] for each in page["data"]]
            assert all(each["results"] for each in page["data"])
            cursor = page["nextCursor"]
        return ids

    newest = [each["id"] for each in reversed(made)]
    for limit in (1, 2, 5, 100):
        assert walk(limit=limit) == [out["id"], *newest]
    assert walk(status="queued", limit=2) == newest
    assert walk(q="brot 3") == [made[3]["id"]]
    assert walk(batchId=made[2]["id"]) == [made[2]["id"]]
    assert walk(scheduledAfter=world.soon(0), limit=3) == newest
    assert walk(status="canceled") == []
    world.alice.api.delete(f"/v1/posts/{post_ids(made[1])[2]}")
    (page,) = [world.alice.api.get("/v1/batches", params={"status": "canceled"}).json()]
    assert [len(each["results"]) for each in page["data"]] == [3], "a batch is shown with all its posts"
    foreign = world.alice.api.get("/v1/posts", params={"limit": 1}).json()["nextCursor"]
    assert error_of(world.alice.api.get("/v1/batches", params={"cursor": foreign}))["rule"] == "cursor"
    assert error_of(world.alice.api.get("/v1/batches", params={"order": "createdAt"}))["rule"] == "order"


# --- Editing ---


def test_a_batch_has_the_time_at_which_all_its_queued_posts_are_due(world: RequestCast) -> None:
    batch = scheduled(world, world.target(), world.target(text="second"), world.target(text="third"))
    first, second, third = post_ids(batch)
    assert world.alice.api.delete(f"/v1/posts/{third}").status_code == 200
    at = world.soon(9000)
    for post, shown in ((first, batch["scheduledAt"]), (second, at)):
        assert world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": at}).status_code == 200
        assert read(world, batch["id"]).json()["scheduledAt"] == shown


def test_an_edit_reaches_every_post_without_content_of_its_own(world: RequestCast) -> None:
    own = [inline_item(make_picture(), altText="own")]
    batch = scheduled(world, world.target(), world.target(text="mine"), world.target(media=own), text="old")
    plain, texted, pictured = post_ids(batch)
    asset, at = stored_media(world.alice.api, make_picture(size=(7, 7)))["id"], world.soon(5000)
    answer = world.alice.api.patch(
        f"/v1/batches/{batch['id']}", json={"text": "new", "media": [asset], "scheduledAt": at}
    )
    assert (answer.status_code, answer.json()["scheduledAt"]) == (200, at)
    posts = {each["id"]: each for each in world.alice.api.get("/v1/posts").json()["data"]}
    assert [posts[id_]["text"] for id_ in (plain, texted, pictured)] == ["new", "mine", "new"]
    assert [posts[id_]["mediaRefs"][0].get("altText") for id_ in (plain, texted, pictured)] == [None, None, "own"]
    assert {each["scheduledAt"] for each in posts.values()} == {at}
    told = {id_: [data.get("changed") for type_, data in world.server.events(id_)[2:]] for id_ in posts}
    assert told == {plain: [None, ["text", "media"]], texted: [None, ["media"]], pictured: [None, ["text"]]}


def test_a_post_that_was_edited_alone_keeps_its_text(world: RequestCast) -> None:
    batch = scheduled(world, world.target(), world.target())
    alone, other = post_ids(batch)
    world.alice.api.patch(f"/v1/posts/{alone}", json={"text": "alone"})
    assert world.alice.api.patch(f"/v1/batches/{batch['id']}", json={"text": "all"}).status_code == 200
    assert [world.server.rows(Post, id=id_)[0]["text"] for id_ in (alone, other)] == ["alone", "all"]
    world.alice.api.patch(f"/v1/posts/{other}", json={"text": "alone too"})
    with unchanged(world.server):
        error = error_of(world.alice.api.patch(f"/v1/batches/{batch['id']}", json={"text": "nobody's"}))
    assert error["rule"] == "text"


def test_one_refusal_refuses_the_whole_edit(world: RequestCast) -> None:
    world.server.connect(world.alice, "threads")
    threads = {"accountId": world.alice.accounts["threads"]["id"]}
    batch = scheduled(world, world.target(), threads, text="old", media=[inline_item(make_picture())])
    with unchanged(world.server):
        answer = world.alice.api.patch(
            f"/v1/batches/{batch['id']}", json={"text": "x" * 400, "scheduledAt": world.soon(90)}
        )
    assert [each["targetIndex"] for each in error_of(answer)["platformResponse"]] == [0]
    for change, rule in (({}, "scheduledAt"), ({"options": {"platform": "threads"}}, "options"), ({"text": 1}, "text")):
        with unchanged(world.server):
            assert error_of(world.alice.api.patch(f"/v1/batches/{batch['id']}", json=change))["rule"] == rule


@pytest.mark.usefixtures("charlie")
def test_canceling_a_batch_cancels_what_is_queued(world: RequestCast) -> None:
    batch = scheduled(world, *[world.target()] * 3)
    world.alice.api.delete(f"/v1/posts/{post_ids(batch)[0]}")
    answer = world.alice.api.delete(f"/v1/batches/{batch['id']}")
    assert answer.json() == {"id": batch["id"], "status": "canceled", "canceled": 2}
    assert world.server.jobs() == []
    with unchanged(world.server):
        for method, change in (("DELETE", None), ("PATCH", {"text": "too late"})):
            again = world.alice.api.request(method, f"/v1/batches/{batch['id']}", json=change)
            assert (again.status_code, error_of(again)["rule"]) == (409, "post.status")
            assert world.charlie.api.request(method, f"/v1/batches/{batch['id']}", json=change).status_code == 404


def test_canceling_a_batch_cancels_its_threads(world: RequestCast) -> None:
    batch = scheduled(world, world.target(thread=[{"text": "two"}, {"text": "three"}]), world.target(text="alone"))
    answer = world.alice.api.delete(f"/v1/batches/{batch['id']}")
    assert answer.json() == {"id": batch["id"], "status": "canceled", "canceled": 4}
    assert {row["status"] for row in world.server.rows(Post)} == {"canceled"}


def test_an_edit_of_a_batch_leaves_the_pieces_of_threads_their_texts(world: RequestCast) -> None:
    batch = scheduled(world, world.target(thread=[{"text": "two"}]), world.target(), text="one")
    at = world.soon(5000)
    change = {"text": "new", "scheduledAt": at}
    assert world.alice.api.patch(f"/v1/batches/{batch['id']}", json=change).status_code == 200
    rows = sorted(world.server.rows(Post), key=lambda row: row["position"])
    assert [row["text"] for row in rows] == ["new", "two", "new"]
    assert {job["key"] for job in world.server.jobs()} == {rows[0]["id"], rows[2]["id"]}  # not of the piece
    assert {format_instant(row["scheduled_at"]) for row in rows} == {at}


def test_the_tag_of_a_batch_covers_what_its_posts_say(world: RequestCast) -> None:
    batch = scheduled(world, world.target(), world.target())
    tag = read(world, batch["id"]).headers["ETag"]
    world.server.clock.stop()  # so that no time tells of the change
    world.alice.api.patch(f"/v1/posts/{post_ids(batch)[0]}", json={"text": "new"})
    assert read(world, batch["id"]).headers["ETag"] != tag
    for method, change in (("DELETE", None), ("PATCH", {"text": "mine"})):
        with unchanged(world.server):
            headers = {"If-Match": tag}
            answer = world.alice.api.request(method, f"/v1/batches/{batch['id']}", json=change, headers=headers)
        error = error_of(answer)
        assert (answer.status_code, error["rule"], error["platformResponse"]["id"]) == (
            412,
            "http.if_match",
            batch["id"],
        )
    seen = {"If-Match": answer.headers["ETag"]}
    assert world.alice.api.patch(f"/v1/batches/{batch['id']}", json={"text": "mine"}, headers=seen).status_code == 200


def test_a_moved_batch_keeps_no_time_that_an_immediate_one_never_had(world: RequestCast) -> None:
    post = failed(world)
    batch = world.server.rows(Post, id=post)[0]["batch"]
    world.alice.api.post(f"/v1/posts/{post}/retry", json={"scheduledAt": world.soon()})
    assert world.alice.api.patch(f"/v1/batches/{batch}", json={"scheduledAt": world.soon(9000)}).status_code == 200
    assert world.server.rows(Batch, id=batch)[0]["scheduled_at"] is None


# --- Waiting ---


def waiting_for(world: RequestCast, count: int) -> None:
    deadline = time.monotonic() + 20
    while world.server.service.waiting.count != count:
        assert time.monotonic() < deadline, world.server.service.waiting.count
        threading.Event().wait(0.005)


def test_a_wait_ends_with_the_last_post_of_the_batch(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    """The clock stands: a skip while the batch is read would make that read look endless."""
    world = world_of(make_server(publishing={"threads": 1, "workers": 1}))
    api = world.server.api(world.alice.key)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with busy(world):
            body = world.body(targets=[world.target(text=f"n {n}") for n in range(3)])
            batch = world.alice.api.post("/v1/posts", json=body, headers={"Prefer": "respond-async"}).json()
            answer = pool.submit(api.get, f"/v1/batches/{batch['id']}", headers={"Prefer": "wait=50"})
            waiting_for(world, 1)
        done = answer.result(30)
    assert (done.status_code, done.json()["status"]) == (200, "published")
    assert done.headers["Preference-Applied"] == "wait=50"
    waiting_for(world, 0)


def test_nobody_watches_a_batch_whose_request_was_answered(world: RequestCast) -> None:
    assert world.post().json()["status"] == "published"
    service = world.server.service
    assert (service.batch_observers._observers, service.waiting._waiting) == ({}, {})


def test_a_wait_ends_when_its_time_is_over(world: RequestCast) -> None:
    batch = scheduled(world)
    answer = read(world, batch["id"], Prefer="wait=1")
    assert (answer.json()["status"], answer.headers["Preference-Applied"]) == ("queued", "wait=1")
    for header in ("wait=0", "wait=56", "wait=x", "respond-async"):
        assert "Preference-Applied" not in read(world, batch["id"], Prefer=header).headers


def test_an_event_ends_the_wait_of_those_whom_it_concerns(world: RequestCast) -> None:
    end = world.alice.api.get("/v1/events").json()["endCursor"]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:

        def ask(person: Any, seconds: int = 50, **query: str) -> concurrent.futures.Future[httpx.Response]:
            api, cursor = world.server.api(person.key), end if person is world.alice else "end"
            params, prefer = {"cursor": cursor, **query}, {"Prefer": f"wait={seconds}"}
            return pool.submit(api.get, "/v1/events", params=params, headers=prefer)

        every, canceled, foreign = ask(world.alice), ask(world.alice, type="post.canceled"), ask(world.charlie, 4)
        waiting_for(world, 3)
        post = world.scheduled()
        assert [each["type"] for each in every.result(60).json()["data"]] == ["post.queued", "post.validated"]
        assert not canceled.done()
        world.alice.api.delete(f"/v1/posts/{post}")
        assert [each["type"] for each in canceled.result(60).json()["data"]] == ["post.canceled"]
        assert foreign.result(60).json()["data"] == []
        future = ask(world.charlie)
        waiting_for(world, 1)
        world.charlie.api.publish({"targets": [{"accountId": world.charlie.bluesky}], "text": "x"})
        assert future.result(60).json()["data"][0]["type"] == "post.validated", "after `end` there is something now"
    at_once = world.alice.api.get("/v1/events", params={"cursor": end}, headers={"Prefer": "wait=50"})
    assert len(at_once.json()["data"]) == 3


def test_a_wait_ends_with_its_client(world: RequestCast) -> None:
    with pytest.raises(httpx.ReadTimeout):
        world.alice.api.get("/v1/events", params={"cursor": "end"}, headers={"Prefer": "wait=50"}, timeout=0.5)
    waiting_for(world, 0)


def test_a_key_that_is_revoked_meanwhile_reads_nothing(world: RequestCast) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        api = world.server.api(world.alice.key)
        answer = pool.submit(api.get, "/v1/events", params={"cursor": "end"}, headers={"Prefer": "wait=50"})
        waiting_for(world, 1)
        now = world.server.clock.now_ms()
        revoke = ApiKey.update(revoked_at=now).where(ApiKey.id == world.alice.key_id)
        world.server.service.write(lambda tx: revoke.execute()).result()
        world.bob.api.publish({"targets": [{"accountId": world.bob.bluesky}], "text": "an event of the organization"})
        assert answer.result(60).status_code == 401


@pytest.mark.slow
def test_a_thousand_waiting_requests_cost_neither_threads_nor_memory(make_server: Callable[..., AppServer]) -> None:
    server = make_server(limits={"reads": 1_000_000})
    alice = server.person("Alice")
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {alice.key}\r\nPrefer: wait=50\r\n\r\n"
    request = f"GET /v1/events?cursor=end HTTP/1.1\r\n{head}".encode()
    world = RequestCast(server, alice)
    with contextlib.ExitStack() as sockets:

        def ask(count: int) -> list[socket.socket]:
            opened = []
            for _ in range(count):
                client = sockets.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
                client.sendall(request)
                opened.append(client)
            return opened

        ask(20)  # what the first ones load is not theirs
        waiting_for(world, 20)
        memory, threads = resident_bytes(), set(threading.enumerate())
        clients = ask(1000)
        waiting_for(world, 1020)
        assert resident_bytes() - memory < 20 * 2**20
        more = [thread.name for thread in threading.enumerate() if thread not in threads]
        assert not [name for name in more if not name.startswith("db-")], "those are readers, a few for all"
        server.connect_bluesky(alice)
        world.scheduled()
        for client in clients:
            client.settimeout(20)
            assert client.recv(12) == b"HTTP/1.1 200"
    waiting_for(world, 0)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

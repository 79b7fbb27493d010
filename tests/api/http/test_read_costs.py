"""Cost of a GET, counted in statements; revoked keys; and ETags."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.store.jobs.leases import Claim
from tests.support.database_costs import DatabaseCounter, DatabaseWork
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for


@pytest.mark.parametrize(
    "path", ["/v1/posts", "/v1/posts?limit=2", "/v1/posts?profileId={profile}", "/v1/posts/{post}"]
)
def test_a_read_is_one_row_of_one_statement_on_the_loop(
    counting: DatabaseCounter, world: RequestCast, path: str
) -> None:
    """No thread is waited for, and the query builder makes no text. One statement more finds the key."""
    for number in range(3):
        post = world.scheduled(text=f"Number {number}")
    path = path.format(post=post, profile=world.alice.profile)
    assert world.alice.api.get(path).status_code == 200

    def work() -> DatabaseWork:
        with counting.while_() as done:
            assert world.alice.api.get(path).status_code == 200
        return done.asked

    profile = "profileId" in path  # whether it is one of the organization's is asked first
    asked = work()
    assert (asked.handed, asked.built, asked.statements) == (0, [], 2 + profile), asked
    assert asked.steps == 2 * asked.statements, asked


def test_each_caller_is_shown_its_own_posts(world: RequestCast) -> None:
    """Each asks for the same address, one after the other and again: nobody is told what another may see."""
    world.scheduled()
    theirs = [(one.api, one.api.get("/v1/posts").json()["data"]) for one in (world.alice, world.bob, world.charlie)]
    assert [len(data) for _, data in theirs] == [1, 0, 0]
    for _ in range(3):
        for api, data in theirs:
            assert api.get("/v1/posts").json()["data"] == data


def test_a_read_shows_what_another_process_has_committed(world: RequestCast) -> None:
    post = world.scheduled(text="Number 1")
    with contextlib.closing(sqlite3.connect(world.server.home / "socialpub.db", isolation_level=None)) as other:
        for number in range(2, 20):
            (shown,) = world.alice.api.get("/v1/posts").json()["data"]
            assert shown == {
                name: value
                for name, value in world.alice.api.get(f"/v1/posts/{post}").json().items()
                if name not in ("options", "firstComment", "attempts")
            }
            assert shown["text"] == f"Number {number - 1}"
            other.execute("UPDATE post SET text = ?", (f"Number {number}",))


def test_a_key_that_another_process_revokes_is_refused_at_once(world: RequestCast) -> None:
    """By another process, of which this one hears nothing."""
    get = lambda: world.alice.api.get("/v1/posts").status_code  # noqa: E731
    with contextlib.closing(sqlite3.connect(world.server.home / "socialpub.db", isolation_level=None)) as other:
        for _ in range(20):
            assert [get(), get(), get()] == [200, 200, 200]
            other.execute("UPDATE api_key SET revoked_at = 1 WHERE id = ?", (world.alice.key_id,))
            assert get() == 401
            other.execute("UPDATE api_key SET revoked_at = NULL WHERE id = ?", (world.alice.key_id,))


TAGGED = (
    "/v1/posts",
    "/v1/posts?limit=1",
    "/v1/posts?q=number",
    "/v1/posts/{post}",
    "/v1/accounts",
    "/v1/accounts/{account}",
    "/v1/profiles",
    "/v1/media",
    "/v1/events",
)


@pytest.mark.parametrize("path", TAGGED)
def test_who_has_the_answer_is_told_so(world: RequestCast, path: str) -> None:
    api, post = world.alice.api, world.scheduled(text="Number 1")
    path = path.format(post=post, account=world.alice.bluesky)
    first = api.get(path)
    tag = first.headers["ETag"]
    assert (first.status_code, tag[0], tag[-1]) == (200, '"', '"')
    for named in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = api.get(path, headers={"If-None-Match": named})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert again.headers["Cache-Control"] == first.headers["Cache-Control"] == "no-store"
    assert int(again.headers["RateLimit-Remaining"]) == int(first.headers["RateLimit-Remaining"]) - 4
    other = api.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content, other.headers["ETag"]) == (200, first.content, tag)
    head = api.head(path)
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", tag)


def test_another_answer_has_another_tag(world: RequestCast) -> None:
    api, post = world.alice.api, world.scheduled(text="Number 1")
    for path in ("/v1/posts", f"/v1/posts/{post}"):
        tag = api.get(path).headers["ETag"]
        moved = api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(len(path) * 1000)})
        assert moved.status_code == 200
        changed = api.get(path, headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed.headers["ETag"] != tag


def test_a_tag_opens_nothing(world: RequestCast) -> None:
    """It is compared with what the caller may see, not with what another has seen."""
    world.scheduled()
    tag = world.alice.api.get("/v1/posts").headers["ETag"]
    assert world.charlie.api.get("/v1/posts", headers={"If-None-Match": tag}).json()["data"] == []
    stranger = world.server.api("svc_live_nobody").get("/v1/posts", headers={"If-None-Match": tag})
    assert stranger.status_code == 401
    assert "ETag" not in stranger.headers


def test_reads_keep_to_a_pace_while_posts_go_out(world: RequestCast) -> None:
    service, claim = world.server.service, Claim("a post", 1, "publish", ShareKey())
    asked = lambda: service.admission.reads._next.get(world.alice.organization)  # noqa: E731
    assert wait_for(lambda: not service.jobs.is_busy, 30)
    assert world.alice.api.get("/v1/posts").status_code == 200
    assert asked() is None
    service.jobs.hold_all([claim])
    assert [world.alice.api.get("/v1/posts").status_code for _ in range(3)] == [200] * 3
    service.jobs.drop(claim)
    assert asked() is not None
    before = asked()
    assert world.alice.api.get("/v1/posts").status_code == 200
    assert asked() == before

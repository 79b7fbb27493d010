"""Scheduled posts: accepted, moved, canceled, retried, and kept over a restart."""

from __future__ import annotations

import json
import queue
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.domain.publishing import dispatch
from socialpub.store.jobs.leases import Claim
from socialpub.store.schema.models import Attempt, Media, Post
from tests.support.app_server import UNKNOWN_ID, error_of, format_instant, sleep_briefly, unchanged
from tests.support.post_outcomes import at_its_time, failed, unknown
from tests.support.request_cast import RequestCast, inline_item, make_picture


def types(world: RequestCast, post: str) -> list[str]:
    return [type_ for type_, _ in world.server.events(post)]


# --- Accepting ---


def test_a_scheduled_batch_answers_202_with_every_target_queued(world: RequestCast) -> None:
    at = world.soon()
    targets = [world.target(), world.target(text="other"), {"accountId": world.bob.bluesky}]
    answer = world.post(targets=targets, scheduledAt=at)
    body = answer.json()
    assert answer.status_code == 202
    assert set(body) == {"id", "status", "createdAt", "results", "scheduledAt"}
    assert (body["status"], body["scheduledAt"]) == ("queued", at)
    accounts = [world.alice.bluesky, world.alice.bluesky, world.bob.bluesky]
    for result, account in zip(body["results"], accounts, strict=True):
        assert result == {
            "accountId": account,
            "platform": "bluesky",
            "postId": result["postId"],
            "status": "queued",
        }
    assert world.server.lab.lab.ledger.posts() == []


def test_a_scheduled_post_is_in_the_log_as_it_was_sent(world: RequestCast) -> None:
    at = world.soon()
    answer = world.post(scheduledAt=at, text="later")
    (result,) = answer.json()["results"]
    post = world.alice.api.get(f"/v1/posts/{result['postId']}").json()
    account = world.alice.accounts["bluesky"]
    assert post == {
        "id": result["postId"],
        "batchId": answer.json()["id"],
        "externalId": None,
        "profileId": world.alice.profile,
        "accountId": account["id"],
        "account": {name: account[name] for name in ("id", "platform", "platformAccountId", "displayName")},
        "platform": "bluesky",
        "status": "queued",
        "text": "later",
        "mediaRefs": [],
        "scheduledAt": at,
        "nextAttemptAt": None,
        "publishedAt": None,
        "platformUri": None,
        "platformCid": None,
        "url": None,
        "warnings": [],
        "threadOf": None,
        "threadPosition": None,
        "createdAt": answer.json()["createdAt"],
        "updatedAt": answer.json()["createdAt"],
        "options": {"platform": "bluesky"},
        "firstComment": None,
        "attempts": [],
    }


def test_accepting_writes_rows_jobs_and_events_together(world: RequestCast) -> None:
    at = world.soon()
    answer = world.alice.api.post("/v1/posts", json=world.body(scheduledAt=at), headers={"X-Request-Id": "the-request"})
    batch, post = answer.json()["id"], answer.json()["results"][0]["postId"]
    common = {
        "id": post,
        "batchId": batch,
        "platform": "bluesky",
        "accountId": world.alice.bluesky,
        "profileId": world.alice.profile,
        "scheduledAt": at,
    }
    created = answer.json()["createdAt"]
    assert world.server.events(post) == [
        ("post.queued", common | {"queuedAt": created}),
        ("post.validated", common | {"validatedAt": created}),
    ]
    for event in world.server.happened(post=post):
        assert event.id.startswith("evt_")
        assert event.organization == world.alice.organization
        assert event.request_id == "the-request"
    (job,) = world.server.jobs()
    assert (job["key"], job["kind"], job["serial_group"], format_instant(job["visible_at"])) == (
        post,
        "publish",
        world.alice.bluesky,
        at,
    )


def test_failed_transaction_leaves_no_row_job_or_event(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    with unchanged(world.server), world.alice.api.expecting_failure():
        fault_injection.plan("sched.before_commit=raise")
        answer = world.post(scheduledAt=world.soon())
        fault_injection.plan("")
    assert (answer.status_code, error_of(answer)["code"]) == (500, "internal_error")


# --- Publishing at the time ---


def test_a_post_is_published_at_its_time_and_not_before(world: RequestCast) -> None:
    post = world.scheduled()
    world.server.skip(3599)
    (row,) = world.server.rows(Post, id=post)
    assert row["status"] == "queued"
    world.server.skip(1)
    world.server.wait(post, "published")
    (entry,) = world.server.lab.lab.ledger.posts()
    assert entry.text == "hello"
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    assert shown["status"] == "published"
    assert shown["publishedAt"] >= shown["scheduledAt"]
    assert [attempt["succeeded"] for attempt in shown["attempts"]] == [True]
    assert world.server.jobs() == []


def test_the_published_event_has_its_shape(world: RequestCast) -> None:
    post = world.scheduled()
    world.server.skip(3600)
    world.server.wait(post, "published")
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    type_, data = world.server.events(post)[-1]
    assert type_ == "post.published"
    assert data == {
        "id": post,
        "batchId": shown["batchId"],
        "platform": "bluesky",
        "accountId": world.alice.bluesky,
        "profileId": world.alice.profile,
        "scheduledAt": shown["scheduledAt"],
        "publishedAt": shown["publishedAt"],
        "uri": shown["platformUri"],
        "cid": shown["platformCid"],
        "url": shown["url"],
    }


def test_options_media_and_batch_are_used_at_the_time_over_a_restart(world: RequestCast) -> None:
    answer = world.post(
        targets=[world.target(options={"platform": "bluesky", "langs": ["de"]})],
        media=[inline_item(make_picture(), altText="A teal square")],
        scheduledAt=world.soon(),
    )
    (result,) = answer.json()["results"]
    world.server.restart(world.alice)
    world.server.skip(3600)
    world.server.wait(result["postId"], "published")
    (entry,) = world.server.lab.lab.ledger.posts()
    assert [medium.alt for medium in entry.media] == ["A teal square"]
    assert entry.request["record"]["langs"] == ["de"]
    shown = world.alice.api.get(f"/v1/posts/{result['postId']}").json()
    assert shown["batchId"] == answer.json()["id"]
    (asset,) = world.server.rows(Media)
    assert shown["mediaRefs"] == [{"kind": "image", "mediaId": asset["id"], "altText": "A teal square"}]


def test_posts_due_during_downtime_are_published_within_the_grace_time(world: RequestCast) -> None:
    due, overdue = world.scheduled(text="due"), world.scheduled(text="overdue", scheduledAt=world.soon(60))
    world.server.away(3600 + 120)
    world.server.wait(due, "published")
    row = world.server.wait(overdue, "failed")
    assert json.loads(row["error"])["rule"] == "schedule.overdue"
    assert [entry.text for entry in world.server.lab.lab.ledger.posts()] == ["due"]


# --- Moving ---


def test_a_queued_post_is_moved_row_job_and_event_together(world: RequestCast) -> None:
    post, was = world.scheduled(), world.soon()
    (row,) = world.server.rows(Post, id=post)
    was, to = format_instant(row["scheduled_at"]), world.soon(7200)
    answer = world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": to}, headers={"X-Request-Id": "moving"})
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["status"], answer.json()["scheduledAt"]) == (post, "queued", to)
    assert "attempts" not in answer.json()
    (job,) = world.server.jobs()
    assert format_instant(job["visible_at"]) == to
    type_, data = world.server.events(post)[-1]
    assert type_ == "post.rescheduled"
    assert (data["previousScheduledAt"], data["scheduledAt"]) == (was, to)
    assert set(data) == {
        "id",
        "batchId",
        "platform",
        "accountId",
        "profileId",
        "scheduledAt",
        "previousScheduledAt",
    }
    assert [event.request_id for event in world.server.happened(type="post.rescheduled")] == ["moving"]


def test_a_moved_post_is_published_at_its_new_time_only(world: RequestCast) -> None:
    post = world.scheduled()
    world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(7200)})
    world.server.skip(3700)
    (row,) = world.server.rows(Post, id=post)
    assert row["status"] == "queued"
    world.server.skip(3500)
    world.server.wait(post, "published")
    assert len(world.server.lab.lab.ledger.posts()) == 1


def test_a_post_may_be_moved_nearer(world: RequestCast) -> None:
    post = world.scheduled()
    world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(60)})
    world.server.skip(60)
    world.server.wait(post, "published")


def test_moving_needs_a_time(world: RequestCast) -> None:
    post = world.scheduled()
    with unchanged(world.server):
        assert error_of(world.alice.api.patch(f"/v1/posts/{post}", json={}))["rule"] == "scheduledAt"
        body = {"scheduledAt": world.soon(), "texts": "other"}
        assert error_of(world.alice.api.patch(f"/v1/posts/{post}", json=body))["rule"] == "texts"


# --- Canceling ---


def test_a_queued_post_is_canceled_row_job_and_event_together(world: RequestCast) -> None:
    post = world.scheduled()
    (before,) = world.server.rows(Post, id=post)
    answer = world.alice.api.delete(f"/v1/posts/{post}", headers={"X-Request-Id": "canceling"})
    assert (answer.status_code, answer.json()) == (200, {"id": post, "status": "canceled"})
    assert world.server.jobs() == []
    (row,) = world.server.rows(Post, id=post)
    type_, data = world.server.events(post)[-1]
    assert type_ == "post.canceled"
    assert data == {
        "id": post,
        "batchId": before["batch"],
        "platform": "bluesky",
        "accountId": world.alice.bluesky,
        "profileId": world.alice.profile,
        "scheduledAt": format_instant(before["scheduled_at"]),
        "canceledAt": format_instant(row["updated_at"]),
    }
    assert [event.request_id for event in world.server.happened(type="post.canceled")] == ["canceling"]
    world.server.skip(7200)
    assert world.server.lab.lab.ledger.posts() == []


def test_a_canceled_post_can_neither_be_canceled_nor_moved_again(world: RequestCast) -> None:
    post = world.scheduled()
    world.alice.api.delete(f"/v1/posts/{post}")
    with unchanged(world.server):
        for answer in (
            world.alice.api.delete(f"/v1/posts/{post}"),
            world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon()}),
        ):
            assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.status")


def test_one_target_of_a_batch_may_be_canceled_alone(world: RequestCast) -> None:
    answer = world.post(targets=[world.target(text="one"), world.target(text="two")], scheduledAt=world.soon())
    one, two = (result["postId"] for result in answer.json()["results"])
    world.alice.api.delete(f"/v1/posts/{one}")
    world.server.skip(3600)
    world.server.wait(two, "published")
    assert [entry.text for entry in world.server.lab.lab.ledger.posts()] == ["two"]


def test_outside_the_window_nothing_is_written(world: RequestCast) -> None:
    post = at_its_time(world)
    with unchanged(world.server):
        for answer in (
            world.alice.api.delete(f"/v1/posts/{post}"),
            world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon()}),
        ):
            assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.scheduledAt.window")


def test_the_window_closes_at_the_very_millisecond(world: RequestCast) -> None:
    at = world.server.clock.stop()
    posts = [world.scheduled(scheduledAt=format_instant(at + 5000)) for _ in range(2)]
    world.server.service.jobs.paused = lambda: ("publish",)
    world.server.clock.stop(at + 4999)
    assert world.alice.api.delete(f"/v1/posts/{posts[0]}").status_code == 200
    world.server.clock.stop(at + 5000)
    assert world.alice.api.delete(f"/v1/posts/{posts[1]}").status_code == 409


def test_a_cancel_that_lands_while_a_worker_is_at_it_wins(world: RequestCast) -> None:
    """The worker has claimed the job; its conditional update of the row matches nothing."""
    post = world.scheduled()
    jobs = world.server.service.jobs
    jobs.paused = lambda: ("publish",)
    world.server.skip(3600)
    (job,) = world.server.jobs()
    (claim,) = jobs.claim([Claim(job["key"], job["claims"], job["serial_group"])])
    assert (job["kind"], claim.key) == ("publish", post)
    world.server.clock.skip(-10)
    assert world.alice.api.delete(f"/v1/posts/{post}").status_code == 200
    world.server.clock.skip(10)
    over = queue.SimpleQueue[bool]()
    dispatch.start(world.server.service, world.server.engine.fetched, claim, over.put)
    assert over.get(timeout=20) is False  # nothing was called
    jobs.leave(claim)
    jobs.drop(claim)  # as a worker does, or the end of the server waits for it
    assert world.server.rows(Post, id=post)[0]["status"] == "canceled"
    assert world.server.lab.lab.ledger.posts() == []


# --- Trying again by itself ---

DOWN = {"fault": "status:503", "operation": "com.atproto.repo.uploadBlob"}


def wait_for_attempts(world: RequestCast, post: str, number: int) -> dict[str, Any]:
    """The row, once this many attempts are over."""
    for _ in range(2000):
        over = [row for row in world.server.rows(Attempt, post=post) if row["finished_at"]]
        if len(over) == number:
            (row,) = world.server.rows(Post, id=post)
            return row
        sleep_briefly()
    raise AssertionError(f"there are not {number} attempts")


def picture_at_its_time(world: RequestCast) -> str:
    """A post with an image: preparing it changes nothing in public, so that it may fail in peace."""
    post = world.scheduled(media=[inline_item(make_picture())])
    world.server.skip(3600)
    return post


def test_an_unavailable_platform_is_tried_after_30_s_2_min_and_8_min(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN])
    post = picture_at_its_time(world)
    for number, wait in enumerate((30, 120, 480), start=1):
        row = wait_for_attempts(world, post, number)
        assert row["status"] == "validated"
        finished = world.server.rows(Attempt, post=post)[-1]["finished_at"]
        assert row["next_attempt_at"] - finished == pytest.approx(wait * 1000, abs=50)
        shown = world.alice.api.get(f"/v1/posts/{post}").json()
        assert shown["nextAttemptAt"] == format_instant(row["next_attempt_at"])
        assert shown["error"]["code"] == "platform_unavailable"
        type_, data = world.server.events(post)[-1]
        assert (type_, data["willRetry"], data["nextAttemptAt"]) == ("post.failed", True, shown["nextAttemptAt"])
        assert data["error"] == shown["error"]
        world.server.skip(wait - 1)
        assert len(world.server.rows(Attempt, post=post)) == number
        world.server.skip(1.5)
    row = wait_for_attempts(world, post, 4)
    type_, data = world.server.events(post)[-1]
    assert (row["status"], type_, data["willRetry"], data["nextAttemptAt"]) == ("failed", "post.failed", False, None)
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    assert [attempt["attemptNumber"] for attempt in shown["attempts"]] == [1, 2, 3, 4]
    assert {attempt["errorCode"] for attempt in shown["attempts"]} == {"platform_unavailable"}
    assert world.server.jobs() == []


def test_a_retry_that_succeeds_clears_the_error(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN | {"times": 1}])
    post = picture_at_its_time(world)
    wait_for_attempts(world, post, 1)
    world.server.skip(31)
    world.server.wait(post, "published")
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    assert "error" not in shown
    assert shown["nextAttemptAt"] is None
    assert [attempt["succeeded"] for attempt in shown["attempts"]] == [False, True]
    assert len(world.server.lab.lab.ledger.posts()) == 1


@pytest.mark.parametrize(("after", "wait"), [(10, 30), (45, 45), (3600, 3600), (3601, None)])
def test_a_longer_retry_after_wins_up_to_an_hour(after: int, wait: int | None, world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN | {"fault": "status:429", "retry_after": after}])
    post = picture_at_its_time(world)
    row = wait_for_attempts(world, post, 1)
    if wait is None:
        assert (row["status"], row["next_attempt_at"]) == ("failed", None)
    else:
        finished = world.server.rows(Attempt, post=post)[-1]["finished_at"]
        assert row["status"] == "validated"
        assert row["next_attempt_at"] - finished == pytest.approx(wait * 1000, abs=5000)


def test_while_a_retry_waits_the_post_can_be_neither_moved_nor_canceled(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN])
    post = picture_at_its_time(world)
    wait_for_attempts(world, post, 1)
    for answer in (
        world.alice.api.delete(f"/v1/posts/{post}"),
        world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon()}),
    ):
        assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.status")


def test_a_waiting_retry_is_kept_over_a_restart(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN | {"times": 1}])
    post = picture_at_its_time(world)
    wait_for_attempts(world, post, 1)
    world.server.restart(world.alice)
    assert world.alice.api.get(f"/v1/posts/{post}").json()["status"] == "validated"
    world.server.skip(31)
    world.server.wait(post, "published")


@pytest.mark.slow
def test_a_refusal_is_not_tried_again(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([DOWN | {"fault": "status:400"}])
    post = picture_at_its_time(world)
    row = world.server.wait(post, "rejected")
    assert row["next_attempt_at"] is None
    assert types(world, post) == ["post.queued", "post.validated", "post.rejected"]
    _, data = world.server.events(post)[-1]
    assert data["error"]["code"] == "platform_rejected"
    assert set(data) >= {"rejectedAt", "error"}
    assert world.server.jobs() == []


# --- Trying again by hand ---


def test_a_failed_post_is_tried_again_at_once_from_what_is_stored(world: RequestCast) -> None:
    post = failed(world)
    answer = world.alice.api.post(f"/v1/posts/{post}/retry")
    assert (answer.status_code, answer.json()["id"]) == (202, post)
    assert answer.json()["status"] in ("validated", "publishing", "published")
    world.server.wait(post, "published")
    assert types(world, post) == ["post.validated", "post.failed", "post.validated", "post.published"]
    shown = world.alice.api.get(f"/v1/posts/{post}").json()
    assert [attempt["succeeded"] for attempt in shown["attempts"]] == [False, True]
    assert len(world.server.lab.lab.ledger.posts()) == 1


@pytest.mark.parametrize("later", [False, True])
def test_a_post_whose_media_were_deleted_is_not_tried_again(world: RequestCast, *, later: bool) -> None:
    post = failed(world)
    (media,) = json.loads(world.server.rows(id=post)[0]["media"])
    assert world.alice.api.delete(f"/v1/media/{media['mediaId']}").status_code == 200
    body = {"scheduledAt": world.soon()} if later else {}
    with unchanged(world.server):
        refused = world.alice.api.post(f"/v1/posts/{post}/retry", json=body)
    assert (refused.status_code, error_of(refused)["rule"]) == (404, "media.unknown")


def test_a_failed_post_is_tried_again_at_a_time(world: RequestCast) -> None:
    post, at = failed(world), world.soon()
    answer = world.alice.api.post(f"/v1/posts/{post}/retry", json={"scheduledAt": at})
    assert (answer.status_code, answer.json()["status"], answer.json()["scheduledAt"]) == (202, "queued", at)
    assert types(world, post)[-2:] == ["post.queued", "post.validated"]
    world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(60)})
    world.server.skip(60)
    world.server.wait(post, "published")


def test_a_retry_at_a_time_keeps_nothing_of_earlier_attempts(world: RequestCast) -> None:
    post, new, at = failed(world), world.scheduled(), world.soon()
    kept = Post.update(saved='{"id": "1"}', due_at=1, next_attempt_at=1).where(Post.id == post)
    world.server.service.write(lambda tx: kept.execute()).result()
    assert world.alice.api.post(f"/v1/posts/{post}/retry", json={"scheduledAt": at}).status_code == 202
    columns = (
        "status",
        "error",
        "error_code",
        "tries",
        "draft_at",
        "draft_nonce",
        "saved",
        "due_at",
        "next_attempt_at",
    )
    (row,), (fresh,) = world.server.rows(Post, id=post), world.server.rows(Post, id=new)
    assert {name: row[name] for name in columns} == {name: fresh[name] for name in columns}
    assert "error" not in world.alice.api.get(f"/v1/posts/{post}").json()


def test_a_retry_gets_its_three_further_tries_anew(world: RequestCast) -> None:
    post = failed(world)
    world.server.lab.lab.faults.add([DOWN])
    world.alice.api.post(f"/v1/posts/{post}/retry", json={"scheduledAt": world.soon(60)})
    world.server.skip(60)
    row = wait_for_attempts(world, post, 2)
    assert row["status"] == "validated"


@pytest.mark.parametrize("path", ["retry", "settle"])
def test_retry_and_settle_of_what_is_not_there_is_404(path: str, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.post(
            f"/v1/posts/{UNKNOWN_ID}/{path}", json={"published": True} if path == "settle" else {}
        )
    assert answer.status_code == 404


# --- Saying what became of an unknown outcome ---


def test_settling_as_published_publishes_the_row(world: RequestCast) -> None:
    post = unknown(world)
    answer = world.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True, "uri": "at://found"})
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["platformUri"]) == ("published", "at://found")
    assert "error" not in answer.json()
    assert types(world, post)[-1] == "post.published"
    again = world.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True})
    assert error_of(again)["rule"] == "post.settle.status"


@pytest.mark.parametrize(("uri", "is_public"), [("at://found", False), ("https://example.org/found", True)])
def test_a_public_address_that_is_reported_is_the_url_too(uri: str, is_public: bool, world: RequestCast) -> None:
    post = unknown(world)
    world.server.service.write(lambda tx: Post.update(url=None).where(Post.id == post).execute()).result()
    answer = world.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True, "uri": uri})
    assert (answer.json()["platformUri"], answer.json()["url"]) == (uri, uri if is_public else None)


def test_settling_as_absent_leaves_a_plain_failure_that_may_be_retried(world: RequestCast) -> None:
    post = unknown(world)
    retry = world.alice.api.post(f"/v1/posts/{post}/retry", json={})
    assert error_of(retry)["rule"] == "post.retry.unsettled"
    answer = world.alice.api.post(f"/v1/posts/{post}/settle", json={"published": False})
    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert answer.json()["error"]["code"] == "platform_unavailable"
    assert "rule" not in answer.json()["error"]
    assert world.alice.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202
    world.server.wait(post, "published")


def test_settling_needs_a_word(world: RequestCast) -> None:
    post = unknown(world)
    with unchanged(world.server):
        links = (
            "",
            "javascript:alert(1)",
            "http://a.example/1",
            "data:text/html,x",
            "https://a b",
            "https://a\u202eb",
            "at:x",
        )
        told = [{"published": True, "uri": uri} for uri in links]
        for body in ({}, {"published": "yes"}, {"published": None}, *told):
            assert world.alice.api.post(f"/v1/posts/{post}/settle", json=body).status_code == 400
        answer = world.alice.api.post(f"/v1/posts/{post}/settle")
        assert error_of(answer)["rule"] == "body.json"

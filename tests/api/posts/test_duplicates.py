"""Duplicate texts on one account: a warning, or refused where configured."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable

import httpx
import pytest

from socialpub.store.schema.models import Post
from tests.support.app_server import AppServer, error_of, unchanged
from tests.support.request_cast import RequestCast


def refused(answer: httpx.Response) -> dict[str, object]:
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["rule"]) == (409, "validation_failed", "post.duplicate")
    (twin,) = error["platformResponse"]
    return dict(twin)


def test_a_duplicate_is_refused_on_request_and_its_earlier_post_is_named(world: RequestCast) -> None:
    post = world.published()
    with unchanged(world.server):
        answer = world.post(targets=[world.target(text="new"), world.target()], onDuplicate="refuse")
        checked = world.alice.api.post("/v1/posts/validate", json=world.body(onDuplicate="refuse"))
    assert refused(answer) == {
        "targetIndex": 1,
        "accountId": world.alice.bluesky,
        "platform": "bluesky",
        "postId": post,
    }
    assert f"post {post}" in error_of(answer)["message"]
    assert error_of(answer)["message"].startswith("Target 1: ")
    assert refused(checked)["postId"] == post


def test_by_default_it_is_a_warning(world: RequestCast) -> None:
    world.published()
    for extra in ({}, {"onDuplicate": "warn"}):
        (result,) = world.post(**extra).json()["results"]
        assert (result["status"], result["warnings"][0]["code"]) == ("published", "duplicate_content")


@pytest.mark.parametrize(("said", "status"), [(None, 409), ("refuse", 409), ("warn", 200)])
def test_the_server_may_refuse_them_and_the_request_has_the_last_word(
    said: str | None, status: int, make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(publishing={"refuse_duplicates": True, "workers": 4}))
    world.published()
    assert world.post(**({"onDuplicate": said} if said else {})).status_code == status


def test_twice_in_one_request_is_a_duplicate_too(world: RequestCast) -> None:
    answer = world.post(targets=[world.target(), world.target()], onDuplicate="refuse")
    assert (refused(answer)["targetIndex"], refused(answer)["sameAsTarget"]) == (1, 0)
    assert world.server.rows(Post) == []


@pytest.mark.parametrize("status", ["canceled", "failed", "rejected"])
def test_what_is_not_out_is_no_duplicate(status: str, world: RequestCast) -> None:
    world.published()
    world.server.service.write(lambda tx: Post.update(status=status).execute()).result()
    assert world.post(onDuplicate="refuse").status_code == 200


def test_another_account_another_text_and_another_day_are_no_duplicates(world: RequestCast) -> None:
    world.published()
    assert world.post(targets=[{"accountId": world.bob.bluesky}], onDuplicate="refuse").status_code == 200
    assert world.post(text="hello!", onDuplicate="refuse").status_code == 200
    world.server.clock.skip(24 * 3600 + 1)
    assert world.post(onDuplicate="refuse").status_code == 200


def test_a_scheduled_post_counts_from_its_making(world: RequestCast) -> None:
    post = world.scheduled()
    assert refused(world.post(onDuplicate="refuse"))["postId"] == post


@pytest.mark.parametrize("restarted", [False, True])
def test_a_scheduled_post_counts_from_its_time_too(restarted: bool, world: RequestCast) -> None:
    post = world.scheduled(scheduledAt=world.soon(3 * 86_400))
    world.server.skip(3 * 86_400 + 60)
    world.server.wait(post, "published")
    if restarted:
        world.server.restart(world.alice)
    (result,) = world.post(text="other").json()["results"]
    assert "warnings" not in result
    assert refused(world.post(onDuplicate="refuse"))["postId"] == post
    world.server.clock.skip(86_400)
    assert world.post(onDuplicate="refuse").status_code == 200


def test_of_20_at_once_one_is_published(world: RequestCast) -> None:
    """Each has been checked before any was written: the transaction has the last word."""
    apis = [world.server.api(world.alice.key) for _ in range(20)]
    body = world.body(onDuplicate="refuse")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda api: api.publish(body), apis))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert len(world.server.lab.lab.ledger.posts()) == len(world.server.rows(Post)) == 1


@pytest.mark.parametrize("value", ["ignore", True, None, ""])
def test_it_is_one_of_two_words(value: object, world: RequestCast) -> None:
    assert error_of(world.post(onDuplicate=value))["rule"] == "onDuplicate"

"""`ETag` and `If-Match`: a change is made to what its client has seen, or not at all."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from socialpub.store.schema.models import Post
from tests.support.app_server import ApiClient, error_of, unchanged
from tests.support.post_outcomes import unknown
from tests.support.request_cast import RequestCast

OTHER = '"00000000000000000000000000000000"'
MALFORMED = ("", ",", "abc", '"abc', 'abc"', '""x""', '"a" "b"', 'w/"a"', '*, "a"', '"a", *', "W/*", '"a\tb"', '"a", b')


def tag_of(api: ApiClient, post: str) -> str:
    return api.get(f"/v1/posts/{post}").headers["ETag"]


def refusal(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (status, code)
    return error


def test_the_tag_of_a_post_is_strong_and_outlives_the_server(world: RequestCast) -> None:
    post = world.scheduled()
    tag = tag_of(world.alice.api, post)
    assert len(tag) == len(OTHER)
    assert world.alice.api.get(f"/v1/posts/{post}", headers={"If-None-Match": tag}).status_code == 304
    world.server.restart(world.alice)
    assert tag_of(world.alice.api, post) == tag
    world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(7200)})
    assert tag_of(world.alice.api, post) != tag


@pytest.mark.parametrize("form", ["{}", "*", '"x" , {}', ',"x,y",W/"z",{},'])
def test_a_change_of_what_was_seen_is_made(corpus: RequestCast, form: str) -> None:
    post, at = corpus.scheduled(), corpus.soon(7200)
    seen = {"If-Match": form.format(tag_of(corpus.alice.api, post))}
    answer = corpus.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": at}, headers=seen)
    assert (answer.status_code, answer.json()["scheduledAt"]) == (200, at)


WRITES: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", "", {"scheduledAt": "2999-01-01T00:00:00Z"}),
    ("DELETE", "", None),
    ("POST", "/retry", {}),
    ("POST", "/settle", {"published": False}),
)


def test_every_write_of_a_post_refuses_a_tag_of_another_state(corpus: RequestCast) -> None:
    api, post, other = corpus.alice.api, corpus.scheduled(), corpus.scheduled()
    seen = tag_of(api, post)
    weak = f"W/{seen}"
    shown = api.get(f"/v1/posts/{post}").json()
    for method, path, body in WRITES:
        for tag in (OTHER, weak, tag_of(api, other)):
            with unchanged(corpus.server):
                answer = api.request(method, f"/v1/posts/{post}{path}", json=body, headers={"If-Match": tag})
            error = refusal(answer, 412, "validation_failed")
            assert (error["rule"], error["platformResponse"]) == ("http.if_match", shown)
            assert answer.headers["ETag"] == seen, "the next try needs no read"


@pytest.mark.slow
def test_a_malformed_header_is_refused_as_such(corpus: RequestCast) -> None:
    post = corpus.scheduled()
    for method, path, body in WRITES:
        for header in MALFORMED:
            with unchanged(corpus.server):
                headers = {"If-Match": header}
                answer = corpus.alice.api.request(method, f"/v1/posts/{post}{path}", json=body, headers=headers)
            assert refusal(answer, 400, "validation_failed")["rule"] == "http.if_match", header


def test_what_is_missing_is_not_found_whatever_the_tag(corpus: RequestCast) -> None:
    post = corpus.scheduled()
    for header in (OTHER, "*"):
        for api, id_ in ((corpus.charlie.api, post), (corpus.alice.api, "01999c41-7e30-7c68-a1f5-3b8d07e4c952")):
            answer = api.delete(f"/v1/posts/{id_}", headers={"If-Match": header})
            refusal(answer, 404, "not_found")
    assert corpus.server.rows(Post, id=post)[0]["status"] == "queued"


def test_a_repeat_gets_the_first_answer_though_its_tag_is_old(corpus: RequestCast) -> None:
    post = corpus.scheduled()
    headers = {"If-Match": tag_of(corpus.alice.api, post), "Idempotency-Key": "move-1"}
    first, second = (
        corpus.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": "2999-01-01T00:00:00Z"}, headers=headers)
        for _ in range(2)
    )
    assert (first.status_code, second.status_code, second.text) == (200, 200, first.text)
    assert second.headers["Idempotency-Replayed"] == "true"


def test_settling_and_retrying_name_what_was_seen(world: RequestCast) -> None:
    post = unknown(world)
    tag, body = tag_of(world.alice.api, post), {"published": False}
    answer = world.alice.api.post(f"/v1/posts/{post}/settle", json=body, headers={"If-Match": tag})
    assert answer.status_code == 200
    refusal(world.alice.api.post(f"/v1/posts/{post}/retry", headers={"If-Match": tag}), 412, "validation_failed")
    seen = {"If-Match": tag_of(world.alice.api, post)}
    assert world.alice.api.post(f"/v1/posts/{post}/retry", headers=seen).status_code == 202
    world.server.wait(post, "published")
    refusal(world.alice.api.post(f"/v1/posts/{post}/retry", headers=seen), 412, "validation_failed")

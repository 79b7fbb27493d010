"""Idempotency-Key: one execution, exact replays, and a free key after a refusal."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.base import fault_injection
from socialpub.domain.access import idempotency
from socialpub.store.schema.models import Account, ApiKey, IdempotencyRecord, Intent, Post, Usage
from tests.support.app_server import ApiClient, AppServer, error_of, unchanged
from tests.support.connect_flow import sign_in
from tests.support.post_outcomes import unknown
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for

KEY = "the-key"


def send(api: ApiClient, method: str, path: str, body: Any = None, key: str = KEY) -> httpx.Response:
    content = None if body is None else json.dumps(body).encode()
    return api.request(method, path, content=content, headers={"Idempotency-Key": key})


def twice(api: ApiClient, method: str, path: str, body: Any = None) -> tuple[httpx.Response, httpx.Response]:
    """The answer and its replay, which must be the same bytes."""
    first, second = send(api, method, path, body), send(api, method, path, body)
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert (second.status_code, second.content) == (first.status_code, first.content)
    return first, second


# --- Replays ---


def test_an_immediate_batch_is_published_once_and_its_answer_replayed(world: RequestCast) -> None:
    first, _ = twice(world.alice.api, "POST", "/v1/posts", world.body())
    assert first.json()["status"] == "published"
    assert len(world.server.lab.lab.ledger.posts()) == 1
    assert len(world.server.rows(Post)) == 1


def test_a_scheduled_batch_is_queued_once(world: RequestCast) -> None:
    first, _ = twice(world.alice.api, "POST", "/v1/posts", world.body(scheduledAt=world.soon()))
    assert first.status_code == 202
    assert len(world.server.rows(Post)) == 1
    assert len(world.server.jobs()) == 1


def test_patch_delete_retry_and_settle_replay_too(world: RequestCast) -> None:
    post, other = world.scheduled(), world.scheduled()
    twice(world.alice.api, "PATCH", f"/v1/posts/{post}", {"scheduledAt": world.soon(7200)})
    twice(world.alice.api, "DELETE", f"/v1/posts/{other}")
    lost = unknown(world)
    twice(world.alice.api, "POST", f"/v1/posts/{lost}/settle", {"published": False})
    twice(world.alice.api, "POST", f"/v1/posts/{lost}/retry", {"scheduledAt": world.soon()})
    events = [type_ for type_, _ in world.server.events()]
    assert events.count("post.rescheduled") == events.count("post.canceled") == 1


def test_a_failed_batch_is_replayed_as_it_was(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "status:400", "operation": "com.atproto.repo.putRecord"}])
    first, _ = twice(world.alice.api, "POST", "/v1/posts", world.body())
    assert (first.status_code, first.json()["status"]) == (200, "failed")
    assert len(world.server.rows(Post)) == 1


def test_a_replay_shows_what_was_answered_not_what_became_of_it(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(publishing={"immediate_wait": 0.2, "workers": 4}))
    world.server.lab.lab.faults.add([{"fault": "delay:2", "operation": "com.atproto.repo.putRecord"}])
    first = send(world.alice.api, "POST", "/v1/posts", world.body())
    (result,) = first.json()["results"]
    assert (first.status_code, first.json()["status"], result["status"]) == (202, "queued", "publishing")
    assert [note["code"] for note in result["warnings"]] == ["still_publishing"]
    world.server.wait(result["postId"], "published")
    again = send(world.alice.api, "POST", "/v1/posts", world.body())
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert world.alice.api.get(f"/v1/posts/{result['postId']}").json()["status"] == "published"


def test_a_replay_survives_a_restart(world: RequestCast) -> None:
    first = send(world.alice.api, "POST", "/v1/posts", world.body())
    world.server.restart(world.alice)
    second = send(world.alice.api, "POST", "/v1/posts", world.body())
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(world.server.lab.lab.ledger.posts()) == 1


def test_a_replay_outlives_the_account_and_the_time(world: RequestCast) -> None:
    """The checks of a request that was executed are over."""
    body = world.body(scheduledAt=world.soon())
    first = send(world.alice.api, "POST", "/v1/posts", body)
    world.server.service.write(lambda tx: Account.update(disconnected_at=1).execute()).result()
    world.server.clock.skip(7200)
    assert send(world.alice.api, "POST", "/v1/posts", body).content == first.content


def test_after_24_hours_the_key_is_free(world: RequestCast) -> None:
    first = send(world.alice.api, "POST", "/v1/posts", world.body())
    world.server.clock.skip(24 * 3600 - 5)
    assert send(world.alice.api, "POST", "/v1/posts", world.body()).content == first.content
    world.server.clock.skip(10)
    second = send(world.alice.api, "POST", "/v1/posts", world.body())
    assert "Idempotency-Replayed" not in second.headers
    assert second.json()["id"] != first.json()["id"]


def test_a_replay_costs_no_quota(world: RequestCast) -> None:
    for _ in range(3):
        send(world.alice.api, "POST", "/v1/posts", world.body())
    assert [row["posts"] for row in world.server.rows(Usage)] == [1]


def test_without_a_key_each_request_is_its_own(world: RequestCast) -> None:
    assert world.post().json()["id"] != world.post().json()["id"]
    assert wait_for(lambda: world.server.rows(IdempotencyRecord) == [], 60)


# --- What makes a request the same ---


def test_another_body_is_a_conflict_and_nothing_is_written(world: RequestCast) -> None:
    send(world.alice.api, "POST", "/v1/posts", world.body())
    with unchanged(world.server):
        for other in (world.body(text="other"), world.body(targets=[]), {}):
            answer = send(world.alice.api, "POST", "/v1/posts", other)
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (409, "idempotency_conflict")
            assert error["rule"] == "idempotency_key.body_mismatch"


def test_the_same_json_in_other_bytes_is_another_body(world: RequestCast) -> None:
    send(world.alice.api, "POST", "/v1/posts", world.body())
    spaced = json.dumps(world.body(), indent=1).encode()
    answer = world.alice.api.post("/v1/posts", content=spaced, headers={"Idempotency-Key": KEY})
    assert error_of(answer)["rule"] == "idempotency_key.body_mismatch"


def test_a_mismatch_is_told_before_the_body_is_looked_at(world: RequestCast) -> None:
    post = world.scheduled()
    send(world.alice.api, "PATCH", f"/v1/posts/{post}", {"scheduledAt": world.soon(7200)})
    for content in (b"{", b'{"scheduledAt":"never"}', b'{"nosuch":1}'):
        answer = world.alice.api.patch(f"/v1/posts/{post}", content=content, headers={"Idempotency-Key": KEY})
        assert error_of(answer)["rule"] == "idempotency_key.body_mismatch"


def test_method_and_path_have_keys_of_their_own(world: RequestCast) -> None:
    one, two = world.scheduled(), world.scheduled()
    to = {"scheduledAt": world.soon(7200)}
    answers = [
        send(world.alice.api, "PATCH", f"/v1/posts/{one}", to),
        send(world.alice.api, "PATCH", f"/v1/posts/{two}", to),
        send(world.alice.api, "DELETE", f"/v1/posts/{one}"),
        send(world.alice.api, "POST", "/v1/posts", world.body()),
    ]
    assert not [answer for answer in answers if "Idempotency-Replayed" in answer.headers or answer.is_error]


def test_a_key_of_another_user_or_for_other_accounts_is_another_key(world: RequestCast) -> None:
    owners = [sign_in(world.server, world.alice.organization, name=name) for name in ("ann", "ben")]
    request, same = {"name": "CI", "accounts": [world.alice.bluesky]}, {"Idempotency-Key": KEY}
    made = [owner.post("/v1/api-keys", json=request, headers=same).json()["key"] for owner in owners]
    assert made[0] != made[1]
    body = world.body(scheduledAt=world.soon())
    first, limited = (send(api, "POST", "/v1/posts", body) for api in (world.alice.api, world.server.api(made[0])))
    assert (first.status_code, limited.status_code) == (202, 202)
    assert first.json()["id"] != limited.json()["id"]


def test_another_profiles_key_and_another_organization_see_nothing(world: RequestCast) -> None:
    body = {"targets": [{"platform": "bluesky"}], "text": "mine"}
    batches = {
        send(person.api, "POST", "/v1/posts", body | {"targets": [{"accountId": person.bluesky}]}).json()["id"]
        for person in (world.alice, world.bob, world.charlie)
    }
    assert len(batches) == 3


def test_a_rotated_key_of_the_same_scope_keeps_its_replays(world: RequestCast) -> None:
    first = send(world.alice.api, "POST", "/v1/posts", world.body())
    second = world.server.person("Alice2", organization=world.alice.organization)
    again = send(second.api, "POST", "/v1/posts", world.body())
    assert again.content == first.content


# --- What leaves the key free ---


def refusals(world: RequestCast) -> list[tuple[ApiClient, dict[str, Any], int]]:
    nobody = world.server.api("svc_live_" + "0" * 49)
    return [
        (world.alice.api, {}, 400),
        (world.alice.api, world.body(targets=[]), 400),
        (world.alice.api, world.body(text="x" * 301), 400),
        (world.alice.api, world.body(targets=[{"accountId": world.charlie.bluesky}]), 404),
        (nobody, world.body(), 401),
    ]


def test_a_refused_request_leaves_the_key_free_for_a_corrected_one(world: RequestCast) -> None:
    for api, body, status in refusals(world):
        with unchanged(world.server):
            assert send(api, "POST", "/v1/posts", body).status_code == status
    assert send(world.alice.api, "POST", "/v1/posts", world.body()).json()["status"] == "published"


def test_a_409_leaves_the_key_free(world: RequestCast) -> None:
    post = world.scheduled()
    world.alice.api.delete(f"/v1/posts/{post}")
    for _ in range(2):
        answer = send(world.alice.api, "DELETE", f"/v1/posts/{post}")
        assert error_of(answer)["rule"] == "post.status"
    assert wait_for(lambda: world.server.rows(IdempotencyRecord) == [], 60)


def test_a_rate_limit_leaves_the_key_free(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(limits={"posts": 1}))
    world.post()
    assert send(world.alice.api, "POST", "/v1/posts", world.body()).status_code == 429
    world.server.clock.skip(61)
    answer = send(world.alice.api, "POST", "/v1/posts", world.body())
    assert (answer.status_code, answer.headers.get("Idempotency-Replayed")) == (200, None)


def test_a_bug_that_wrote_nothing_leaves_the_key_free(world: RequestCast) -> None:
    with unchanged(world.server), world.alice.api.expecting_failure():
        fault_injection.plan("now.before_commit=raise")
        answer = send(world.alice.api, "POST", "/v1/posts", world.body())
        fault_injection.plan("")
    assert answer.status_code == 500
    assert send(world.alice.api, "POST", "/v1/posts", world.body()).json()["status"] == "published"


def test_a_key_revoked_in_flight_writes_nothing(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    service, write_together = world.server.service, world.server.service.write_together

    def revoked_first(*what: Any) -> Any:
        service.write(lambda tx: ApiKey.update(revoked_at=1).where(ApiKey.id == world.alice.key_id).execute()).result()
        return write_together(*what)

    body = world.body()
    world.alice.api.get("/v1/posts")  # so that the key's last use is written down
    monkeypatch.setattr(service, "write_together", revoked_first)
    answer = send(world.alice.api, "POST", "/v1/posts", body)
    assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")
    assert world.server.rows(Post) == world.server.rows(IdempotencyRecord) == []


# --- Twins ---


def test_20_twins_at_once_are_one_execution_and_20_equal_answers(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "delay:0.2", "operation": "com.atproto.repo.putRecord"}])
    body = world.body()
    apis = [world.server.api(world.alice.key) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda api: send(api, "POST", "/v1/posts", body), apis))
    assert len({answer.content for answer in answers}) == 1
    assert {answer.status_code for answer in answers} == {200}
    assert answers[0].json()["status"] == "published"
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers].count("true") == 19
    assert len(world.server.lab.lab.ledger.posts()) == 1
    assert len(world.server.rows(Post)) == len(world.server.rows(Intent)) == 1
    assert [row["posts"] for row in world.server.rows(Usage)] == [1]


def test_20_twins_of_a_cancel_cancel_once(world: RequestCast) -> None:
    post = world.scheduled()
    apis = [world.server.api(world.alice.key) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda api: send(api, "DELETE", f"/v1/posts/{post}"), apis))
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, answers[0].content)}
    assert [type_ for type_, _ in world.server.events(post)].count("post.canceled") == 1


def test_a_twin_that_waits_too_long_is_told_so_and_the_first_goes_on(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "SAME_KEY_WAIT_SECONDS", 0.1)
    world.server.lab.lab.faults.add([{"fault": "delay:3", "operation": "com.atproto.repo.putRecord"}])
    world.server.lab.lab.calls.clear()
    body, slow = world.body(), world.server.api(world.alice.key)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, slow, "POST", "/v1/posts", body)
        while not world.server.rows(IdempotencyRecord):
            assert not first.done()
        answer = send(world.alice.api, "POST", "/v1/posts", body)
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (409, "idempotency_conflict")
        assert (error["rule"], answer.headers["Retry-After"]) == ("idempotency_key.in_progress", "5")
        other = send(world.alice.api, "POST", "/v1/posts", world.body(text="other"))
        assert error_of(other)["rule"] == "idempotency_key.body_mismatch"
        assert first.result().json()["status"] == "published"
    assert send(world.alice.api, "POST", "/v1/posts", body).content == first.result().content


def test_a_key_without_an_answer_never_lapses(world: RequestCast) -> None:
    """Its batch may yet be published: it is not forgotten while it runs."""
    send(world.alice.api, "POST", "/v1/posts", world.body())
    world.server.service.write(lambda tx: IdempotencyRecord.update(status=None, body=None).execute()).result()
    world.server.clock.skip(48 * 3600)
    world.server.service.write(lambda tx: idempotency.purge(tx, world.server.service.now_ms)).result()
    assert len(world.server.rows(IdempotencyRecord)) == 1


def test_request_killed_with_its_process_is_answered_from_the_rows(world: RequestCast) -> None:
    """The key was claimed with the batch; the next start completes the answer, and nothing is sent again."""
    first = send(world.alice.api, "POST", "/v1/posts", world.body())
    world.server.service.write(lambda tx: IdempotencyRecord.update(status=None, body=None).execute()).result()
    world.server.restart(world.alice)
    again = send(world.alice.api, "POST", "/v1/posts", world.body())
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(world.server.lab.lab.ledger.posts()) == 1


# --- What is kept ---


def test_the_key_itself_is_nowhere(world: RequestCast) -> None:
    send(world.alice.api, "POST", "/v1/posts", world.body(), key="a-key-that-nobody-guesses")
    (row,) = world.server.rows(IdempotencyRecord)
    assert "a-key-that-nobody-guesses" not in json.dumps(row)
    assert row["organization"] == world.alice.organization

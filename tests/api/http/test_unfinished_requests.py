"""Requests that end before their posts do: 202, waiting preferences, later results."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from socialpub.base import fault_injection
from socialpub.base.config import Settings
from socialpub.base.errors import rule_error
from socialpub.domain import post_states
from socialpub.domain.access import idempotency
from socialpub.domain.background import periodic_tasks, recovery
from socialpub.domain.posts import batches
from socialpub.store.engine import locks
from socialpub.store.schema.models import IdempotencyRecord, Post, Usage
from tests.support.app_server import AppServer, error_of, sleep_briefly
from tests.support.request_cast import RequestCast
from tests.support.unheard_requests import busy

NOW = {"Prefer": "respond-async"}


@pytest.fixture
def narrow(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    """A server with one thread for immediate posts, which `busy` occupies."""
    return world_of(make_server(publishing={"threads": 1, "workers": 1}))


def send(world: RequestCast, body: dict[str, Any], **headers: str) -> httpx.Response:
    return world.alice.api.post("/v1/posts", json=body, headers=headers)


def test_what_is_not_settled_is_202_queued_and_the_row_tells_the_end(narrow: RequestCast) -> None:
    with busy(narrow):
        answer = send(narrow, narrow.body(targets=[narrow.target(), narrow.target(text="two")]), **NOW)
    body = answer.json()
    assert (answer.status_code, body["status"]) == (202, "queued")
    assert "scheduledAt" not in body
    for result in body["results"]:
        assert result["status"] == "publishing"
        assert [note["code"] for note in result["warnings"]] == ["still_publishing"]
        assert "error" not in result
        narrow.server.wait(result["postId"], "published")
    ended = narrow.alice.api.get(answer.headers["Location"]).json()
    assert ended["status"] == "published"
    assert {post["postId"] for post in ended["results"]} == {result["postId"] for result in body["results"]}
    assert {post["status"] for post in ended["results"]} == {"published"}


OPEN, DONE, FAILED = ("validated", "publishing"), "published", ("failed", "rejected", "canceled")


@pytest.mark.matrix
@pytest.mark.parametrize("mix", list(itertools.product(["open", "done", "failed"], repeat=3)), ids="-".join)
def test_only_a_failure_makes_a_batch_look_failed(mix: tuple[str, ...], narrow: RequestCast) -> None:
    states = {"open": OPEN[1], "done": DONE, "failed": FAILED[mix.count("failed") % 3]}
    with busy(narrow):
        targets = [narrow.target(text=str(n)) for n in range(3)]
        batch = send(narrow, narrow.body(targets=targets), **NOW).json()
        for result, state in zip(batch["results"], mix, strict=True):
            _put(narrow, result["postId"], states[state])
        service = narrow.server.service
        body = service.read(lambda: batches.load_body(batch["id"])).result()
    wanted = {0: "queued" if "open" in mix else "published", 3: "failed"}.get(mix.count("failed"), "partial_failed")
    assert body["status"] == wanted
    assert batches.build_response(body).status == (202 if wanted == "queued" else 200)


def _put(world: RequestCast, post: str, status: str) -> None:
    world.server.service.write(lambda tx: Post.update(status=status).where(Post.id == post).execute()).result()


def test_every_state_of_a_post_is_in_the_mix_above() -> None:
    assert {*OPEN, DONE, *FAILED, "queued"} == {"queued", "validated", "publishing"} | post_states.TERMINAL_STATES


def test_the_wait_is_25_seconds_unless_it_is_set_otherwise() -> None:
    assert Settings().publishing.immediate_wait == 25


def test_the_kept_answer_is_the_one_that_was_given(narrow: RequestCast) -> None:
    with busy(narrow):
        first = send(narrow, narrow.body(), **NOW, **{"Idempotency-Key": "k"})
    narrow.server.wait(first.json()["results"][0]["postId"], "published")
    again = send(narrow, narrow.body(), **{"Idempotency-Key": "k"})
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Preference-Applied" not in again.headers


# --- Prefer ----------------------------------------------------------------------------------------------------------

PREFERENCES: list[tuple[str, str | None]] = [
    ("respond-async", "respond-async"),
    ("Respond-Async", "respond-async"),
    ("handling=lenient, respond-async; x=1", "respond-async"),
    ("wait=1", "wait=1"),
    ('WAIT = "1" ; for=me', "wait=1"),
    ("respond-async, wait=1", "wait=1"),
    ("wait=1, wait=50", "wait=1"),
    (",, wait=1", "wait=1"),
]
IGNORED = [
    "",
    "wait",
    "wait=0",
    "wait=56",
    "wait=-1",
    "wait=1.5",
    "wait=ten",
    "wait==1",
    "wait=1 2",
    "respond-async=no",
]
IGNORED += ["wait=" + "9" * 400, '"wait=1', "wait=1;;=;", ";" * 4000, "nonsense", "respond-async/"]


def test_a_preference_is_followed_and_said_to_be(subtests: pytest.Subtests, narrow: RequestCast) -> None:
    for preference, applied in PREFERENCES:
        with subtests.test(preference=preference, applied=applied):
            with busy(narrow):
                answer = send(narrow, narrow.body(), Prefer=preference)
            assert (answer.status_code, answer.headers["Preference-Applied"]) == (202, applied)


def test_preferences_of_several_headers_are_one_list(narrow: RequestCast) -> None:
    headers = [("Prefer", "return=minimal"), ("Prefer", "respond-async")]
    with busy(narrow):
        answer = narrow.alice.api.post("/v1/posts", json=narrow.body(), headers=headers)
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (202, "respond-async")


def test_what_is_malformed_or_out_of_range_is_ignored(subtests: pytest.Subtests, world: RequestCast) -> None:
    for preference in IGNORED:
        with subtests.test(preference=preference):
            answer = send(world, world.body(), Prefer=preference)
            assert (answer.status_code, answer.json()["status"]) == (200, "published")
            assert "Preference-Applied" not in answer.headers


def test_a_longer_wait_than_the_servers_is_waited(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(publishing={"immediate_wait": 0.1, "workers": 4}))
    world.server.lab.lab.faults.add([{"fault": "delay:0.4", "operation": "com.atproto.repo.putRecord", "times": 1}])
    answer = send(world, world.body(), Prefer="wait=55")
    assert (answer.status_code, answer.json()["status"]) == (200, "published")


def test_a_scheduled_batch_has_its_location_too(world: RequestCast) -> None:
    answer = send(world, world.body(scheduledAt=world.soon()), Prefer="wait=5")
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/v1/batches/{answer.json()['id']}")


# --- After a batch was accepted, its answer is the batch ---------------------------------------------------------


@contextmanager
def locked(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another process holds the lock of all writes."""
    file = locks.open_lock(locks.get_write_lock_path(world.server.service.db.path))
    with contextlib.closing(file), locks.hold(file):
        monkeypatch.setattr(locks, "LOCK_SECONDS", 0.05)
        yield


def accepted(world: RequestCast) -> str:
    """The id of the post, once a batch is committed."""
    while not (rows := world.server.rows(Post)):
        sleep_briefly()
    return str(rows[0]["id"])


@pytest.mark.parametrize("key", [None, "k"])
def test_while_unwritable_after_acceptance_the_response_is_the_batch(
    key: str | None, world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the write lock from just after the send until long after the answer."""
    sent = threading.Event()
    monkeypatch.setitem(fault_injection._ACTIONS, "hang", sent.wait)
    fault_injection.plan("pub.before_result=hang@1")
    headers = {"Prefer": "wait=1"} | ({"Idempotency-Key": key} if key else {})
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(send(world, world.body(), **headers)))
    thread.start()
    while not world.server.lab.lab.ledger.posts():
        sleep_briefly()
    with locked(world, monkeypatch):
        sent.set()
        thread.join()
    fault_injection.plan("")
    (answer,) = answers
    (result,) = answer.json()["results"]
    assert (answer.status_code, answer.json()["status"], result["status"]) == (202, "queued", "publishing")
    world.server.wait(result["postId"], "published")
    assert len(world.server.lab.lab.ledger.posts()) == 1
    assert [row["posts"] for row in world.server.rows(Usage)] == [1]


def test_an_answer_that_could_not_be_kept_is_kept_soon(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk between the acceptance and the answer: its key is not "in progress" for minutes."""
    real = idempotency.store_response

    def full(*_: object) -> None:
        raise rule_error("storage.unavailable")

    monkeypatch.setattr(idempotency, "store_response", full)
    first = send(world, world.body(), **{"Idempotency-Key": "k"})
    assert (first.status_code, [row["status"] for row in world.server.rows(IdempotencyRecord)]) == (200, [None])
    monkeypatch.setattr(idempotency, "store_response", real)
    recovery.retry_unstored_responses(world.server.service)
    while world.server.rows(IdempotencyRecord)[0]["status"] is None:
        sleep_briefly()
    again = send(world, world.body(), **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert (world.server.service.lost.unstored, len(world.server.lab.lab.ledger.posts())) == (set(), 1)


def test_an_answer_that_could_not_be_kept_is_kept_by_the_sweep(world: RequestCast) -> None:
    first = send(world, world.body(), **{"Idempotency-Key": "k"})
    world.server.service.write(lambda tx: IdempotencyRecord.update(status=None, body=None).execute()).result()
    world.server.skip(600)
    periodic_tasks.sweep(world.server.service, world.server.engine.fetched)
    while world.server.rows(IdempotencyRecord)[0]["status"] is None:
        sleep_briefly()
    again = send(world, world.body(), **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert len(world.server.lab.lab.ledger.posts()) == 1


def test_unfinished_batch_completed_by_the_sweep_keeps_its_status(narrow: RequestCast) -> None:
    scheduled = send(narrow, narrow.body(scheduledAt=narrow.soon()), **{"Idempotency-Key": "k"})
    assert [row["status"] for row in narrow.server.rows(IdempotencyRecord)] == [202]
    assert send(narrow, narrow.body(scheduledAt="x"), **{"Idempotency-Key": "k"}).status_code == 409
    assert scheduled.json()["status"] == "queued"


def test_while_unreadable_the_response_is_the_batch_as_accepted(
    narrow: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is gone bad beneath the readers, just after the commit."""
    real, broken = batches.load_body, threading.Event()

    def read(*args: Any) -> Any:
        if broken.is_set():
            raise sqlite3.DatabaseError("database disk image is malformed")
        broken.set()
        return real(*args)

    monkeypatch.setattr(batches, "load_body", read)
    with busy(narrow):
        answer = send(narrow, narrow.body(), **NOW)
    monkeypatch.undo()
    body = answer.json()
    assert (answer.status_code, body["status"], body["results"][0]["status"]) == (202, "queued", "publishing")
    narrow.server.wait(body["results"][0]["postId"], "published")


def test_a_stop_answers_who_still_waits_with_the_batch(narrow: RequestCast) -> None:
    answers: list[httpx.Response] = []
    with busy(narrow):
        thread = threading.Thread(target=lambda: answers.append(send(narrow, narrow.body())))
        thread.start()
        accepted(narrow)
        narrow.server.service.waiting.close()
        thread.join()
    assert (answers[0].status_code, answers[0].json()["status"]) == (202, "queued")


def test_refusal_before_acceptance_still_says_nothing_was_changed(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(world, monkeypatch), world.alice.api.expecting_failure():
        answer = send(world, world.body())
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "storage.unavailable")
    assert "Nothing was changed" in error_of(answer)["remediation"]
    assert world.server.rows(Post) == []


def test_late_response_does_not_say_that_nothing_was_changed(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    """Sanic's own time limit is the last resort: nobody knows then what was done."""
    world = world_of(make_server(publishing={"threads": 1, "workers": 1}))
    world.server.restart(world.alice, RESPONSE_TIMEOUT=0.5)
    with busy(world), world.alice.api.expecting_failure():
        answer = send(world, world.body())
    assert answer.status_code == 503
    assert "nothing was changed" not in json.dumps(answer.json()).lower()
    assert "may still be carried out" in error_of(answer)["remediation"]

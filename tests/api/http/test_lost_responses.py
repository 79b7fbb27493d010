"""A repeated request joins the batch whose response never arrived."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sanic.exceptions import ServerError

from socialpub.base import fault_injection
from socialpub.domain.access import lost_responses
from socialpub.domain.background import periodic_tasks
from socialpub.store.schema.models import Organization, Post, UnacknowledgedRequest, Usage
from socialpub.web.server import ServerProtocol
from tests.support import raw_http
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for
from tests.support.unheard_requests import busy, bytes_of, drop

JOINED = "joined_undelivered_batch"


def send(world: RequestCast, person: Person, body: dict[str, Any]) -> httpx.Response:
    """The same bytes as `drop` sends."""
    return person.api.post("/v1/posts", content=json.dumps(body).encode())


def forgotten(world: RequestCast) -> None:
    """No answer is owed any more: what was heard is written a little later."""
    assert wait_for(lambda: world.server.rows(UnacknowledgedRequest) == [], 60)


def is_joined(answer: httpx.Response) -> bool:
    told = [[note["code"] for note in result.get("warnings", [])] for result in answer.json()["results"]]
    marked = answer.headers.get("Idempotency-Replayed") == "true"
    assert {JOINED in codes for codes in told} == {marked}
    return marked


def posts(world: RequestCast) -> int:
    return len(world.server.rows(Post))


def test_a_request_whose_answer_nobody_heard_is_joined_by_the_same_again(narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
    answer = send(narrow, narrow.alice, narrow.body())
    assert (answer.status_code, answer.json()["status"], is_joined(answer)) == (200, "published", True)
    assert answer.headers["Location"] == f"/v1/batches/{answer.json()['id']}"
    assert len(narrow.server.lab.lab.ledger.posts()) == posts(narrow) == 1
    assert [row["posts"] for row in narrow.server.rows(Usage)] == [1]


def test_while_the_first_still_runs_the_second_waits_for_it(narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
        answer = narrow.alice.api.post(
            "/v1/posts", content=json.dumps(narrow.body()).encode(), headers={"Prefer": "wait=1"}
        )
    assert (answer.status_code, answer.json()["status"], is_joined(answer)) == (202, "queued", True)
    assert posts(narrow) == 1


def test_once_its_answer_was_heard_a_batch_is_joined_no_more(narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
    assert is_joined(send(narrow, narrow.alice, narrow.body()))
    assert not is_joined(send(narrow, narrow.alice, narrow.body()))
    assert posts(narrow) == 2
    forgotten(narrow)


def test_who_joins_and_goes_too_is_joined_again(narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
        line = raw_http.connect(narrow.server)
        line.sendall(bytes_of(narrow, narrow.alice, narrow.body()))
        while not narrow.server.service.waiting._waiting:
            sleep_briefly()
        line.close()
    assert is_joined(send(narrow, narrow.alice, narrow.body()))
    assert posts(narrow) == 1


def test_two_honest_requests_are_two_batches(world: RequestCast) -> None:
    answers = [send(world, world.alice, world.body()) for _ in range(3)]
    assert len({answer.json()["id"] for answer in answers}) == 3
    assert not any(is_joined(answer) for answer in answers)
    forgotten(world)
    assert world.server.service.lost.undelivered == {}


def test_twins_at_once_whose_clients_wait_are_two_batches(narrow: RequestCast) -> None:
    answers: list[httpx.Response] = []
    apis = [narrow.server.api(narrow.alice.key) for _ in range(2)]
    content = json.dumps(narrow.body()).encode()
    with busy(narrow):
        threads = [
            threading.Thread(target=lambda api=api: answers.append(api.post("/v1/posts", content=content)))
            for api in apis
        ]
        for thread in threads:
            thread.start()
        while posts(narrow) < 2:
            sleep_briefly()
    for thread in threads:
        thread.join()
    assert len({answer.json()["id"] for answer in answers}) == 2
    assert not any(is_joined(answer) for answer in answers)


def test_another_body_another_key_and_another_scope_join_nothing(narrow: RequestCast) -> None:
    second = narrow.server.person("Alice2", organization=narrow.alice.organization)
    with busy(narrow):
        drop(narrow, narrow.body())
    others = [
        narrow.alice.api.post("/v1/posts", content=json.dumps(narrow.body(), indent=1).encode()),
        send(narrow, narrow.alice, narrow.body(text="other")),
        send(narrow, second, narrow.body()),
        narrow.alice.api.post(
            "/v1/posts", content=json.dumps(narrow.body()).encode(), headers={"Idempotency-Key": "k"}
        ),
    ]
    assert not [answer for answer in others if answer.status_code != 200 or is_joined(answer)]
    assert posts(narrow) == 5
    assert is_joined(send(narrow, narrow.alice, narrow.body()))


@pytest.mark.parametrize(("seconds", "joins"), [(290, True), (310, False)])
def test_it_is_joined_for_5_minutes(seconds: int, joins: bool, narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
    narrow.server.wait(narrow.server.rows(Post)[0]["id"], "published")
    narrow.server.clock.skip(seconds)
    assert is_joined(send(narrow, narrow.alice, narrow.body())) is joins


def test_what_counts_no_more_is_forgotten(narrow: RequestCast) -> None:
    with busy(narrow):
        drop(narrow, narrow.body())
    narrow.server.wait(narrow.server.rows(Post)[0]["id"], "published")
    narrow.server.clock.skip(lost_responses.WINDOW_MS / 1000 + 1)
    with busy(narrow):
        drop(narrow, narrow.body(text="two"))
    periodic_tasks.sweep(narrow.server.service, narrow.server.engine.fetched)
    assert len(narrow.server.service.lost.undelivered) == len(narrow.server.rows(UnacknowledgedRequest)) == 1


def test_a_scheduled_batch_is_joined_too(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is ready at once: the client is gone when it is to be sent."""
    body = world.body(scheduledAt=world.soon())
    gate, entered = threading.Event(), threading.Event()
    monkeypatch.setitem(fault_injection._ACTIONS, "hang", lambda: entered.set() or gate.wait())
    fault_injection.plan("sched.before_commit=hang@1")
    line = raw_http.connect(world.server)
    line.sendall(bytes_of(world, world.alice, body))
    entered.wait()
    line.close()
    while not world.server.service.lost.undelivered:
        sleep_briefly()
    gate.set()
    fault_injection.plan("")
    answer = send(world, world.alice, body)
    assert (answer.status_code, answer.json()["status"], is_joined(answer)) == (202, "queued", True)
    assert posts(world) == 1


def test_a_request_that_died_with_its_server_is_joined_after_the_restart(narrow: RequestCast) -> None:
    """Killed: nobody could say any more that the answer was not heard."""
    with busy(narrow):
        drop(narrow, narrow.body())
    narrow.server.wait(narrow.server.rows(Post)[0]["id"], "published")
    narrow.server.restart(narrow.alice)
    assert narrow.server.service.lost.undelivered == {}
    assert is_joined(send(narrow, narrow.alice, narrow.body()))
    assert not is_joined(send(narrow, narrow.alice, narrow.body()))


def test_an_answer_that_was_heard_is_not_joined_after_a_restart(world: RequestCast) -> None:
    send(world, world.alice, world.body())
    world.server.restart(world.alice)
    assert not is_joined(send(world, world.alice, world.body()))


def test_client_gone_during_the_response_is_owed_it_again(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is seen only by the send."""
    handed = threading.Event()

    async def gone(*_: Any, **__: Any) -> None:
        handed.set()
        raise ServerError("Response stream was ended, no more response data is allowed to be sent.")

    with monkeypatch.context() as patch:
        patch.setattr(ServerProtocol, "send", gone)
        with raw_http.connect(world.server) as line:
            line.sendall(bytes_of(world, world.alice, world.body()))
            assert handed.wait(60)
        assert wait_for(lambda: bool(world.server.service.lost.undelivered), 60)
    assert is_joined(send(world, world.alice, world.body()))
    assert posts(world) == 1


def test_it_can_be_switched_off(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(publishing={"threads": 1, "workers": 1, "join_undelivered": False}))
    with busy(world):
        drop(world, world.body(), None, "X-Nothing: 1")
    assert not is_joined(send(world, world.alice, world.body()))
    assert posts(world) == 2


def test_an_exhausted_quota_is_no_reason_not_to_join(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(publishing={"threads": 1, "workers": 1}, billing={"free": 1}))
    world.server.service.write(lambda tx: Organization.update(tier="free").execute()).result()
    with busy(world):
        drop(world, world.body())
    assert is_joined(send(world, world.alice, world.body()))
    assert send(world, world.alice, world.body()).status_code == 402

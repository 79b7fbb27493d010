"""First comment as a separate step: faults, refusals, restarts, no duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.base.http import client
from socialpub.domain.accounts.connector_session import StorageError
from socialpub.domain.publishing import intents, run
from socialpub.simulator.faults import FAULT_KINDS
from socialpub.store.schema.models import Intent
from tests.support.app_server import AppServer, Person
from tests.support.soak.soak_world import wait_for

DETAILS = {"delay": ":0.1", "status": ":500", "late_effect": ":0.2"}
HANGING = ("slow", "late_effect")


@pytest.fixture
def server(open_shared: Callable[..., AppServer]) -> AppServer:
    return open_shared()


@pytest.fixture(autouse=True)
def without_faults() -> Iterator[None]:
    yield
    fault_injection.plan("")


def publish(person: Person) -> dict[str, Any]:
    body = {"text": "main", "firstComment": {"text": "comment"}, "targets": [{"accountId": person.bluesky}]}
    return dict(person.api.publish(body).json()["results"][0])


def ledger(server: AppServer) -> list[tuple[str, str | None]]:
    return [(entry.kind, entry.text) for entry in server.lab.lab.ledger.posts()]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_on_the_comment_doubles_neither(
    server: AppServer, alice: Person, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in HANGING:  # the test waits as long, and so does each of its other calls at most
        monkeypatch.setattr(client, "CALL_SECONDS", 5.0)
    fault = {"fault": kind + DETAILS.get(kind, ""), "platform": "bluesky", "operation": "*putRecord", "nth": 2}
    server.lab.lab.faults.add([fault])
    result = publish(alice)
    assert result["status"] == "published"
    assert ledger(server) == [("post", "main"), ("comment", "comment")]
    assert result["firstCommentUri"] == server.lab.lab.ledger.posts()[1].remote_id


def test_a_comment_that_is_refused_is_a_warning(server: AppServer, alice: Person) -> None:
    fault = {"fault": "status:429", "platform": "bluesky", "operation": "*putRecord", "nth": 2}
    server.lab.lab.faults.add([fault])
    result = publish(alice)
    assert result["status"] == "published"
    assert [warning["code"] for warning in result["warnings"]] == ["first_comment_failed"]
    assert ledger(server) == [("post", "main")]


@pytest.mark.matrix
@pytest.mark.parametrize("point", ["after_intent", "after_reply", "before_result"])
def test_a_bug_around_the_comment_doubles_neither(server: AppServer, alice: Person, point: str) -> None:
    fault_injection.plan(f"comment.{point}=raise@1")
    result = publish(alice)
    assert result["status"] == "published"
    assert ledger(server) == [("post", "main"), ("comment", "comment")]


@pytest.mark.parametrize("point", ["comment.after_intent", "comment.after_reply"])
def test_a_restart_between_post_and_comment_sends_the_post_once(server: AppServer, alice: Person, point: str) -> None:
    """The process ends at this point, as far as the rows can tell: the result cannot be written any more."""
    fault_injection.plan(f"{point}=enospc@1")
    publish(alice)
    fault_injection.plan("")
    server.restart(alice)
    assert wait_for(lambda: [row["status"] for row in server.rows(account=alice.bluesky)] == ["published"], 60)
    assert ledger(server) == [("post", "main"), ("comment", "comment")]


def test_a_restart_before_the_comment_is_planned_sends_the_post_once(
    make_server: Callable[..., AppServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows tell that the post is published, and no send is open."""
    server = make_server(publishing={"immediate_wait": 0.2})
    alice = server.connected_person("Alice")

    def end(self: object, published: object) -> None:
        raise StorageError("the process ends")

    with monkeypatch.context() as patched:
        patched.setattr(run._PublishRun, "_comment", end)
        assert publish(alice)["status"] == "publishing"
        assert wait_for(lambda: [row["outcome"] for row in server.rows(Intent)] == ["ok"], 30)
        assert wait_for(lambda: not server.service.jobs.is_busy, 30)
    server.restart(alice)
    assert wait_for(lambda: [row["status"] for row in server.rows(account=alice.bluesky)] == ["published"], 30)
    assert ledger(server) == [("post", "main"), ("comment", "comment")]


def test_a_bug_between_post_and_comment_never_calls_the_post_failed(server: AppServer, alice: Person) -> None:
    fault_injection.plan("pub.after_result=raise@1")
    result = publish(alice)
    assert (result["status"], result["uri"]) == ("published", server.lab.lab.ledger.posts()[0].remote_id)
    assert [warning["code"] for warning in result["warnings"]] == ["first_comment_failed"]
    assert ledger(server) == [("post", "main")]


def test_a_plan_is_kept_until_nobody_asks_for_it(server: AppServer, alice: Person) -> None:
    """The comment's platform wants the plan of the post; what is published is told by the post's own row."""
    result = publish(alice)
    assert result["status"] == "published"
    comment, main = sorted(server.rows(Intent, post=result["postId"]), key=lambda row: row["step"])
    assert '"text": "main"' in main["plan"]
    assert intents.hash_remote_id(json.loads(main["result"])["uri"]) == main["remote"]
    body = {"text": "alone", "targets": [{"accountId": alice.bluesky}]}
    alice.api.publish(body)
    alone = server.rows(Intent)[-1]
    for last in (comment, alone):
        assert (last["outcome"], last["plan"], last["result"]) == ("ok", "", None)
        assert last["remote"]


def test_the_plan_of_what_is_not_published_stays(server: AppServer, alice: Person) -> None:
    fault = {"fault": "status:400", "platform": "bluesky", "operation": "*putRecord", "nth": 1}
    server.lab.lab.faults.add([fault])
    result = publish(alice)
    assert result["status"] == "rejected"
    (intent,) = server.rows(Intent, post=result["postId"])
    assert json.loads(intent["plan"])["record"]["text"] == "main"

"""Publishing protocol over HTTP: every simulator fault, in all three send classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.base.http import client
from socialpub.domain.publishing import run as publish
from socialpub.domain.publishing.intents import LostClaimError
from socialpub.simulator.faults import FAULT_KINDS
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Attempt, IdempotencyRecord, Intent, Job
from tests.support.app_server import error_of, format_instant
from tests.support.publishing_protocol import CLASSES, ProtocolServer
from tests.support.shared_server import SharedServer
from tests.support.soak.soak_world import wait_for

UNKNOWN = "publish.outcome_unknown"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, three: SimulatorThread) -> Iterator[SharedServer]:
    shared = SharedServer(tmp_path_factory.mktemp("protocol"), ProtocolServer)
    yield shared
    shared.close()


@pytest.fixture
def server(three: SimulatorThread, shared: SharedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProtocolServer]:
    """The module's server, with new accounts of a new Alice."""
    monkeypatch.setattr(client, "CALL_SECONDS", 2.5)
    three.lab.reset()
    overrides = {"publishing": {"settle_horizon": 4, "retry_waits": [0.2, 0.4]}, "scheduling": {"overdue_spacing": 0}}
    server = shared.open(three, **overrides)
    server.late = False
    server.furnish()
    yield server
    fault_injection.plan("")
    three.lab.reset()


@pytest.fixture
def fresh(shared: SharedServer) -> None:
    """For tests that stop the server: at each stop everything that tests have left is searched for secrets."""
    shared.close()


stopping = pytest.mark.usefixtures("fresh")


# --- One fault on the public call ------------------------------------------------------------------------------------

DETAILS = {"delay": ":0.1", "status": ":500", "late_effect": ":0.2"}
ONE_FAULT = [(platform, kind + DETAILS.get(kind, "")) for platform in CLASSES for kind in FAULT_KINDS]
NO_EFFECT = {name for name, kind in FAULT_KINDS.items() if not kind.effect}


@pytest.mark.matrix
@pytest.mark.parametrize("platform, fault", ONE_FAULT, ids=lambda value: str(value))
def test_one_fault_neither_loses_nor_doubles(server: ProtocolServer, platform: str, fault: str) -> None:
    server.fault(platform, fault)
    result = server.publish(platform, "one fault")
    kind = fault.partition(":")[0]
    if platform == "plain" and kind in NO_EFFECT:
        assert (result["status"], result["error"]["rule"]) == ("failed", UNKNOWN)
        assert server.ledger("one fault") == []
    else:
        assert result["status"] == "published", result
        assert server.ledger("one fault") == [result["uri"]]
    if platform == "plain":
        assert server.sends("plain") == 1


@pytest.mark.parametrize(
    "platform, status, code, ended",
    [
        ("bluesky", 429, "platform_unavailable", "failed"),
        ("crate", 429, "platform_unavailable", "failed"),
        ("plain", 429, "platform_unavailable", "failed"),
        ("crate", 422, "platform_rejected", "rejected"),
        ("plain", 422, "platform_rejected", "rejected"),
        ("crate", 401, "platform_auth_failed", "rejected"),
        ("plain", 401, "platform_auth_failed", "rejected"),
    ],
)
def test_a_clear_refusal_is_known_not_to_be_there(
    server: ProtocolServer, platform: str, status: int, code: str, ended: str
) -> None:
    server.fault(platform, f"status:{status}")
    result = server.publish(platform, "refused")
    assert (result["status"], result["error"]["code"]) == (ended, code)
    assert server.ledger("refused") == []
    assert server.sends(platform) == 1


@pytest.mark.parametrize("status", [401, 422, 429])
def test_a_container_that_refuses_is_asked_and_may_have_done_it(server: ProtocolServer, status: int) -> None:
    server.fault("crate", f"status:{status}", effect=True)
    result = server.publish("crate", "refused, and there")
    assert result["status"] == "published"
    assert server.ledger("refused, and there") == [result["uri"]]
    assert server.sends("crate") == 1


@pytest.mark.parametrize("platform, sends", [("bluesky", 3), ("crate", 4), ("plain", 1)])
def test_an_error_for_ever_ends_after_the_sends_that_the_class_allows(
    server: ProtocolServer, platform: str, sends: int
) -> None:
    server.fault(platform, "status:500", times=99)
    result = server.publish(platform, "for ever")
    assert result["status"] == "failed"
    assert (result["error"].get("rule") == UNKNOWN) == (platform == "plain")
    assert server.ledger("for ever") == []
    assert server.sends(platform) == sends


def test_a_refusal_of_a_repeat_says_nothing_about_the_send_before_it(server: ProtocolServer) -> None:
    """Sent, answer lost, not found at once; the repeat is refused; then the first takes effect."""
    server.fault("bluesky", "late_effect:1.5")
    server.fault("bluesky", "status:429")
    result = server.publish("bluesky", "late")
    assert result["status"] == "published"
    assert server.ledger("late") == [result["uri"]]


# --- Looking -------------------------------------------------------------------------------------------------------


def test_the_list_is_paged_beyond_the_time_of_the_intent(server: ProtocolServer) -> None:
    server.lab.lab.configure(list_limit=2)
    server.fault("plain", "reset_after")
    others = [f"other {number}" for number in range(7)]
    target = server.alice.accounts["plain"]
    body = [{"accountId": target["id"], "text": text} for text in ("first", *others)]
    with server.pace():
        results = server.alice.api.publish({"targets": body}).json()["results"]
    assert [result["status"] for result in results] == ["published"] * 8
    assert server.ledger("first") == [results[0]["uri"]]


def test_a_list_that_lags_behind_is_looked_at_again(server: ProtocolServer) -> None:
    server.lab.lab.configure(list_lag_ms=1500)
    server.fault("plain", "reset_after")
    result = server.publish("plain", "lagging")
    assert result["status"] == "published"
    assert server.sends("plain") == 1


def test_what_belongs_to_another_post_is_not_taken_for_this_one(server: ProtocolServer) -> None:
    first = server.publish("plain", "same words")
    server.fault("plain", "reset_before")
    second = server.publish("plain", "same words")
    assert first["status"] == "published"
    assert (second["status"], second["error"]["rule"]) == ("failed", UNKNOWN)


def test_identical_posts_with_lost_responses_are_not_matched_by_guessing(server: ProtocolServer) -> None:
    server.fault("plain", "reset_before")
    server.fault("plain", "reset_after")
    target = {"accountId": server.alice.accounts["plain"]["id"]}
    with server.pace():
        answer = server.alice.api.publish({"text": "twins", "targets": [target, target]}).json()
    assert [result["error"]["rule"] for result in answer["results"]] == [UNKNOWN, UNKNOWN]
    assert len(server.ledger("twins")) == 1


# --- Unknown, and what a person makes of it --------------------------------------------------------------------------


@pytest.fixture
def unknown(server: ProtocolServer) -> str:
    """A post whose answer was lost and that was not found."""
    server.fault("plain", "reset_before")
    result = server.publish("plain", "who knows")
    assert result["error"]["rule"] == UNKNOWN
    return str(result["postId"])


def test_unknown_tells_when_and_where_to_look(server: ProtocolServer, unknown: str) -> None:
    error = server.alice.api.get(f"/v1/posts/{unknown}").json()["error"]
    name = server.alice.accounts["plain"]["displayName"]
    assert error["code"] == "platform_unavailable"
    assert "was sent to Plain at 20" in error["message"]
    assert name in error["remediation"]
    assert f"POST /v1/posts/{unknown}/settle" in error["remediation"]


def test_unknown_is_not_sent_again_by_the_server(server: ProtocolServer, unknown: str) -> None:
    server.restart(server.alice)
    server.skip(7200)
    assert server.alice.api.post(f"/v1/posts/{unknown}/retry", json={}).status_code == 409
    assert server.rows(Job) == []
    assert server.sends("plain") == 1


def test_a_person_who_found_it_makes_it_published(server: ProtocolServer, unknown: str) -> None:
    body = {"published": True, "uri": "https://plain.example/1"}
    settled = server.alice.api.post(f"/v1/posts/{unknown}/settle", json=body).json()
    assert (settled["status"], settled["platformUri"]) == ("published", "https://plain.example/1")
    assert [name for name, _ in server.events(unknown)][-1] == "post.published"
    by = json.loads(server.intent(unknown)["settled_by"])
    assert (by["key"], by["published"]) == (server.alice.key_id, True)


def test_a_person_who_did_not_find_it_may_have_it_sent_again(server: ProtocolServer, unknown: str) -> None:
    settled = server.alice.api.post(f"/v1/posts/{unknown}/settle", json={"published": False}).json()
    assert settled["status"] == "failed"
    assert "rule" not in settled["error"]
    assert server.alice.api.post(f"/v1/posts/{unknown}/retry", json={}).status_code == 202
    assert server.ended(unknown)["status"] == "published"
    assert len(server.ledger("who knows")) == 1
    assert [row["number"] for row in server.rows(Attempt, post=unknown)] == [1, 2]


def test_only_what_is_unknown_can_be_settled(server: ProtocolServer) -> None:
    post = server.publish("plain", "clear")["postId"]
    refused = server.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True})
    assert (refused.status_code, error_of(refused)["rule"]) == (409, "post.settle.status")


# --- Scheduled posts -------------------------------------------------------------------------------------------------


def later(server: ProtocolServer, platform: str, text: str) -> str:
    """A post that is due in a minute of the server's clock."""
    return str(server.publish(platform, text, scheduledAt=format_instant(server.clock.now_ms() + 60_000))["postId"])


def schedule(server: ProtocolServer, platform: str, text: str) -> str:
    """A post whose time has come."""
    post = later(server, platform, text)
    server.skip(60)
    return post


@pytest.mark.parametrize("platform", CLASSES)
def test_scheduled_post_is_retried_after_a_known_non_effect(server: ProtocolServer, platform: str) -> None:
    server.fault(platform, "status:429")
    post = schedule(server, platform, "again")
    assert server.ended(post)["status"] == "published"
    assert len(server.ledger("again")) == 1
    told = [(name, data.get("willRetry")) for name, data in server.events(post)][2:]
    assert told == [("post.failed", True), ("post.published", None)]


def test_an_unknown_outcome_of_a_scheduled_post_is_not_tried_again(server: ProtocolServer) -> None:
    server.fault("plain", "reset_before")
    post = schedule(server, "plain", "lost")
    assert json.loads(server.ended(post)["error"])["rule"] == UNKNOWN
    assert server.sends("plain") == 1


# --- Storage and bugs in the middle ----------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("platform", CLASSES)
def test_a_result_is_kept_until_it_can_be_written(
    server: ProtocolServer, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "WRITE_RETRY_WAITS", (0.1, 0.1, 0.2, 0.3))
    server.fault(platform, "delay:1")
    post = schedule(server, platform, "full disk")
    assert wait_for(lambda: server.sends(platform) == 1, 60, 0.01)
    fault_injection.plan("db.commit=enospc")
    assert wait_for(lambda: server.ledger("full disk"), 60, 0.01)
    fault_injection.plan("db.commit=enospc@1-4")
    assert server.ended(post)["status"] == "published"
    assert (len(server.ledger("full disk")), server.sends(platform)) == (1, 1)


@pytest.mark.matrix
@pytest.mark.parametrize("platform", CLASSES)
def test_nothing_is_sent_while_its_intent_cannot_be_written(server: ProtocolServer, platform: str) -> None:
    post = later(server, platform, "no intent")
    fault_injection.plan("db.commit=enospc")
    server.skip(60)
    assert not wait_for(lambda: server.sends(platform), 2)
    with server.alice.api.expecting_failure():
        refused = server.alice.api.publish({"text": "x", "targets": [{"accountId": server.alice.bluesky}]})
    assert (refused.status_code, error_of(refused)["rule"]) == (503, "storage.unavailable")
    assert refused.headers["Retry-After"] == "5"
    assert server.alice.api.get(f"/v1/posts/{post}").json()["status"] == "queued"
    fault_injection.plan("")
    assert server.ended(post)["status"] == "published"
    assert len(server.ledger("no intent")) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("point", ["pub.after_claim", "pub.after_media", "pub.after_intent", "pub.after_reply"])
@pytest.mark.parametrize("platform", CLASSES)
@pytest.mark.parametrize("text", ["bug", "bug @bob.test"], ids=["alone", "asking"])
def test_a_bug_neither_loses_nor_doubles(server: ProtocolServer, platform: str, point: str, text: str) -> None:
    """On Bluesky a mention is looked up before anything is written down; without one, the claim is the intent."""
    if platform == "bluesky" and text == "bug" and point in ("pub.after_claim", "pub.after_media"):
        point = "pub.after_intent"
    fault_injection.plan(f"{point}=raise@1")
    post = schedule(server, platform, text)
    if point == "pub.after_claim":  # the worker's own: the job rings again
        assert wait_for(lambda: server.post(post)["status"] == "publishing", 60)
        server.skip(31)
    row = server.ended(post)
    rule = json.loads(row["error"] or "{}").get("rule")
    if point == "pub.after_media":
        assert (row["status"], row["error_code"]) == ("failed", "internal_error")
    elif platform == "plain" and point == "pub.after_intent":
        assert (row["status"], rule) == ("failed", UNKNOWN)
    else:
        assert row["status"] == "published"
    assert len(server.ledger(text)) == int(row["status"] == "published")


def test_a_run_whose_lease_was_taken_over_writes_nothing(server: ProtocolServer) -> None:
    server.fault("bluesky", "delay:4")
    post = schedule(server, "bluesky", "taken over")
    assert wait_for(lambda: server.sends("bluesky") == 1, 60, 0.01)
    serial_group = server.post(post)["account"]
    at = server.clock.now_ms() + 60_000
    server.service.write(lambda tx: server.service.jobs.put(tx, "publish", post, at, serial_group)).result()
    assert wait_for(lambda: server.ledger("taken over"), 60)
    assert wait_for(lambda: not server.service.is_busy(), 60)  # the first run is over
    assert (server.post(post)["status"], len(server.ledger("taken over"))) == ("publishing", 1)
    server.skip(60)
    assert server.ended(post)["status"] == "published"  # by the second run, which looked first
    assert (len(server.ledger("taken over")), server.sends("bluesky")) == (1, 1)


def _die(run: Any, intent: Any, **_: Any) -> None:
    """The process ends here, as far as the rows can tell."""
    raise LostClaimError(intent["post"])


def test_a_batch_that_was_not_accepted_keeps_no_account(server: ProtocolServer) -> None:
    account = server.alice.accounts["bluesky"]["id"]
    fault_injection.plan("now.before_commit=raise@1")
    with server.alice.api.expecting_failure():
        assert server.alice.api.publish({"text": "refused", "targets": [{"accountId": account}]}).status_code == 500
    assert server.service.jobs.groups.closed()[0] == set()
    done = server.alice.api.publish({"text": "accepted", "targets": [{"accountId": account}]})
    assert done.json()["status"] == "published"
    assert (server.ledger("refused"), len(server.ledger("accepted"))) == ([], 1)


# --- After downtime ------------------------------------------------------------------------------------------------


@stopping
@pytest.mark.parametrize("platform", CLASSES)
def test_a_send_is_not_repeated_hours_later(
    server: ProtocolServer, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intent was written and the process died; nobody knows what happened since."""
    with monkeypatch.context() as patched:
        patched.setattr(publish._PublishRun, "_call_platform", _die)
        post = schedule(server, platform, "hours later")
        assert wait_for(lambda: server.rows(Intent, post=post), 60)
        server.stop()
    server.away(2 * 3600)
    row = server.ended(post)
    rule = json.loads(row["error"]).get("rule")
    assert row["status"] == "failed"
    assert rule == (None if platform == "crate" else UNKNOWN)
    assert server.ledger("hours later") == []


@pytest.mark.matrix
@stopping
@pytest.mark.parametrize("seconds", [3000, 7500], ids=["within-grace", "after-grace"])
@stopping
@pytest.mark.parametrize("platform", CLASSES)
def test_what_was_sent_before_the_downtime_is_found_after_it(
    server: ProtocolServer, platform: str, seconds: int
) -> None:
    """Also where it would be overdue, had nothing been sent."""
    server.fault(platform, "delay:1")
    post = schedule(server, platform, "found later")
    assert wait_for(lambda: server.sends(platform) == 1, 60, 0.01)
    fault_injection.plan("db.commit=enospc")
    assert wait_for(lambda: server.ledger("found later"), 60, 0.01)
    server.service.process.stopping.set()
    assert wait_for(lambda: not server.service.jobs.held(), 60)
    server.stop()
    fault_injection.plan("")
    server.away(seconds)
    assert server.ended(post)["status"] == "published"
    assert (len(server.ledger("found later")), server.sends(platform)) == (1, 1)


@stopping
def test_cut_off_response_is_completed_once_the_batch_is_settled(server: ProtocolServer) -> None:
    server.fault("plain", "delay:0.5")
    body = {"text": "cut off", "targets": [{"accountId": server.alice.accounts["plain"]["id"]}]}
    fault_injection.plan("now.after_commit=raise@1")
    with server.alice.api.expecting_failure():
        assert server.alice.api.publish(body, key="k").status_code == 500
    server.restart(server.alice)
    fault_injection.plan("")
    assert wait_for(lambda: server.rows(IdempotencyRecord)[0]["status"], 60)
    again = server.alice.api.publish(body, key="k")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.json()["results"][0]["status"] == "published"
    assert len(server.ledger("cut off")) == 1

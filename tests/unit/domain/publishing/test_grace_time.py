"""Grace time of late posts, checked at every claim: retries, moved posts, suspensions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.domain.publishing import overdue_rule, transactions
from socialpub.platforms.contract import Pending
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Attempt, Intent, Job
from tests.support.app_server import AppServer, MovableClock, Person, format_instant
from tests.support.publishing_protocol import ProtocolServer, claim_post
from tests.support.publishing_state import schedule_post
from tests.support.soak import extra_platforms
from tests.support.soak.soak_world import wait_for

Make = Callable[..., AppServer]


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    fault_injection.plan("")


def schedule(server: AppServer, person: Person, seconds: float = 60, account: str = "") -> str:
    # Who is mentioned is looked up, so there is a time between the claim and the intent.
    targets = [{"accountId": account or person.bluesky}]
    return schedule_post(server, person, "later @bob.test", seconds, targets=targets)


def error(row: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(row["error"] or "{}"))


def posts(server: AppServer) -> int:
    return len(server.lab.lab.ledger.posts())


def retry(server: AppServer, person: Person, post: str, **body: Any) -> None:
    answer = person.api.post(f"/v1/posts/{post}/retry", json=body)
    assert answer.status_code == 202, answer.text


def dies_after_the_claim(server: AppServer, post: str, attempts: int) -> None:
    """The process ends while an attempt of the post is under way, before anything was sent; the next one starts."""
    assert wait_for(lambda: server.rows(id=post)[0]["attempts"] == attempts, 60)
    assert wait_for(lambda: [job["epoch"] for job in server.rows(Job, key=post)] == [None], 60)
    assert server.rows(id=post)[0]["status"] == "publishing"


@pytest.mark.parametrize("grace, late, ended", [(5, 28, "failed"), (30, 28, "published"), (0, 4, "published")])
def test_suspended_process_publishes_only_within_the_grace_time(
    make_server: Make, grace: float, late: float, ended: str
) -> None:
    """Awake again it knows no more than a start does. Ordinary work takes a moment too, which is never too late."""
    server = make_server(scheduling={"overdue_grace": grace})
    alice = server.connected_person("Alice")
    post = schedule(server, alice)
    server.skip(60 + late)
    row = server.wait(post, "published", "failed")
    assert (row["status"], posts(server)) == (ended, ended == "published")
    assert error(row).get("rule") == ("schedule.overdue" if ended == "failed" else None)
    assert server.rows(Job, key=post) == []


def test_the_words_say_how_late_it_was_and_nothing_else(server: AppServer, alice: Person) -> None:
    post = schedule(server, alice)
    due = server.rows(id=post)[0]["scheduled_at"]
    server.skip(60 + 7200)
    told = error(server.wait(post, "failed"))
    assert told["message"].startswith(f"The post was due at {format_instant(due)} and could not be sent until ")
    assert told["message"].endswith("late, where `scheduling.overdue_grace` allows 3600 s.")
    assert "running" not in json.dumps(told)
    assert [name for name, _ in server.events(post)][-1] == "post.failed"
    shown = alice.api.get(f"/v1/posts/{post}").json()
    assert (shown["status"], shown["attempts"]) == ("failed", [])


def old_and_failed(server: AppServer, person: Person) -> str:
    """A post that ended as overdue; it was due two hours ago."""
    post = schedule(server, person)
    server.skip(60 + 7200)
    server.wait(post, "failed")
    return post


def test_the_clock_of_a_retry_starts_with_the_retry(server: AppServer, alice: Person) -> None:
    """Also where the server stops while the new attempt is under way."""
    post = old_and_failed(server, alice)
    fault_injection.plan("pub.after_claim=raise@1")
    retry(server, alice, post)
    dies_after_the_claim(server, post, 1)
    server.stop()
    server.clock.skip(31)
    server.start()
    assert server.wait(post, "published", "failed")["status"] == "published"
    assert posts(server) == 1


def test_a_retry_is_overdue_in_its_turn(server: AppServer, alice: Person) -> None:
    post = old_and_failed(server, alice)
    fault_injection.plan("pub.after_claim=raise@1")
    retry(server, alice, post)
    dies_after_the_claim(server, post, 1)
    due = server.rows(id=post)[0]["due_at"]
    server.skip(3660)
    row = server.wait(post, "failed", "published")
    assert f"was due at {format_instant(due)}" in error(row)["message"]
    (attempt,) = server.rows(Attempt, post=post)
    assert (attempt["succeeded"], attempt["error_code"]) == (False, "internal_error")


def test_a_post_that_was_moved_counts_from_its_new_time(server: AppServer, alice: Person) -> None:
    post = schedule(server, alice)
    moved = format_instant(server.clock.now_ms() + 7260_000)
    assert alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": moved}).status_code == 200
    server.skip(7200)
    assert not wait_for(lambda: server.rows(id=post)[0]["status"] != "queued", 0.5)
    server.skip(61)
    assert server.wait(post, "published", "failed")["status"] == "published"


def test_a_retry_at_a_later_time_counts_from_that_time(server: AppServer, alice: Person) -> None:
    post = old_and_failed(server, alice)
    retry(server, alice, post, scheduledAt=format_instant(server.clock.now_ms() + 7200_000))
    server.skip(7201)
    assert server.wait(post, "published", "failed")["status"] == "published"


@pytest.mark.slow
def test_a_settled_post_counts_from_its_retry(server: AppServer, alice: Person) -> None:
    post = schedule(server, alice)
    server.lab.lab.faults.add([{"fault": "status:500", "platform": "bluesky", "operation": "*Record"}])
    server.skip(61)
    assert wait_for(lambda: server.skip(61) or server.rows(id=post)[0]["status"] == "failed", 30, 0.05)
    server.lab.lab.faults.clear()
    server.skip(7200)
    assert alice.api.post(f"/v1/posts/{post}/settle", json={"published": False}).status_code == 200
    fault_injection.plan("pub.after_claim=raise@1")
    retry(server, alice, post)
    dies_after_the_claim(server, post, 2)
    server.restart(alice)
    server.skip(31)
    assert server.wait(post, "published", "failed")["status"] == "published"


def test_the_wait_for_the_next_attempt_is_no_lateness(make_server: Make) -> None:
    server = make_server(scheduling={"overdue_grace": 60}, publishing={"retry_waits": [600.0]})
    alice = server.connected_person("Alice")
    post = schedule(server, alice)
    server.lab.lab.faults.add([{"fault": "status:429", "platform": "bluesky", "operation": "*putRecord", "times": 1}])
    server.skip(61)
    waiting = server.wait(post, "validated", "failed")
    assert waiting["due_at"] == waiting["next_attempt_at"] > waiting["scheduled_at"] + 500_000
    server.restart(alice)
    fault_injection.plan("pub.after_claim=raise@1")
    server.skip(601)
    dies_after_the_claim(server, post, 2)
    server.restart(alice)
    server.skip(31)
    assert server.wait(post, "published", "failed")["status"] == "published"


def test_preparing_may_take_longer_than_the_grace_time(
    tmp_path: Path, wall: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra_platforms.register()
    made = extra_platforms.CrateConnector.prepare

    def slowly(*arguments: Any) -> Any:
        found = made(*arguments)
        return Pending(found.saved, 60.0) if isinstance(found, Pending) else found

    monkeypatch.setattr(extra_platforms.CrateConnector, "prepare", slowly)
    with SimulatorThread() as lab:
        server = ProtocolServer(tmp_path, lab, wall, {"scheduling": {"overdue_grace": 10}})
        server.start()
        server.furnish()
        post = schedule(server, server.alice, account=server.alice.accounts["crate"]["id"])
        server.skip(60.5)
        assert wait_for(lambda: server.post(post)["saved"], 60)
        server.skip(61)
        assert server.ended(post)["status"] == "published"
        late = schedule(server, server.alice, account=server.alice.accounts["crate"]["id"])
        server.skip(60.5)
        assert wait_for(lambda: server.post(late)["saved"], 60)
        server.skip(75)
        assert server.ended(late)["status"] == "failed"
        server.stop()
    extra_platforms.unregister()


def test_a_process_that_slept_while_it_prepared_a_post_does_not_send_it(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended after its claim: awake again it asks once more before anything public is called."""

    def slept() -> None:
        server.clock.skip(7200)
        assert isinstance(server.lab.lab.clock, MovableClock), "a lab whose clock a test moves"
        server.lab.lab.clock.skip(7200)

    monkeypatch.setitem(fault_injection._ACTIONS, "raise", slept)
    fault_injection.plan("pub.after_media=raise@1")
    post = schedule(server, alice)
    server.skip(60)
    row = server.wait(post, "published", "failed")
    assert (row["status"], error(row)["rule"], posts(server)) == ("failed", "schedule.overdue", 0)
    assert server.rows(Job, key=post) == []
    fault_injection.plan("")
    retry(server, alice, post)
    assert server.wait(post, "published", "failed")["status"] == "published"


def test_an_upload_takes_what_it_takes(make_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server(scheduling={"overdue_grace": 0})
    alice = server.connected_person("Alice")
    monkeypatch.setitem(fault_injection._ACTIONS, "raise", lambda: server.clock.skip(240))
    fault_injection.plan("pub.after_media=raise@1")
    post = schedule(server, alice)
    server.skip(60)
    assert server.wait(post, "published", "failed")["status"] == "published"


@pytest.mark.parametrize(
    ("outcome", "ends"), [(None, False), ("ok", False), ("taken", True), ("rejected", True), ("absent", True)]
)
def test_a_post_of_which_something_may_be_out_never_ends_as_overdue(
    server: AppServer, alice: Person, outcome: str | None, ends: bool
) -> None:
    """An open intent, or a post that waits for its first comment only: at a claim, at a sweep, and in its write."""
    snapshot = claim_post(server, alice, seconds=60)
    service, post, intent = server.service, snapshot.post["id"], snapshot.intended
    assert intent is not None

    def settle(tx: Tx) -> None:
        Intent.update(outcome=outcome).where(Intent.id == intent["id"]).execute()

    service.write(settle).result()
    server.clock.skip(60 + 7200)
    (row,) = server.rows(id=post)
    assert (service.read(lambda: overdue_rule.find_error(service, row)).result() is not None) is ends
    found = service.read(lambda: overdue_rule.list_overdue(service.now_ms)).result()
    assert [each["id"] for each in found] == [post] * ends
    service.write(lambda tx: transactions.fail_overdue(service, tx, row)).result()
    assert server.rows(id=post)[0]["status"] == ("failed" if ends else "publishing")
    assert bool(server.rows(Job, key=post)) is not ends

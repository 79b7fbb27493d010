"""Clock steps of ±1 h and ±10 h at a start and while running: no early, lost or stuck post.

The platforms' clock (that of the simulator's lab) is the reference.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from socialpub.domain.background import publishing_gate
from socialpub.domain.media import library
from socialpub.domain.server import clock_watch, instance
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import IdempotencyRecord, Job, Notification, WebhookDelivery
from tests.support.app_server import AppServer, MovableClock, Person, format_instant
from tests.support.publishing_state import schedule_post
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import register_endpoint
from tests.support.webhook_receiver import WebhookReceiver

HOUR = 3600
STEPS = [-10 * HOUR, -HOUR, HOUR, 10 * HOUR]
NAMES = ["-10 h", "-1 h", "+1 h", "+10 h"]
BUSY = [
    {"fault": "status:500", "platform": "bluesky", "operation": "*putRecord"},
    {"fault": "status:500", "platform": "bluesky", "operation": "*getRecord"},
]
LIMITED = [{"fault": "status:429", "platform": "bluesky", "operation": "*putRecord", "times": 1}]


@pytest.fixture
def upstream() -> MovableClock:
    return MovableClock()


@pytest.fixture
def lab(upstream: MovableClock) -> Iterator[SimulatorThread]:
    with SimulatorThread(upstream) as simulator:
        yield simulator


@dataclass
class World:
    """A server, Alice, and posts in each state in which something is waited for."""

    server: AppServer
    alice: Person
    upstream: MovableClock
    soon: str = ""  # scheduled in half an hour
    waiting: str = ""  # for its next attempt, in ten minutes
    looked_for: str = ""  # sent, without an answer
    answer: Any = None  # of a request with a key

    def furnish(self) -> World:
        self.answer = self.now("once", key="k")
        self.soon = self.schedule(1800)
        self.server.lab.lab.faults.add(LIMITED)
        self.waiting = self.schedule(60)
        self.passes(61)
        self.server.wait(self.waiting, "validated")
        self.server.lab.lab.faults.add(BUSY)
        self.looked_for = self.schedule(60)
        self.passes(61)
        assert wait_for(lambda: self.jobs(self.looked_for) == [None], 60)
        return self

    def jobs(self, post: str) -> list[int | None]:
        """Who holds the jobs of a post whose look is over, in the state of `publishing`."""
        if self.status(post) != "publishing":
            return []
        return [job["epoch"] for job in self.server.rows(Job, key=post)]

    def now(self, text: str, key: str | None = None) -> Any:
        body = {"text": text, "targets": [{"accountId": self.alice.bluesky}]}
        return self.alice.api.publish(body, key=key).json()

    def schedule(self, seconds: float) -> str:
        return schedule_post(self.server, self.alice, f"in {seconds}", seconds)

    def passes(self, seconds: float) -> None:
        """True time."""
        self.upstream.skip(seconds)
        self.server.skip(seconds)

    def steps(self, seconds: float, when: str) -> None:
        """The server's clock is set."""
        if when == "running":
            self.server.clock.set_ahead(seconds)
            self.server.service.jobs.wakeup.wake()
            return
        self.server.stop()
        self.server.clock.set_ahead(seconds)
        self.server.start()
        self.alice.api = self.server.api(self.alice.key)

    def status(self, post: str) -> str:
        return str(self.server.rows(id=post)[0]["status"])

    def paused(self) -> str | None:
        return self.server.service.read(instance.get_pause_reason).result()

    def ready(self) -> dict[str, Any]:
        return dict(self.alice.api.get("/readyz").json())

    def public(self) -> list[str | None]:
        return [entry.text for entry in self.server.lab.lab.ledger.posts()]

    def ends(self, post: str) -> str:
        return str(self.server.wait(post, "published", "failed", "rejected", seconds=20)["status"])


@pytest.fixture
def world(make_server: Callable[..., AppServer], upstream: MovableClock, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.1)
    monkeypatch.setattr(publishing_gate, "PROBE_SECONDS", 0.1)
    server = make_server(publishing={"retry_waits": [600.0]}, scheduling={"overdue_spacing": 0})
    alice = server.connected_person("Alice")
    return World(server, alice, upstream).furnish()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["start", "running"])
@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_a_clock_that_is_set_and_put_right_again(world: World, step: int, when: str) -> None:
    world.steps(step, when)
    if step > 0:
        assert wait_for(lambda: world.paused() == "clock", 60)
        assert world.ready() == {"status": "ok", "publishing": "paused", "reason": "clock"}
        world.passes(1)
    else:
        assert not wait_for(lambda: world.paused(), 0.5)
    assert world.now("once", key="k") == world.answer
    assert world.public() == ["once"]
    world.server.lab.lab.faults.clear()
    if step > 0:
        world.steps(-step, "running")
        assert wait_for(lambda: world.paused() is None, 60)
    assert world.now("in between")["status"] == "published"
    world.passes(601)  # what waits for a while has waited
    assert world.ends(world.waiting) == "published"
    assert world.ends(world.looked_for) == "published"
    assert world.status(world.soon) == "queued"
    world.passes(1200)
    if step < 0:
        assert not wait_for(lambda: world.status(world.soon) != "queued", 0.5)  # late by as much as the clock is
        world.steps(-step, "running")
    assert world.ends(world.soon) == "published"
    assert world.public().count("in 1800") == 1
    assert world.paused() is None
    assert world.server.rows(Job) == []


def test_a_clock_set_far_ahead_deletes_no_stored_response(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was repeated after the clock was right again was published twice."""
    world.server.lab.lab.faults.clear()
    world.steps(49 * HOUR, "running")
    assert wait_for(lambda: world.paused() == "clock", 60)
    swept = threading.Event()
    monkeypatch.setattr(library.BatchMediaCache, "list_batches", lambda cache: swept.set() or [])
    world.passes(61)
    assert swept.wait(60)
    world.steps(-49 * HOUR, "running")
    assert wait_for(lambda: world.paused() is None, 60)
    assert world.now("once", key="k") == world.answer
    assert world.public().count("once") == 1


@pytest.mark.parametrize("when", ["start", "running"])
def test_deliveries_wait_no_longer_after_the_clock_was_set_back(world: World, sink: WebhookReceiver, when: str) -> None:
    """They were late by the step, and came after events of the same post that were newer."""
    world.server.lab.lab.faults.clear()
    slack = {"kind": "slack", "url": f"{sink.origin}/services/a-path-of-a-test"}
    made = world.alice.api.post("/v1/notification-channels", json={"to": slack, "events": ["post.published"]})
    assert made.status_code == 201
    register_endpoint(world.alice, sink.url, events=["post.published"])
    sink.answer = lambda got: 503
    world.now("told later")
    sink.wait(2)
    for table in (WebhookDelivery, Notification):
        assert wait_for(lambda table=table: 1 in [row["attempts"] for row in world.server.rows(table)], 30)
    sink.answer = lambda got: 200
    world.steps(-HOUR, when)
    world.passes(60)
    for table in (WebhookDelivery, Notification):
        assert wait_for(lambda table=table: {row["status"] for row in world.server.rows(table)} == {"succeeded"}, 30)


def test_no_notice_is_sent_by_a_clock_in_doubt(
    make_server: Callable[..., AppServer], upstream: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came early, and the one at the right time never: each is sent once."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.05)
    monkeypatch.setattr(publishing_gate, "PROBE_SECONDS", 0.1)
    server, days = make_server(), 24 * HOUR
    alice = server.person("Alice")
    server.limited(alice, expiresAt=format_instant(server.clock.now_ms() + 30 * days * 1000))
    server.stop()
    server.clock.set_ahead(24 * days)
    server.start()
    for _ in range(5):  # rounds of the scheduler
        before = server.engine.heartbeat
        server.skip(10)
        assert wait_for(lambda before=before: server.engine.heartbeat > before, 30)
    assert [kind for kind, _ in server.events()] == []
    upstream.skip(24 * days)
    assert wait_for(lambda: [kind for kind, _ in server.events()] == ["key.expiring"], 30)


def away(world: World, seconds: float, upstream: float) -> None:
    """Down; the clocks say afterwards that so much time has passed."""
    world.server.stop()
    world.server.clock.skip(seconds)
    world.upstream.skip(upstream)
    world.server.lab.lab.faults.clear()
    world.server.start()
    world.alice.api = world.server.api(world.alice.key)


def test_after_a_real_downtime_everything_goes_on_at_once(world: World) -> None:
    late = world.schedule(10 * HOUR - 60)
    away(world, 10 * HOUR, 10 * HOUR)
    assert world.paused() is None
    assert [world.ends(post) for post in (late, world.soon, world.waiting)] == ["published", "failed", "failed"]


def test_nobody_answers_and_it_waits_until_somebody_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(clock_watch, "_list_hosts", lambda service: ["http://127.0.0.1:9"])
        away(world, 2000, 2000)
        assert world.ready() == {"status": "ok", "publishing": "paused", "reason": "clock"}
        assert not wait_for(lambda: len(world.public()) > 1, 0.5)
    assert world.ends(world.soon) == "published"


@pytest.mark.slow
def test_a_clock_in_doubt_is_still_in_doubt_after_the_next_start(world: World) -> None:
    """Nothing is due by it at first: what becomes due later waits too."""
    world.server.lab.lab.faults.clear()
    world.passes(601)
    assert [world.ends(post) for post in (world.waiting, world.looked_for)] == ["published", "published"]
    away(world, 1000, 0)
    assert world.ready() == {"status": "ok", "publishing": "active"}
    assert world.now("immediate posts go out")["status"] == "published"
    world.server.restart(world.alice)
    world.server.skip(300)
    assert wait_for(lambda: world.paused() == "clock", 60)
    assert world.status(world.soon) == "queued"
    world.upstream.skip(1300)
    assert world.ends(world.soon) == "published"


def test_the_operator_may_say_that_the_clock_is_right(world: World) -> None:
    away(world, 2000, 0)
    assert world.paused() == "clock"
    world.server.service.write(lambda tx: instance.resume(tx, instance.CLOCK)).result()
    assert world.ends(world.soon) == "published"


def test_two_minutes_less_one_second_are_no_doubt(world: World) -> None:
    """The bound: a clock that is set ahead by less than this while the server is down is not noticed."""
    soon = world.schedule(100)
    away(world, 119, 0)
    assert world.paused() is None
    assert world.ends(soon) == "published"


def test_an_answer_that_was_cut_off_is_completed_whatever_the_clock_says(world: World) -> None:
    forget = IdempotencyRecord.update(status=None, body=None)
    world.server.service.write(lambda tx: forget.execute()).result()
    world.steps(-10 * HOUR, "start")
    assert wait_for(lambda: world.server.rows(IdempotencyRecord)[0]["status"] is not None, 60)
    assert world.now("once", key="k")["id"] == world.answer["id"]


def test_unheld_lease_ends_within_a_minute_whatever_the_clock_says(world: World) -> None:
    world.server.lab.lab.faults.clear()
    leased = Job.update(visible_at=world.server.clock.now_ms() + 60_000, epoch=world.server.service.jobs.epoch)
    world.server.service.write(lambda tx: leased.where(Job.key == world.waiting).execute()).result()
    world.steps(-10 * HOUR, "running")
    assert wait_for(lambda: world.server.rows(Job, key=world.waiting)[0]["visible_at"] < _in(world, 61), 60)
    world.passes(61)
    assert world.ends(world.waiting) == "published"


def _in(world: World, seconds: float) -> float:
    return world.server.clock.now_ms() + seconds * 1000

"""SIGKILL during webhook delivery: no event is lost, and ids and bytes stay equal."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import SoakWorld, configured_count, new_seed, pause, running_world, wait_for
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver, running_receiver

pytestmark = pytest.mark.slow

KILLS = configured_count("hook_kills", 50)
EACH = 12  # requests before a kill, with two events each
FAR = 10**8  # seconds: these posts are not published here


@dataclass
class Receiver:
    """It takes up to 30 ms, answers one call in six with 503, and knows how many calls it has under way."""

    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)  # by event: how often it was taken
    under_way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, got: ReceivedCall) -> int:
        with self._lock:
            self.under_way += 1
            wait, fails = self.chance.uniform(0, 0.03), self.chance.random() < 1 / 6
        pause(wait)
        with self._lock:
            self.under_way -= 1
            if not fails:
                self.done[got.event["id"]] += 1
        return 503 if fails else 204


def test_kills_during_delivery_lose_no_event_and_change_no_id(tmp_path: Path, tell: ReportLine) -> None:
    seed = new_seed()
    chance = random.Random(seed)
    receiver = Receiver(random.Random(seed + 1))
    with (
        running_receiver(receiver) as sink,
        running_world(tmp_path, on=("bluesky",), webhooks={"waits": [0.1] * 7}) as world,
    ):
        world.start()
        with world.client() as client:
            answer = client.post("/v1/webhook-endpoints", json={"url": sink.url})
            assert answer.status_code == 201, answer.text
        during = sum(_round(world, receiver, chance) for _ in range(KILLS))
        world.start()
        assert wait_for(lambda: not _pending(world), 120), _pending(world)
        assert world.stop() == 0
        found = _check(world, sink, receiver)
    tell(f"{KILLS} kills, {during} with calls under way (seed {seed}): {found}")
    assert during >= KILLS * 0.8


def _round(world: SoakWorld, receiver: Receiver, chance: random.Random) -> bool:
    """Cause events, and kill the server while they are delivered; whether a call was under way then."""
    assert world.child is not None
    if world.child.ended.is_set():
        world.start()
    with world.client() as client:
        for _ in range(EACH):
            _schedule(client, world.accounts["bluesky"][0])
    wait_for(lambda: receiver.under_way > 0, 2, 0.001)
    pause(chance.uniform(0, 0.02))
    during = receiver.under_way > 0
    world.kill()
    return during


def _schedule(client: httpx.Client, account: str) -> None:
    body = {
        "targets": [{"accountId": account}],
        "text": "hello",
        "scheduledAt": format_instant(int((time.time() + FAR) * 1000)),
    }
    answer = client.post("/v1/posts", json=body)
    assert answer.status_code == 202, answer.text


def _pending(world: SoakWorld) -> int:
    return int(world.rows("SELECT count(*) AS n FROM webhook_delivery WHERE status = 'pending'")[0]["n"])


def _check(world: SoakWorld, sink: WebhookReceiver, receiver: Receiver) -> str:
    events = {event.id: event.number for event in world.happened()}
    deliveries = world.rows("SELECT status, event FROM webhook_delivery")
    assert len(events) == 2 * EACH * KILLS  # what was accepted has happened
    assert Counter(row["event"] for row in deliveries) == Counter(events.values())  # a row for each, and one
    assert {row["status"] for row in deliveries} == {"succeeded"}
    assert set(receiver.done) == set(events)
    told: dict[str, set[bytes]] = defaultdict(set)
    for got in sink.got:
        event: dict[str, Any] = got.event
        assert got.headers["x-service-event-id"] == got.headers["webhook-id"] == event["id"]
        told[event["id"]].add(got.body)
    assert all(len(bodies) == 1 for bodies in told.values())
    assert set(told) == set(events)
    again = sum(times > 1 for times in receiver.done.values())
    return f"{len(events)} events, {len(sink.got)} calls, 0 lost, {again} taken more than once, every id the same"

"""SIGKILL while notifications are sent: none is missing, and none counts twice."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import SoakWorld, configured_count, new_seed, pause, running_world, wait_for
from tests.support.webhook_receiver import ReceivedCall, running_receiver

pytestmark = pytest.mark.slow

KILLS = configured_count("notification_kills", 20)
EACH = 6  # batches before a kill
TARGETS = 4  # of a batch: events of one cause
FAR = 10**8  # seconds: these posts are not published here


def test_kills_lose_nothing_that_people_are_told(tmp_path: Path, tell: ReportLine) -> None:
    seed = new_seed()
    chance = random.Random(seed)

    def answer(got: ReceivedCall) -> int:
        pause(0.01)
        return 503 if chance.random() < 1 / 6 else 200

    settings: dict[str, dict[str, Any]] = {"webhooks": {"waits": [0.1] * 7}, "notifications": {"window": "1s"}}
    with running_receiver(answer) as sink, running_world(tmp_path, on=("bluesky",), **settings) as world:
        world.start()
        with world.client() as client:
            to = {"kind": "slack", "url": sink.url}
            body = {"to": to, "events": ["post.queued"]}
            assert client.post("/v1/notification-channels", json=body).status_code == 201
        for _ in range(KILLS):
            _round(world, chance)
        world.start()
        assert wait_for(lambda: not _pending(world), 120), _pending(world)
        assert world.stop() == 0
        found = _check(world, len(sink.got))
    tell(f"{KILLS} kills (seed {seed}): {found}")


def _round(world: SoakWorld, chance: random.Random) -> None:
    assert world.child is not None
    if world.child.ended.is_set():
        world.start()
    with world.client() as client:
        for _ in range(EACH):
            _schedule(client, world.accounts["bluesky"][0])
    pause(chance.uniform(0, 1.2))
    world.kill()


def _schedule(client: httpx.Client, account: str) -> None:
    at = format_instant(int((time.time() + FAR) * 1000))
    body = {"targets": [{"accountId": account}] * TARGETS, "text": "hello", "scheduledAt": at}
    answer = client.post("/v1/posts", json=body)
    assert answer.status_code == 202, answer.text


def _pending(world: SoakWorld) -> int:
    return int(world.rows("SELECT count(*) AS n FROM notification WHERE status = 'pending'")[0]["n"])


def _check(world: SoakWorld, calls: int) -> str:
    rows = world.rows("SELECT cause, count, follows, status FROM notification ORDER BY number")
    batches = {row["id"] for row in world.rows("SELECT id FROM batch")}
    assert len(batches) == EACH * KILLS
    told: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for row in rows:
        told[row["cause"].split()[1]].append((row["count"], bool(row["follows"])))
    assert set(told) == batches
    assert all(each == [(1, False), (TARGETS - 1, True)] for each in told.values())
    assert {row["status"] for row in rows} == {"succeeded"}
    assert calls >= len(rows)
    return f"{len(batches)} causes, {len(rows)} messages, {calls} calls, 0 lost"

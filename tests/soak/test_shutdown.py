"""SIGTERM with work in flight: an orderly stop, and every waiting request answered."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.client_load import ClientLoad
from tests.support.soak.invariants import check_invariants
from tests.support.soak.soak_world import (
    CLASSES,
    SoakWorld,
    configured_count,
    new_seed,
    pause,
    running_world,
    wait_for,
)

pytestmark = pytest.mark.slow

STOPS = configured_count("stops", 100)
LIMIT = 25.0


def test_a_hundred_orderly_stops(tmp_path: Path, tell: ReportLine) -> None:
    seed, began = new_seed(), time.monotonic()
    chance, took, codes = random.Random(seed), [], []
    with running_world(tmp_path, each=4) as world:
        world.lab.post("/lab/settings", {"latencyMs": 150})
        clients = ClientLoad(world, 5000, seed, pace=0.2).start()
        for _ in range(STOPS):
            world.start()
            pause(chance.uniform(0.05, 0.6))
            asked = time.monotonic()
            codes.append(world.stop(LIMIT + 5))
            took.append(time.monotonic() - asked)
        world.start()
        clients.stop()
        journal = clients.finish()
        world.drain()
        assert world.stop() == 0
        report = check_invariants(world, journal)
    tell(f"{STOPS} SIGTERMs: seed {seed}, {time.monotonic() - began:.0f} s, slowest end {max(took):.1f} s")
    tell("\n".join(report.lines()))
    assert codes == [0] * STOPS
    assert max(took) <= LIMIT
    assert report.whole, "\n".join(report.lines())
    assert not report.unknown


@pytest.mark.parametrize("platform", CLASSES)
def test_a_request_whose_platform_hangs_is_answered_before_the_end(platform: str, tmp_path: Path) -> None:
    """Its post is published all the same, once, by the next start."""
    with running_world(tmp_path) as world:
        world.deadline = None  # the real ones
        world.lab.faults({"fault": "delay:40", "platform": platform, "operation": SEND[platform], "times": 1})
        world.start()
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(_publish(world, platform)))
        thread.start()
        assert wait_for(lambda: _is_out(world), 60)
        asked = time.monotonic()
        assert world.stop(LIMIT + 5) == 0
        assert time.monotonic() - asked <= LIMIT
        thread.join(60)
        result = answers[0].json()["results"][0]
        assert (answers[0].status_code, answers[0].json()["status"]) == (202, "queued")
        assert (result["status"], result["warnings"][0]["code"]) == ("publishing", "still_publishing")
        world.start()
        world.drain()
        ended = world.rows("SELECT status, error FROM post")[0]
        pause(max(0.0, 40.5 - (time.monotonic() - asked)))  # until the call that hung has had its effect
        assert len(world.lab.ledger()) == 1
        assert ended["status"] == "published" or "outcome_unknown" in ended["error"]


SEND = {"bluesky": "*putRecord", "crate": "publish", "plain": "post"}


def _publish(world: SoakWorld, platform: str) -> httpx.Response:
    body: dict[str, Any] = {"text": "hangs", "targets": [{"accountId": world.accounts[platform][0]}]}
    with world.client() as client:
        return client.post("/v1/posts", json=body)


def _is_out(world: SoakWorld) -> bool:
    return any(call["fault"] and call["status"] is None for call in world.lab.calls())


def test_a_signal_while_idle_ends_at_once(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        for number in (signal.SIGTERM, signal.SIGINT):
            child = world.start()
            asked = time.monotonic()
            child.signal(number)
            assert child.wait(LIMIT) == 0
            assert time.monotonic() - asked < 5 or not TIMED


def test_a_validation_whose_media_do_not_come_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with running_world(tmp_path) as world, socket.create_server(("127.0.0.1", 0)) as silent:
        world.start()
        target = {"accountId": world.accounts["bluesky"][0]}
        picture = {"kind": "image", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/a.jpg"}
        body = {"text": "a", "targets": [target], "media": [picture]}
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(_validate(world, body)))
        thread.start()
        silent.settimeout(15)
        connection, _ = silent.accept()
        asked = time.monotonic()
        assert world.stop(LIMIT + 5) == 0
        assert time.monotonic() - asked <= LIMIT
        connection.close()
        thread.join(60)
        assert answers[0].json()["results"][0]["warnings"][0]["code"] == "media_unmeasured"


def _validate(world: SoakWorld, body: dict[str, Any]) -> httpx.Response:
    with world.client() as client:
        return client.post("/v1/posts/validate", json=body)

"""Scheduled posts are published at their time: never early, under two seconds late."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.soak_world import CLASSES, configured_count, running_world

pytestmark = [pytest.mark.slow, pytest.mark.alone]

POSTS = configured_count("accurate", 100)
OVER_SECONDS = 30
LATE_MS = 2000


def test_scheduled_posts_go_out_on_time(tmp_path: Path, tell: ReportLine) -> None:
    with running_world(tmp_path, each=POSTS // 3 + 1) as world:
        world.start()
        begin, due = int(time.time() * 1000) + 5000, {}
        with world.client() as client:
            for number in range(POSTS):
                at, platform = begin + number * OVER_SECONDS * 1000 // POSTS, CLASSES[number % 3]
                target = {"accountId": world.accounts[platform][number // 3]}
                due[f"accurate {number}"] = at
                body = {"text": f"accurate {number}", "targets": [target], "scheduledAt": format_instant(at)}
                assert client.post("/v1/posts", json=body).status_code == 202
        world.drain(OVER_SECONDS + 60)
        assert world.stop() == 0
        late = [entry["at_ms"] - due[entry["text"]] for entry in world.lab.ledger()]
    p50, p99 = statistics.median(late), statistics.quantiles(late, n=100)[98]
    tell(f"{POSTS} scheduled over {OVER_SECONDS} s: p50 {p50:.0f} ms, p99 {p99:.0f} ms, earliest {min(late)} ms")
    assert len(late) == POSTS
    assert min(late) >= 0
    assert p99 <= LATE_MS or not TIMED

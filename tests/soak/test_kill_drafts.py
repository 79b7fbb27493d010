"""SIGKILL around the delivery of a TikTok photo draft: never a second draft."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.platforms.meta_calls import jpeg
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import SoakWorld, configured_count, pause, running_world, schedule_soon, wait_for

pytestmark = pytest.mark.slow

KILLS = configured_count("draft_kills", 20)
LOST, KEPT = ("failed", "publish.outcome_unknown"), ("published", None)
POINTS = {
    "pub.after_intent": (0, 0, LOST),
    "in flight": (1, 0, LOST),  # nobody is there any more from whom TikTok could fetch the photos
    "pub.after_reply": (1, 1, LOST),
    "pub.before_result": (1, 1, LOST),
    "pub.after_result": (1, 1, KEPT),
}
"""What a kill leaves: how often a draft was asked for, how many there are, and the post's end."""


@pytest.mark.parametrize("point", POINTS)
def test_a_draft_is_opened_once_whenever_the_server_is_killed(point: str, tmp_path: Path, tell: ReportLine) -> None:
    asked, drafts, ends = POINTS[point]
    began, seen = time.monotonic(), Counter[tuple[str, str | None]]()
    with running_world(tmp_path, on=("tiktok",), publishing={"settle_horizon": 1}) as world:
        for number in range(KILLS):
            kill = _kill_in_flight if point == "in flight" else _kill_at(point)
            post = kill(world, f"draft {number}")
            world.lab.faults()
            world.start()
            assert wait_for(lambda post=post: _end(world, post), 120), world.log.read_text()[-2000:]
            seen[_end(world, post) or ("", None)] += 1
            assert world.stop() == 0
            assert (_opened(world), _drafts(world)) == (asked * (number + 1), drafts * (number + 1))
    tell(f"kills at {point}, {time.monotonic() - began:.0f} s: {KILLS}, each {drafts} drafts, ends {dict(seen)}")
    assert seen == {ends: KILLS}


def _kill_at(point: str) -> Callable[[SoakWorld, str], str]:
    def kill(world: SoakWorld, text: str) -> str:
        """Publish on a server that kills itself there; the post."""
        child = world.start(f"{point}=kill@1")
        post = _schedule(world, text)
        assert child.wait(150) == -9
        return post

    return kill


def _kill_in_flight(world: SoakWorld, text: str) -> str:
    """Kill while the call is under way: the request is out, its effect comes after our death."""
    world.lab.faults({"fault": "late_effect:0.3", "operation": "content.init", "nth": 1})
    before = _opened(world)
    world.start()
    post = _schedule(world, text)
    assert wait_for(lambda: _opened(world) > before, 150, 0.01)
    world.kill()
    pause(0.5)
    return post


def _schedule(world: SoakWorld, text: str) -> str:
    body = {"text": text, "targets": [{"accountId": world.accounts["tiktok"][0]}]}
    with world.client() as client:
        file = client.post("/v1/media", files={"file": ("a.jpg", jpeg())}).json()["id"]
        body |= {"media": [{"kind": "image", "mediaId": file}]}
        answer, _ = schedule_soon(client, body, 1.3, 3, 10, 60)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["results"][0]["postId"])


def _end(world: SoakWorld, post: str) -> tuple[str, str | None] | None:
    """How the post ended; None: not yet."""
    (row,) = world.rows("SELECT status, error FROM post WHERE id = ?", post)
    if row["status"] not in ("published", "failed", "rejected"):
        return None
    return row["status"], json.loads(row["error"] or "{}").get("rule")


def _opened(world: SoakWorld) -> int:
    return sum(call["operation"] == "content.init" for call in world.lab.calls())


def _drafts(world: SoakWorld) -> int:
    return len(world.lab.ledger())

"""The kill soak over the eight platforms and their fakes: nothing lost, nothing doubled, wherever the server dies."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.soak.contents import SHAPES
from tests.soak.invariants import Report, check
from tests.soak.killing import PUBLISHING, PointKills, prepared, random_kills
from tests.soak.load import Load
from tests.soak.world import EIGHT, a_world, count, new_seed

pytestmark = pytest.mark.slow

KILLS = count("point_kills", 20)
MINUTE = 1.0  # seconds that a minute of the connectors' waiting takes here
NO_KEY = ("facebook", "linkedin", "pinterest", "twitter")
"""Where a lost answer may stay unknown."""
COMMENT = tuple(f"comment.{point}" for point in ("after_intent", "after_reply", "before_result", "after_result"))
POINTS = {
    **dict.fromkeys(PUBLISHING, EIGHT),
    "cont.after_create_before_save": ("instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter"),
    **dict.fromkeys(COMMENT, ("bluesky",)),
}


def test_random_kills_lose_and_double_nothing_on_eight_platforms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills, each = count("eight_kills", 200), count("eight_posts", 40)
    result = random_kills(tmp_path, new_seed(), kills, each, on=EIGHT, shapes=SHAPES, minute=MINUTE)
    with capsys.disabled():
        print("\n" + result.table("random SIGKILLs on eight platforms, upstream faults on 14 % of calls"))
    assert result.report.whole
    assert result.report.posts == 8 * each
    assert unknown(result.report) <= set(NO_KEY)


def test_kills_at_every_point_of_publishing_break_nothing_on_eight_platforms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, began = new_seed(), time.monotonic()
    with a_world(tmp_path, each=4, on=EIGHT, minute=MINUTE) as world:
        world.lab.post("/lab/settings", {"processingMs": 50})
        world.start()
        contents = prepared(world, SHAPES)
        world.kill()
        clients = Load(
            world, 5000, seed, threads=8, pace=0.3, lead=(1.1, 2.5), moved=0, canceled=0, contents=contents
        ).start()
        kills = PointKills(world, POINTS, KILLS, random.Random(seed))
        kills.run()
        world.start()
        clients.stop()
        journal = clients.finish()
        world.drain()
        assert world.stop() == 0
        report = check(world, journal)
    with capsys.disabled():
        print(f"\nkills at named points (eight platforms): seed {seed}, {time.monotonic() - began:.0f} s")
        print("\n".join([f"  {kills.shown()}", *report.lines()]))
    assert report.whole
    assert {point: kills.at(point) for point in POINTS if kills.at(point) < KILLS} == {}
    assert unknown(report) <= set(NO_KEY)


def unknown(report: Report) -> set[str]:
    return {name for name, counts in report.by_platform.items() if counts["unknown"]}

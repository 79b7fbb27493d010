"""Random kills on eight platforms: no post is lost or published twice."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.reporting import ReportLine
from tests.support.soak.client_load import ClientLoad
from tests.support.soak.invariants import InvariantReport, check_invariants
from tests.support.soak.post_contents import COMMENTED, FILMS_ON_TIKTOK, SHAPES, PostShape
from tests.support.soak.server_kills import PUBLISHING, PointKills, prepare_contents, run_random_kills
from tests.support.soak.soak_world import EIGHT, configured_count, new_seed, running_world

pytestmark = pytest.mark.slow

KILLS = configured_count("point_kills", 20)
MINUTE = 1.0  # seconds that a minute of the connectors' waiting takes here
MAY_BE_UNKNOWN = {
    *((name, kind) for name in ("linkedin", "pinterest", "twitter") for kind in ("words", "image", "video")),
    *((name, kind) for name in ("facebook", "tiktok") for kind in ("words", "image")),
}
"""What has neither a key nor a container: a lost answer to it may stay unknown."""
WITH_FILMS = {**SHAPES, "tiktok": FILMS_ON_TIKTOK}
POINTS = {
    **dict.fromkeys(PUBLISHING, EIGHT),
    "cont.after_create_before_save": ("instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter"),
}
COMMENTING = tuple(f"comment.{point}" for point in ("after_intent", "after_reply", "before_result", "after_result"))


def test_random_kills_lose_and_double_nothing_on_eight_platforms(tmp_path: Path, tell: ReportLine) -> None:
    kills, each = configured_count("eight_kills", 200), configured_count("eight_posts", 40)
    result = run_random_kills(tmp_path, new_seed(), kills, each, on=EIGHT, shapes=WITH_FILMS, minute=MINUTE)
    tell(result.table("random SIGKILLs on eight platforms, upstream faults on 14 % of calls"))
    assert result.report.whole, "\n".join(result.report.lines())
    assert result.report.posts == 8 * each
    assert set(result.report.unknown_of) <= MAY_BE_UNKNOWN


def test_naive_retry_breaks_the_invariants_on_eight_platforms(tmp_path: Path, tell: ReportLine) -> None:
    kills, each = configured_count("eight_naive_kills", 30), configured_count("eight_naive_posts", 12)
    result = run_random_kills(tmp_path, new_seed(), kills, each, on=EIGHT, shapes=SHAPES, minute=MINUTE, naive=True)
    tell(result.table("the same with naive retry, which must fail"))
    assert not result.report.whole


def test_kills_while_publishing_break_nothing_on_eight_platforms(tmp_path: Path, tell: ReportLine) -> None:
    report = _killed(tmp_path, tell, "eight platforms", POINTS, SHAPES, threads=12, immediate=0.15)
    assert set(report.unknown_of) <= MAY_BE_UNKNOWN


def test_kills_around_a_first_comment_break_nothing(tmp_path: Path, tell: ReportLine) -> None:
    points, shapes = dict.fromkeys(COMMENTING, ("bluesky",)), {"bluesky": (COMMENTED,)}
    report = _killed(tmp_path, tell, "first comments", points, shapes, platforms=("bluesky",), threads=4)
    assert not report.unknown
    assert report.comments == report.by_platform["bluesky"]["published"]


def _killed(
    folder: Path,
    tell: ReportLine,
    name: str,
    points: Mapping[str, tuple[str, ...]],
    shapes: Mapping[str, tuple[PostShape, ...]],
    **load: Any,
) -> InvariantReport:
    seed, began = new_seed(), time.monotonic()
    with running_world(folder, each=4, on=EIGHT, minute=MINUTE) as world:
        world.lab.post("/lab/settings", {"processingMs": 50})
        world.start()
        contents = prepare_contents(world, shapes)
        world.kill()
        clients = ClientLoad(
            world, 5000, seed, pace=0.3, lead=(1.1, 2.0), moved=0, canceled=0, contents=contents, **load
        ).start()
        kills = PointKills(world, points, KILLS, random.Random(seed))
        kills.run()
        world.start()
        clients.stop()
        journal = clients.finish()
        world.drain()
        assert world.stop() == 0
        report = check_invariants(world, journal)
    tell(f"kills at named points ({name}): seed {seed}, {time.monotonic() - began:.0f} s\n  {kills.shown()}")
    tell("\n".join(report.lines()))
    assert report.whole, "\n".join(report.lines())
    assert [point for point in points if kills.lacks(point)] == []
    return report

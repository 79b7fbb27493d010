"""SIGKILL at each named kill point: acknowledged posts are published once or reported."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.reporting import ReportLine
from tests.support.soak.client_load import ClientLoad
from tests.support.soak.invariants import InvariantReport, check_invariants
from tests.support.soak.server_kills import PUBLISHING, PointKills
from tests.support.soak.soak_world import CLASSES, configured_count, new_seed, running_world

pytestmark = pytest.mark.slow

KILLS = configured_count("point_kills", 20)

OTHERS = (
    "sched.before_commit",
    "sched.after_commit",
    "now.before_commit",
    "now.after_commit",
    "cancel.before_commit",
    "cancel.after_commit",
    "edit.before_commit",
    "edit.after_commit",
    "db.commit",
    "recover.mid",
    "beat.mid",
)


@pytest.mark.parametrize("platform", CLASSES)
def test_kills_while_publishing_break_nothing(platform: str, tmp_path: Path, tell: ReportLine) -> None:
    points = (*PUBLISHING, "cont.after_create_before_save") if platform == "crate" else PUBLISHING
    report = _killed(tmp_path, tell, platform, points, (platform,), moved=0.0, canceled=0.0)
    unknown = report.by_platform[platform]["unknown"]
    assert platform == "plain" or not unknown  # only without a key may an outcome stay unknown


def test_kills_around_commits_break_nothing(tmp_path: Path, tell: ReportLine) -> None:
    _killed(tmp_path, tell, "all", OTHERS, (), moved=0.4, canceled=0.5, immediate=0.3)


def _killed(
    folder: Path,
    tell: ReportLine,
    name: str,
    points: tuple[str, ...],
    platforms: tuple[str, ...],
    **load: Any,
) -> InvariantReport:
    seed, began = new_seed(), time.monotonic()
    with running_world(folder, each=4) as world:
        clients = ClientLoad(
            world, 5000, seed, threads=4, pace=0.3, lead=(1.1, 2.5), platforms=platforms, **load
        ).start()
        kills = PointKills(world, dict.fromkeys(points, platforms), KILLS, random.Random(seed))
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
    assert {point: kills.at(point) for point in points if kills.at(point) < KILLS} == {}
    return report

"""SIGKILL at each named point, at least twenty times: whatever was acknowledged is published once or told truly."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.soak.invariants import Report, check
from tests.soak.load import Load
from tests.soak.world import CLASSES, World, a_world, count, new_seed, pause, wait_for

pytestmark = pytest.mark.slow

KILLS = count("point_kills", 20)
CYCLES_MAX = 6  # for each kill that is wanted
PATIENCE = 3.0  # seconds for a server to come to its point

PUBLISHING = (
    "pub.after_claim",
    "pub.after_media",
    "pub.after_intent",
    "pub.after_send",
    "pub.after_reply",
    "pub.before_result",
    "pub.after_result",
)
OTHERS = (
    "sched.before_commit",
    "sched.after_commit",
    "now.before_commit",
    "now.after_commit",
    "cancel.before_commit",
    "cancel.after_commit",
    "resched.before_commit",
    "resched.after_commit",
    "db.commit",
    "recover.mid",
    "beat.mid",
)
SEND = {"bluesky": "putRecord", "crate": "publish", "plain": "post"}  # the one public call


@pytest.mark.parametrize("platform", CLASSES)
def test_kills_while_publishing_break_nothing(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = (*PUBLISHING, "cont.after_create_before_save") if platform == "crate" else PUBLISHING
    report = _killed(tmp_path, capsys, platform, points, platforms=(platform,), moved=0.0, canceled=0.0)
    unknown = report.by_platform[platform]["unknown"]
    assert platform == "plain" or not unknown  # only without a key may an outcome stay unknown


def test_kills_around_commits_break_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _killed(tmp_path, capsys, "all", OTHERS, moved=0.4, canceled=0.5, immediate=0.3)


def _killed(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, points: tuple[str, ...], **load: Any
) -> Report:
    seed, began = new_seed(), time.monotonic()
    kills: Counter[str] = Counter()
    with a_world(folder, each=4) as world:
        clients = Load(world, 5000, seed, threads=4, pace=0.3, lead=(1.1, 2.5), **load).start()
        _kill_at_all(world, points, random.Random(seed), kills)
        world.start()
        clients.stop()
        journal = clients.finish()
        world.drain()
        assert world.stop() == 0
        report = check(world, journal)
    with capsys.disabled():
        shown = "  ".join(f"{point} {number}" for point, number in sorted(kills.items()))
        print(f"\nkills at named points ({name}): seed {seed}, {time.monotonic() - began:.0f} s\n  {shown}")
        print("\n".join(report.lines()))
    assert report.whole
    assert {point: kills[point] for point in points if kills[point] < KILLS} == {}
    return report


def _kill_at_all(world: World, points: tuple[str, ...], chance: random.Random, kills: Counter[str]) -> None:
    """Round by round, one kill at each point that has not had enough."""
    for _ in range(KILLS * CYCLES_MAX):
        left = [point for point in points if kills[point] < KILLS]
        if not left:
            return
        for point in left:
            kill = _kill_in_flight if point == "pub.after_send" else _kill_at(point, chance)
            kills[point] += kill(world)


def _kill_at(point: str, chance: random.Random) -> Callable[[World], bool]:
    def kill(world: World) -> bool:
        """Start a server that kills itself at the first to third passing; whether it came to that."""
        nth = 1 if point in ("recover.mid", "beat.mid") else chance.randint(1, 3)
        child = world.start(f"{point}=kill@{nth}", wait=False)
        if child.ended.wait(PATIENCE):
            assert child.code == -9, world.log.read_text()[-2000:]
            return True
        world.kill()
        return False

    return kill


def _kill_in_flight(world: World) -> bool:
    """Kill while the one public call is under way: the request is out, its effect comes after our death."""
    world.lab.faults(*({"fault": "late_effect:0.05", "operation": f"*{name}*"} for name in SEND.values()))
    before = len(world.lab.calls())
    world.start(wait=False)
    out = wait_for(lambda: _is_out(world, before), PATIENCE, 0.02)
    world.kill()
    pause(0.1)
    world.lab.faults()
    return out


def _is_out(world: World, before: int) -> bool:
    return any(call["fault"] and call["status"] is None for call in world.lab.calls()[before:])

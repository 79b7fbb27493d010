"""Killing a server again and again while clients and upstream faults go on."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.invariants import Journal, Report, check
from tests.soak.load import Load
from tests.soak.world import World, a_world, pause

SENDS = {"bluesky": "putRecord", "crate": "*", "plain": "*"}
SHARE = 0.14  # of upstream calls


def upstream_faults(seed: int, share: float = SHARE) -> list[dict[str, Any]]:
    """The four faults of the experiment: before and after the effect, answered or not; together on `share` of calls."""
    each = 1 - (1 - share) ** 0.25
    kinds = ("status:500", "error_after", "reset_after", "late_effect:0.2")
    return [
        {"fault": kind, "platform": name, "operation": operation, "probability": each, "seed": seed + number}
        for name, operation in (("bluesky", "*putRecord*"), ("bluesky", "*getRecord*"), ("crate", "*"), ("plain", "*"))
        for number, kind in enumerate(kinds)
    ]


@dataclass(frozen=True)
class Result:
    report: Report
    journal: Journal
    seed: int
    kills: int
    busy: int  # of them while clients or posts were under way
    seconds: float

    def table(self, name: str) -> str:
        head = f"{name}: seed {self.seed}, {self.kills} kills ({self.busy} with work under way), {self.seconds:.0f} s"
        return "\n".join([head, *self.report.lines()])


def random_kills(folder: Path, seed: int, kills: int, each: int, *, naive: bool = False) -> Result:
    """SIGKILL at random moments, until `kills` are done and every client has its answers; then drain and check."""
    chance, began = random.Random(seed), time.monotonic()
    with a_world(folder, each=4) as world:
        world.lab.post("/lab/settings", {"listLagMs": 400})
        world.lab.faults(*upstream_faults(seed))
        load = Load(world, each, seed)
        world.start(naive=naive)
        load.start()
        busy = _kill_often(world, load, chance, kills, naive)
        world.start(naive=naive)
        journal = load.finish()
        world.drain()
        assert world.stop() == 0
        report = check(world, journal)
    return Result(report, journal, seed, kills, busy, time.monotonic() - began)


def _kill_often(world: World, load: Load, chance: random.Random, kills: int, naive: bool) -> int:
    busy = 0
    for number in range(kills):
        if chance.random() < 0.8:
            world.wait_ready()
        pause(chance.uniform(0.02, 0.4))
        world.kill()
        busy += not load.done or world.open_posts() > 0
        if number + 1 < kills:
            world.start(wait=False, naive=naive)
    return busy

"""Repeated server kills under load and upstream faults: at random or at named points."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.soak.client_load import ClientLoad
from tests.support.soak.invariants import ClientJournal, InvariantReport, check_invariants
from tests.support.soak.post_contents import PostContents, PostShape
from tests.support.soak.soak_world import CLASSES, SoakWorld, pause, running_world, wait_for

SHARE = 0.14  # of upstream calls
FAULTS = ("status:500", "error_after", "reset_after", "late_effect:0.2")
"""The four of the experiment: before and after the effect, answered or not."""


def upstream_faults(seed: int, platforms: tuple[str, ...], share: float = SHARE) -> list[dict[str, Any]]:
    """All four on every call of these platforms, together on `share` of them."""
    each = 1 - (1 - share) ** (1 / len(FAULTS))
    return [
        {"fault": kind, "platform": name, "probability": each, "seed": seed + number}
        for name in platforms
        for number, kind in enumerate(FAULTS)
    ]


# --- At random moments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KillResult:
    report: InvariantReport
    journal: ClientJournal
    seed: int
    kills: int
    busy: int  # of them while clients or posts were under way
    seconds: float

    def table(self, name: str) -> str:
        head = f"{name}: seed {self.seed}, {self.kills} kills ({self.busy} with work under way), {self.seconds:.0f} s"
        return "\n".join([head, *self.report.lines()])


def run_random_kills(
    folder: Path,
    seed: int,
    kills: int,
    each: int,
    *,
    naive: bool = False,
    on: tuple[str, ...] = CLASSES,
    shapes: Mapping[str, tuple[PostShape, ...]] | None = None,
    minute: float = 60.0,
) -> KillResult:
    """SIGKILL at random moments, until `kills` are done and every client has its answers; then drain and check."""
    chance, began = random.Random(seed), time.monotonic()
    with running_world(folder, each=4, on=on, minute=minute) as world:
        world.lab.post("/lab/settings", {"listLagMs": 400, "processingMs": 50})
        world.start(naive=naive)
        contents = prepare_contents(world, shapes or {})
        world.lab.faults(*upstream_faults(seed, on))
        load = ClientLoad(world, each, seed, contents=contents).start()
        busy = _kill_often(world, load, chance, kills, naive)
        world.start(naive=naive)
        journal = load.finish()
        world.drain()
        assert world.stop() == 0
        report = check_invariants(world, journal)
    return KillResult(report, journal, seed, kills, busy, time.monotonic() - began)


def prepare_contents(world: SoakWorld, shapes: Mapping[str, tuple[PostShape, ...]]) -> PostContents:
    """Posts of these shapes, with their files uploaded to the running server."""
    contents = PostContents(shapes)
    if shapes:
        with world.client() as client:
            contents.upload(client)
    return contents


def _kill_often(world: SoakWorld, load: ClientLoad, chance: random.Random, kills: int, naive: bool) -> int:
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


# --- At named points -----------------------------------------------------------------------------------------------

IN_FLIGHT = "pub.after_send"
PUBLISHING = (
    "pub.after_claim",
    "pub.after_media",
    "pub.after_intent",
    IN_FLIGHT,
    "pub.after_reply",
    "pub.before_result",
    "pub.after_result",
)
ONCE = ("recover.mid", "beat.mid")  # a server comes by them once or seldom
SENDS: Mapping[str, tuple[str, ...]] = {
    "bluesky": ("*putRecord*",),
    "crate": ("publish",),
    "facebook": ("feed.post", "videos"),
    "instagram": ("containers.publish",),
    "linkedin": ("posts.create",),
    "pinterest": ("pins.create",),
    "plain": ("post",),
    "threads": ("containers.publish",),
    "tiktok": ("content.init", "video.upload"),
    "twitter": ("tweets.create",),
}
"""The public call of each platform: TikTok's draft is there with its last byte."""
PATIENCE = 20.0  # seconds for a server to come to its point, also on a busy machine
ROUNDS_MAX = 6  # for each kill that is wanted


@dataclass
class PointKills:
    """SIGKILL at each of `points`, `each` times, shared out evenly over the platforms named with it (none: anywhere).

    `done`: how often, by point and platform.
    """

    world: SoakWorld
    points: Mapping[str, tuple[str, ...]]
    each: int
    chance: random.Random
    done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self) -> None:
        """Round by round, one kill at each point that has not had enough."""
        for _ in range(self.each * ROUNDS_MAX):
            left = [point for point in self.points if self.lacks(point)]
            if not left:
                return
            for point in left:
                victim = self._in_flight() if point == IN_FLIGHT else self._at(point)
                if victim is not None:
                    self.done[point, victim] += 1

    def at(self, point: str) -> int:
        return sum(number for (name, _), number in self.done.items() if name == point)

    def lacks(self, point: str) -> bool:
        platforms = self.points[point]
        share = self.each // max(len(platforms), 1)
        return self.at(point) < self.each or any(self.done[point, name] < share for name in platforms)

    def shown(self) -> str:
        return "  ".join(f"{point} {self.at(point)}" for point in sorted(self.points))

    def _next(self, point: str) -> tuple[str, ...]:
        """The platforms that have not had more than their share of kills there."""
        platforms = self.points[point]
        return tuple(name for name in platforms if self.done[point, name] * len(platforms) < self.each)

    def _at(self, point: str) -> str | None:
        """Start a server that kills itself at its first to third passing or later; where it came to that."""
        nth = 1 if point in ONCE else self.chance.randint(1, 3)
        victims = self._next(point)
        child = self.world.start(f"{point}=kill@{nth}-1000", wait=False, victims=victims)
        if child.ended.wait(PATIENCE):
            assert child.code == -9, self.world.log.read_text()[-2000:]
            return self.world.victim.read_text() if victims else ""
        self.world.kill()
        return None

    def _in_flight(self) -> str | None:
        """Kill while the one public call is under way: the request is out, its effect comes after our death."""
        late = [
            {"fault": "late_effect:0.05", "platform": name, "operation": operation}
            for name in self._next(IN_FLIGHT)
            for operation in SENDS[name]
        ]
        self.world.lab.faults(*late)
        self.world.start(wait=False)
        wait_for(self._out, PATIENCE, 0.02)
        self.world.kill()
        victim = self._out()
        pause(0.1)
        self.world.lab.faults()
        return victim

    def _out(self) -> str | None:
        """The platform whose public call is under way."""
        return next((line["platform"] for line in self.world.lab.script() if line["fired"]), None)

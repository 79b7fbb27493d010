"""What socialpub answers in a second, as a share of what a bare Sanic handler does in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import load
from benchmarks.goals import SHARES, Goal
from benchmarks.load import Loaded, Script
from benchmarks.stage import ACCOUNTS, Bare, Side
from socialpub.base.runtime import iso

AHEAD_MS = 30 * 86_400_000  # scheduled posts are due after the run
IMMEDIATE_ACCOUNTS = 16
LISTED = 50


@dataclass(frozen=True)
class Work:
    """One kind of request: the load on a side, and the same job of the bare server."""

    goal: Goal
    script: Callable[[Side], Script]
    twin: Callable[[Side], Script]
    rows: int = 1  # that one request makes


@dataclass
class Shared:
    """The rounds of one row: by side, what it did beside the bare handler and beside the bare server's same job."""

    work: Work
    loads: dict[str, list[Loaded]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    likes: dict[str, list[float]] = field(default_factory=dict)

    def share(self, side: str) -> float:
        return statistics.median(self.shares[side])

    def like(self, side: str) -> float:
        return statistics.median(self.likes[side])

    def middle(self, side: str, of: Callable[[Loaded], float]) -> float:
        return statistics.median(of(load) for load in self.loads[side])

    def line(self, side: str) -> str:
        rate = self.middle(side, lambda load: load.rate) * self.work.rows
        p50, p99 = (self.middle(side, of) for of in (lambda load: load.p50, lambda load: load.p99))
        cpu, switches = (self.middle(side, of) for of in (lambda load: load.cpu_ms, lambda load: load.switches))
        return (
            f"{self.work.goal.name:<18}{side:<10}{rate:>9.0f}{self.share(side):>9.2%}{self.like(side):>9.2%}"
            f"{p50:>9.1f}{p99:>9.1f}{cpu:>9.2f}{switches:>9.1f}"
        )


HEAD = (
    f"{'row':<18}{'side':<10}{'a second':>9}{'of bare':>9}{'of same':>9}{'p50 ms':>9}{'p99 ms':>9}"
    f"{'CPU ms':>9}{'switches':>9}"
)


def _later() -> str:
    return iso(time.time_ns() // 1_000_000 + AHEAD_MS)


def _posts(targets: int, accounts: int = ACCOUNTS, *, later: bool) -> Callable[[Side], Script]:
    def script(side: Side) -> Script:
        at = _later() if later else ""
        return load.post("/v1/posts", side.key, side.accounts[:accounts], targets=targets, at=at)

    return script


def _parsed(targets: int, accounts: int = ACCOUNTS, *, later: bool) -> Callable[[Side], Script]:
    def script(side: Side) -> Script:
        at = _later() if later else ""
        return load.post("/posts", "", side.accounts[:accounts], targets=targets, at=at)

    return script


def _ready(path: str) -> Callable[[Side], Script]:
    """The bare server sends as many bytes as the side does."""
    return lambda side: load.get([f"/bytes/{len(side.get(path).content)}"])


def _some(side: Side) -> list[str]:
    """The paths of the newest posts; as many as a page has, and at least one is there."""
    if not (found := side.get("/v1/posts", limit=200).json()["data"]):
        raise LookupError("there are no posts to read")
    return [f"/v1/posts/{post['id']}" for post in found]


LIST = f"/v1/posts?limit={LISTED}"
_WORK = {
    "post_scheduled": (_posts(1, later=True), _parsed(1, later=True), 1),
    "post_scheduled_25": (_posts(25, later=True), _parsed(25, later=True), 25),
    "post_immediate": (_posts(1, IMMEDIATE_ACCOUNTS, later=False), _parsed(1, IMMEDIATE_ACCOUNTS, later=False), 1),
    "list": (lambda side: load.get([LIST], side.key), _ready(LIST), 1),
    "one": (lambda side: load.get(_some(side), side.key), lambda side: _ready(_some(side)[0])(side), 1),
    "health": (lambda side: load.get(["/healthz"]), _ready("/healthz"), 1),
}
WORK = tuple(Work(goal, *_WORK[goal.name]) for goal in SHARES)


def fill(side: Side, posts: int = 8) -> None:
    """So that there is something to read: batches for next month."""
    for number in range(posts):
        targets = [{"accountId": account} for account in side.accounts]
        side.post({"text": f"There is something to read, {number}.", "targets": targets, "scheduledAt": _later()})


def measure(work: Work, sides: Sequence[Side], bare: Bare, folder: Path, rounds: int, seconds: int) -> Shared:
    """Bare handler, the bare server's same job, and each side, by turns."""
    found = Shared(work, *({side.name: [] for side in sides} for _ in range(3)))
    scripts = {side.name: work.script(side) for side in sides}
    plain, twin = load.get(["/json"]), work.twin(sides[0])
    for _ in range(rounds):
        most = load.run(plain, bare.url, bare.process, folder, seconds).rate
        same = load.run(twin, bare.url, bare.process, folder, seconds).rate
        for side in sides:
            done = load.run(scripts[side.name], side.url, side.running, folder, seconds)
            found.loads[side.name].append(done)
            found.shares[side.name].append(done.rate * work.rows / most)
            found.likes[side.name].append(done.rate / same)
    return found

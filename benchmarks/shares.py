"""What socialpub answers in a second, as a share of what a bare Sanic handler does in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import load, raw
from benchmarks.goals import LOSSES, SHARES, Goal, Result
from benchmarks.load import Loaded, Script
from benchmarks.stage import ACCOUNTS, Side, Stage
from socialpub.base.runtime import iso

AHEAD_MS = 30 * 86_400_000  # scheduled posts are due after the run
IMMEDIATE_ACCOUNTS = 16
LISTED = 50
WRITTEN = ("post_scheduled", "post_scheduled_25")


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
    bare: list[float] = field(default_factory=list)  # a second
    raw: list[float] = field(default_factory=list)  # posts a second that sqlite3 itself writes, a commit each

    def share(self, side: str) -> float:
        return statistics.median(self.shares[side])

    def like(self, side: str) -> float:
        return statistics.median(self.likes[side])

    def middle(self, side: str, of: Callable[[Loaded], float]) -> float:
        return statistics.median(of(load) for load in self.loads[side])

    def loss(self, side: str, beside: str) -> float:
        """What the first does less than the second, in the middle of the rounds."""
        pairs = zip(self.loads[side], self.loads[beside], strict=True)
        return 1 - statistics.median(one.rate / other.rate for one, other in pairs)

    def results(self, stage: Stage) -> list[Result]:
        first, told = stage.first.name, "; ".join(self.told(side.name) for side in stage.sides)
        told += f"; bare {statistics.median(self.bare):,.0f}/s"
        if self.raw:
            told += f"; raw sqlite3 {statistics.median(self.raw):,.0f} posts/s, a commit for each batch"
        found = [Result(self.work.goal, 100 * self.share(first), told)]
        if stage.empty is not None:
            loss = next(goal for goal in LOSSES if goal.name == f"loss_{self.work.goal.name}")
            found.append(Result(loss, 100 * self.loss(first, stage.empty.name)))
        return found

    def told(self, side: str) -> str:
        rate = self.middle(side, lambda load: load.rate) * self.work.rows
        p50, p99 = (self.middle(side, of) for of in (lambda load: load.p50, lambda load: load.p99))
        cpu = self.middle(side, lambda load: load.cpu_ms)
        return (
            f"{side}: {rate:,.0f}/s, {self.like(side):.1%} of bare Sanic with the same job,"
            f" p50 {p50:.1f} ms, p99 {p99:.1f} ms, CPU {cpu:.2f} ms"
        )

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


def later() -> str:
    return iso(time.time_ns() // 1_000_000 + AHEAD_MS)


def _posts(targets: int, accounts: int = ACCOUNTS, *, scheduled: bool) -> Callable[[Side], Script]:
    def script(side: Side) -> Script:
        at = later() if scheduled else ""
        return load.post("/v1/posts", side.people.key, side.people.accounts[:accounts], targets=targets, at=at)

    return script


def _parsed(targets: int, accounts: int = ACCOUNTS, *, scheduled: bool) -> Callable[[Side], Script]:
    def script(side: Side) -> Script:
        at = later() if scheduled else ""
        return load.post("/posts", "", side.people.accounts[:accounts], targets=targets, at=at)

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
    "post_scheduled": (_posts(1, scheduled=True), _parsed(1, scheduled=True), 1),
    "post_scheduled_25": (_posts(25, scheduled=True), _parsed(25, scheduled=True), 25),
    "post_immediate": (
        _posts(1, IMMEDIATE_ACCOUNTS, scheduled=False),
        _parsed(1, IMMEDIATE_ACCOUNTS, scheduled=False),
        1,
    ),
    "list": (lambda side: load.get([LIST], side.people.key), _ready(LIST), 1),
    "one": (lambda side: load.get(_some(side), side.people.key), lambda side: _ready(_some(side)[0])(side), 1),
    "health": (lambda side: load.get(["/healthz"]), _ready("/healthz"), 1),
}
WORK = {goal.name: Work(goal, *_WORK[goal.name]) for goal in SHARES}


def fill(side: Side) -> None:
    """So that there is something to read, and to copy: batches for next month."""
    for number in range(8):
        targets = [{"accountId": account} for account in side.people.accounts]
        side.post({"text": f"There is something to read, {number}.", "targets": targets, "scheduledAt": later()})


def measure(stage: Stage, work: Work) -> Shared:
    """Bare handler, the bare server's same job, raw sqlite3 where it is a write, and each side, by turns."""
    names = [side.name for side in stage.sides]
    found = Shared(work, {name: [] for name in names}, {name: [] for name in names}, {name: [] for name in names})
    scripts = {side.name: work.script(side) for side in stage.sides}
    plain, twin, bare = load.get(["/json"]), work.twin(stage.first), stage.bare
    for _ in range(stage.rounds):
        most = load.run(plain, bare.url, bare.process, stage.folder, stage.seconds).rate
        same = load.run(twin, bare.url, bare.process, stage.folder, stage.seconds).rate
        found.bare.append(most)
        if work.goal.name in WRITTEN and stage.empty is not None:
            found.raw.append(raw.rate(stage.empty, stage.folder, stage.seconds, targets=work.rows))
        for side in stage.sides:
            done = load.run(scripts[side.name], side.url, side.running, stage.folder, stage.seconds)
            found.loads[side.name].append(done)
            found.shares[side.name].append(done.rate * work.rows / most)
            found.likes[side.name].append(done.rate / same)
    return found

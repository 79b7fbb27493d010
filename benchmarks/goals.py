"""Benchmark goals: the one table of measurements and the numbers to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["%", "ms", "s", "/s", "MB", "MiB", "times", ""]


@dataclass(frozen=True)
class BenchmarkGoal:
    """One row: where `must` is missed the run fails, `goal` is where we want to be. `at_least`: more is better."""

    name: str
    title: str
    unit: Unit
    must: float
    goal: float
    at_least: bool = False

    def holds(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound

    def shown(self, value: float) -> str:
        return f"{value:.3g} {self.unit}".rstrip() if abs(value) < 1000 else f"{value:,.0f} {self.unit}".rstrip()

    def told(self, bound: float) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.shown(bound)}"


@dataclass(frozen=True)
class BenchmarkResult:
    """A row as it was measured; `note`: what else was seen."""

    goal: BenchmarkGoal
    value: float
    note: str = ""

    @property
    def missed(self) -> bool:
        return not self.goal.holds(self.value, self.goal.must)

    @property
    def verdict(self) -> str:
        if self.missed:
            return "MISSED"
        return "goal" if self.goal.holds(self.value, self.goal.goal) else "must"


def _share(name: str, title: str, must: float, goal: float) -> BenchmarkGoal:
    return BenchmarkGoal(name, title, "%", must, goal, at_least=True)


def _most(name: str, title: str, unit: Unit, must: float) -> BenchmarkGoal:
    return BenchmarkGoal(name, title, unit, must, must)


def _count(name: str, title: str, unit: Unit, must: float) -> BenchmarkGoal:
    return BenchmarkGoal(name, title, unit, must, must, at_least=True)


SHARES = (  # of the requests a second that a bare Sanic handler answers, in the same run
    _share("post_scheduled", "POST scheduled, 1 target", 6.5, 9),
    _share("post_scheduled_25", "POST scheduled, 25 targets, as rows", 30, 50),
    _share("post_immediate", "POST immediate over 16 accounts, upstream 0 ms", 2, 4),
    _share("list", "GET a page of 50, of 65 pages by turns", 7, 20),
    _share("one", "GET one post, of 500 by turns", 15, 30),
    _share("health", "GET /healthz", 50, 80),
)
ALONE = BenchmarkGoal("immediate_alone", "POST immediate, one after another: p50 above the upstream's", "ms", 5, 3)
LOSSES = tuple(_most(f"loss_{goal.name}", f"{goal.title}: lost when full", "%", 25) for goal in SHARES)
ALONE_LOSS = _most(f"loss_{ALONE.name}", "POST immediate, one after another: p50 longer when full", "%", 25)
DUE = (
    _most("due_200", "200 due at once: p99 late", "s", 0.4),
    _most("due_1000", "1,000 due, upstream 2 s: the last is out after", "s", 4),
    _most("due_1000_accepted", "1,000 scheduled posts are accepted in", "s", 3),
    _most("due_100", "100 due, upstream 150 ms: the last is out after", "s", 0.6),
    _most("due_50_listing", "50 due while 16 clients list: the last is late by", "s", 0.5),
)
DELIVERIES = _share("deliveries", "Deliveries to a receiver, of what a bare client loop does", 50, 80)
DELIVERIES_RATE = _count("deliveries_rate", "Deliveries to a receiver", "/s", 1000)
DELIVERIES_SLOW = BenchmarkGoal(
    "deliveries_slow", "Deliveries to a receiver that takes 100 ms", "/s", 200, 300, at_least=True
)
START = _most("start", "Start, the slowest of: after a stop, after a kill, with a cold file", "s", 1)
BINARY = _most("binary", "Start of the one file, the slowest: its port is open after", "s", 1.2)
IDLE = (
    _most("idle_memory", "Idle: memory", "MiB", 90),
    _most("idle_cpu", "Idle: share of a core", "%", 0.2),
    _most("idle_read", "Idle: read in a minute", "MB", 1),
)
SEARCH = _most("search", "Search, the slowest of three letters and more, median", "ms", 50)
SHORT_SEARCH = _most("search_short", "Search, the slowest of one and two letters, median", "ms", 1000)
PAGES = _most("pages", "Pages of the dashboard: the slowest, median", "ms", 50)
KEYSTROKE = _most("keystroke", "Composer: a keystroke is checked for 25 accounts in, CPU", "ms", 100)
STEADY = (
    _most("steady_memory", "Steady load: memory grows by (allocators' noise: 4 MiB)", "MiB", 4),
    _most("steady_threads", "Steady load: threads grow by", "", 0),
    _most("steady_descriptors", "Steady load: descriptors grow by", "", 0),
)
LOADED = _most("loaded_memory", "Memory after all loads", "MiB", 200)
FSYNC = BenchmarkGoal(
    "fsync", "Disk with 5 ms fsync: POST scheduled beside one transaction a request", "times", 5, 5, at_least=True
)
LINES = _most("lines", "Size of the program without its simulator: lines", "", 54_500)
SIZE = _most("size", "Database for a million posts with history", "MB", 2000)
ROWS = (
    *SHARES,
    ALONE,
    *LOSSES,
    ALONE_LOSS,
    *DUE,
    DELIVERIES,
    DELIVERIES_RATE,
    DELIVERIES_SLOW,
    START,
    BINARY,
    *IDLE,
    SEARCH,
    SHORT_SEARCH,
    PAGES,
    KEYSTROKE,
    *STEADY,
    LOADED,
    FSYNC,
    SIZE,
    LINES,
)
GOALS = {goal.name: goal for goal in ROWS}

"""What is measured, and the numbers that it has to reach: the one table of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["share", "ms", "s"]


@dataclass(frozen=True)
class Goal:
    """One row: `must` is missed where the run fails, `goal` is where we want to be. `at_least`: more is better."""

    name: str
    title: str
    unit: Unit
    must: float
    goal: float
    at_least: bool = False

    def held(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


def _share(name: str, title: str, must: float, goal: float) -> Goal:
    return Goal(name, title, "share", must / 100, goal / 100, at_least=True)


SHARES = (  # of the requests a second that a bare Sanic handler answers, in the same run
    _share("post_scheduled", "POST scheduled, 1 target", 8, 16),
    _share("post_scheduled_25", "POST scheduled, 25 targets, as rows", 20, 50),
    _share("post_immediate", "POST immediate over 16 accounts, upstream 0 ms", 3.5, 7),
    _share("list", "GET /v1/posts?limit=50", 20, 35),
    _share("one", "GET one post", 20, 40),
    _share("health", "GET /healthz", 60, 80),
)
ALONE = Goal("immediate_alone", "POST immediate one after another, p50 above the upstream's", "ms", 6, 3)
GOALS = {goal.name: goal for goal in (*SHARES, ALONE)}

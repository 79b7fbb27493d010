"""A hanging platform with 300 due posts delays only its own posts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base.concurrency.fair_executor import HOST_FACTOR
from socialpub.base.http.circuit_breakers import FAILURES_TO_OPEN
from socialpub.domain.background.job_kinds import LATE_MS as OVERDUE_MS
from tests.support.app_server import format_instant
from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.invariants import AcknowledgedText, ClientJournal, check_invariants
from tests.support.soak.soak_world import SoakWorld, pressure, running_world, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ACCOUNTS, EACH, OTHERS = 150, 2, 10
WORKERS = 32
HANGS_SECONDS = 3.0  # that a call is allowed to take
LEAD_MS = 10_000  # from the first request to the time at which all are due
LATE_MS = 1000
TRIES = 3  # at most, while it hangs
SPACING = 2  # seconds between two overdue posts of one account
LATENCY_MS = 200  # of each call once the platform answers again, so that calls at once are seen


@dataclass
class Hanging:
    """`crate` does not answer, `plain` does; posts to both are due at the same moment."""

    world: SoakWorld
    journal: ClientJournal = field(default_factory=ClientJournal)
    due: int = 0

    def schedule(self) -> None:
        self.due = int(time.time() * 1000) + LEAD_MS
        with self.world.client() as client:
            for turn in range(EACH):
                accounts = self.world.accounts["crate"]
                for start in range(0, ACCOUNTS, 25):
                    self._batch(client, "crate", f"held {turn}", accounts[start : start + 25])
            self._batch(client, "plain", "other", self.world.accounts["plain"][:OTHERS])

    def _batch(self, client: httpx.Client, platform: str, text: str, accounts: list[str]) -> None:
        targets = [{"accountId": account, "text": f"{text} {account}"} for account in accounts]
        body = {"text": text, "targets": targets, "scheduledAt": format_instant(self.due)}
        answer = client.post("/v1/posts", json=body)
        assert answer.status_code == 202, answer.text
        for target, result in zip(targets, answer.json()["results"], strict=True):
            said = AcknowledgedText(target["text"], platform, result["postId"], self.due)
            self.journal.said[said.text] = said

    def out(self, platform: str) -> list[dict[str, Any]]:
        return [entry for entry in self.world.lab.ledger() if entry["platform"] == platform]

    def calls(self) -> list[dict[str, Any]]:
        """What the platform was asked while it hung, then what after that, in the order of arrival."""
        return [call for call in self.world.lab.calls() if call["platform"] == "crate"]

    def open(self) -> int:
        ended = "('published', 'failed', 'rejected', 'canceled')"
        sql = f"SELECT count(*) AS n FROM post WHERE platform = ? AND status NOT IN {ended}"
        return int(self.world.rows(sql, "crate")[0]["n"])

    def silent(self) -> list[str]:
        answer = httpx.get(f"{self.world.url}/readyz", trust_env=False, timeout=10)
        return list(answer.json().get("silent", []))

    def spaced(self) -> list[float]:
        """The seconds between the two posts of each account."""
        times: dict[str, list[int]] = {}
        for entry in self.out("crate"):
            times.setdefault(entry["account"], []).append(entry["at_ms"])
        return [(later - sooner) / 1000 for ms in times.values() for sooner, later in itertools.pairwise(sorted(ms))]


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    settings = {"publishing": {"workers": WORKERS}, "scheduling": {"overdue_spacing": SPACING}}
    with running_world(tmp_path, ACCOUNTS, on=("crate", "plain"), **settings) as world:
        world.deadline = HANGS_SECONDS
        yield Hanging(world)


def test_300_posts_to_a_hanging_platform_wait_alone_and_go_out_later(hanging: Hanging, tell: ReportLine) -> None:
    world, lab, busy = hanging.world, hanging.world.lab, pressure()
    lab.faults({"fault": "delay:600", "platform": "crate", "effect": False})
    world.start()
    hanging.schedule()

    assert wait_for(lambda: len(hanging.out("plain")) == OTHERS, 60, 0.1), world.log.read_text()[-3000:]
    late = max(entry["at_ms"] - hanging.due for entry in hanging.out("plain"))
    assert hanging.open() == ACCOUNTS * EACH
    assert hanging.out("crate") == []
    assert wait_for(lambda: hanging.silent() == ["crate"], 60, 0.1)

    overdue = hanging.due + OVERDUE_MS
    assert wait_for(lambda: time.time() * 1000 > overdue, 60)
    hung = hanging.calls()
    lab.post("/lab/settings", {"latencyMs": LATENCY_MS})
    world.drain(120)
    assert hanging.silent() == []
    assert world.stop() == 0

    report, spaced = check_invariants(world, hanging.journal), hanging.spaced()
    at_once, slowest = _at_once(hanging.calls())
    times = [entry["at_ms"] for entry in hanging.out("crate")]
    took = (max(times) - min(times)) / 1000
    tell(
        f"{ACCOUNTS * EACH} posts held by a platform that hangs: {OTHERS} of another at most {late} ms late (the"
        f" machine {busy:.1f} times busier than ours alone); it was asked {len(hung)} times while it hung; then all"
        f" went out in {took:.1f} s, at most {at_once} at once, two of one account at least {min(spaced):.2f} s apart"
    )
    tell("\n".join(report.lines()))
    assert report.whole, "\n".join(report.lines())
    assert report.statuses == {"published": ACCOUNTS * EACH + OTHERS}
    assert not slowest
    # Its share of the workers, those that took one more before enough calls had ended, and the tries after that.
    assert len(hung) <= WORKERS * HOST_FACTOR // (HOST_FACTOR + 1) + 1 + FAILURES_TO_OPEN + TRIES
    assert len(spaced) == ACCOUNTS
    assert min(spaced) >= SPACING - 0.1
    assert late <= LATE_MS * busy or not TIMED


def _at_once(calls: list[dict[str, Any]]) -> tuple[int, list[tuple[int, int]]]:
    """How many calls were under way at once after the platform had come back, and where that was more than one for
    each that it had answered."""
    arrived = [call["at_ms"] for call in calls if call["fault"] is None]
    most, wrong = 0, []
    for number, at in enumerate(arrived):
        under_way = sum(at - other < LATENCY_MS for other in arrived[: number + 1])
        answered = number + 1 - under_way  # or fewer, which would allow less
        most = max(most, under_way)
        if under_way > max(1, answered):
            wrong.append((answered, under_way))
    return most, wrong

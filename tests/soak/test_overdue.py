"""Start with ten thousand overdue posts: each is published once or fails with events."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from socialpub.store.queries.events import TYPE_NUMBERS
from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.invariants import ClientJournal, check_invariants
from tests.support.soak.soak_world import (
    ROOT,
    SoakWorld,
    configured_count,
    pause,
    pressure,
    running_world,
    schedule_soon,
    wait_for,
)

pytestmark = [pytest.mark.slow, pytest.mark.alone]

POSTS = configured_count("overdue", 10_000)
LEADS = (2.0, 5.0, 15.0)  # seconds from a request to the time of its post
ACCOUNTS = 60  # of each class
PORT_SECONDS = 5.0
P99_MS = 250.0


def test_ten_thousand_overdue_posts_are_published_once(tmp_path: Path, tell: ReportLine) -> None:
    with running_world(tmp_path, each=ACCOUNTS, scheduling={"overdue_spacing": 2}) as world:
        _insert(world, POSTS, late_seconds=600)
        opened, probe, took = _drained(world)
        report = check_invariants(world, ClientJournal())
        spaced = _closest(world)
    tell(f"{POSTS} overdue: port {opened:.2f} s, drained in {took:.0f} s, {probe}, closest {spaced:.2f} s")
    tell("\n".join(report.lines()))
    assert report.whole, "\n".join(report.lines())
    assert report.statuses["published"] == POSTS + probe.scheduled
    assert opened <= PORT_SECONDS * probe.pressure or not TIMED
    assert probe.p99 < P99_MS * probe.pressure or not TIMED
    assert spaced >= 1.9


def test_ten_thousand_posts_beyond_the_grace_time_fail_with_events(tmp_path: Path, tell: ReportLine) -> None:
    with running_world(tmp_path, each=ACCOUNTS) as world:
        _insert(world, POSTS, late_seconds=3700)
        opened, probe, took = _drained(world)
        report = check_invariants(world, ClientJournal())
        rules = world.rows("SELECT count(*) AS n FROM post WHERE error LIKE '%schedule.overdue%'")[0]["n"]
        told = world.happened(type="post.failed")
        posted = len(world.lab.ledger())
    tell(f"{POSTS} beyond the grace time: port {opened:.2f} s, told in {took:.0f} s, {probe}")
    assert report.whole, "\n".join(report.lines())
    assert (rules, len(told), posted) == (POSTS, POSTS, probe.scheduled)
    shown = json.loads(told[0].data)
    assert (shown["error"]["rule"], shown["willRetry"]) == ("schedule.overdue", False)
    assert opened <= PORT_SECONDS * probe.pressure or not TIMED
    assert probe.p99 < P99_MS * probe.pressure or not TIMED


def _drained(world: SoakWorld) -> tuple[float, Probe, float]:
    """Seconds until the port answered, what the clients measured, seconds until nothing was open."""
    busy = pressure()  # before anything of ours runs
    began = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.support.soak.command_main",
            "serve",
            "--config",
            str(world.folder / "socialpub.toml"),
        ],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_for(lambda: _answers(world), 60, 0.02)
        opened = time.monotonic() - began
        probe = Probe(world, pressure=busy).start()
        assert wait_for(lambda: not _overdue_left(world), 600, 1.0), _overdue_left(world)
        took = time.monotonic() - began
        probe.stop()
        assert wait_for(lambda: not world.open_posts(), 60, 0.5)
    finally:
        process.terminate()
        assert process.wait(60) == 0
    return opened, probe, took


def _overdue_left(world: SoakWorld) -> int:
    ended = "('published', 'failed', 'rejected', 'canceled')"
    sql = f"SELECT count(*) AS n FROM post WHERE status NOT IN {ended} AND text LIKE 'overdue %'"
    return int(world.rows(sql)[0]["n"])


def _answers(world: SoakWorld) -> bool:
    try:
        return httpx.get(f"{world.url}/healthz", trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@dataclass
class Probe:
    """A client that lists, reads and schedules all the time, and what it waited."""

    world: SoakWorld
    times: list[float] = field(default_factory=list)
    scheduled: int = 0
    pressure: float = 1.0  # the limits are those of a machine of our own

    def start(self) -> Probe:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        headers = {"Authorization": f"Bearer {self.world.key}"}
        with httpx.Client(base_url=self.world.url, headers=headers, trust_env=False, timeout=60) as client:
            for number in itertools.count():
                if self._ends.is_set() and number > 20:
                    return
                self._time(lambda: client.get("/v1/posts?limit=20"))
                self._time(lambda: client.get("/v1/posts?status=failed&limit=20"))
                target = {"accountId": self.world.accounts["plain"][number % ACCOUNTS]}
                body = {"text": f"probe {number}", "targets": [target]}
                self._time(lambda body=body: schedule_soon(client, body, *LEADS)[0])
                self.scheduled += 1
                pause(0.05)

    def _time(self, ask: Callable[[], httpx.Response]) -> None:
        began = time.perf_counter()
        answer = ask()
        self.times.append((time.perf_counter() - began) * 1000)
        assert answer.is_success, answer.text

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.times, n=100)[98]

    def __str__(self) -> str:
        median = statistics.median(self.times)
        return (
            f"API p50 {median:.0f} ms, p99 {self.p99:.0f} ms, max {max(self.times):.0f} ms ({len(self.times)} calls, "
            f"the machine {self.pressure:.1f} times busier than ours alone)"
        )


def _insert(world: SoakWorld, posts: int, late_seconds: int) -> None:
    """Rows as accepting makes them, put into the file by hand: they were due while no server ran."""
    world.start()  # a database that never had a server, and has posts, would be a copy
    assert world.stop() == 0
    accounts = [(name, ids[number]) for number in range(ACCOUNTS) for name, ids in world.accounts.items()]
    due = int((time.time() - late_seconds) * 1000)
    with contextlib.closing(sqlite3.connect(world.database)) as connection, connection:
        (organization,) = connection.execute("SELECT id FROM organization").fetchone()
        (owner,), (profile,) = (
            connection.execute(f"SELECT number FROM {table}").fetchone() for table in ("organization", "profile")
        )
        numbers = dict(connection.execute("SELECT id, number FROM account").fetchall())
        for number in range(posts):
            platform, account = accounts[number % len(accounts)]
            post, batch, made = f"{number:08}-0000-7000-8000-000000000001", f"{number:08}-b", due - 60_000
            _row(connection, "batch", id=batch, organization=owner, created_at=made, scheduled_at=due + number)
            _row(
                connection, "post", number=number + 1, id=post, organization=owner, profile=profile,
                account=numbers[account], platform=platform, batch=batch, position=0, status="queued",
                text=f"overdue {number}", text_fold=f"overdue {number}", media="[]", options="{}",
                scheduled_at=due + number, warnings="[]",
                attempts=0, tries=0, created_at=made, updated_at=made,
            )  # fmt: skip
            _row(
                connection, "job", key=post, kind="publish", serial_group=account, visible_at=due + number, claims=0,
                host=platform, owner=organization,
            )  # fmt: skip
            for kind in ("post.queued", "post.validated"):
                _row(
                    connection, "event", organization=owner, type=TYPE_NUMBERS[kind], post=number + 1,
                    scheduled_at=due + number, created_at=made,
                )  # fmt: skip
        period = time.strftime("%Y-%m", time.gmtime())
        _row(connection, "usage", organization=organization, period=period, posts=posts, warned=0, exceeded=0)


def _row(connection: object, table: str, **values: object) -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))  # type: ignore[attr-defined]


def _closest(world: SoakWorld) -> float:
    """Seconds between the two overdue posts of one account that came closest."""
    times: dict[str, list[int]] = {}
    for entry in world.lab.ledger():
        if entry["text"].startswith("overdue"):
            times.setdefault(f"{entry['platform']} {entry['account']}", []).append(entry["at_ms"])
    gaps = [b - a for ms in times.values() for a, b in itertools.pairwise(sorted(ms))]
    return min(gaps) / 1000

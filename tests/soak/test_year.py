"""A simulated year of daily posts, token and version ends, backups and retention.

The test moves the clocks. SOAK_YEAR_POSTS: posts a day, in five platforms' shares. The file and the memory level off:
the last quarter has what the one before had. Every post is out once, and each need for a person is reported.
"""

from __future__ import annotations

import base64
import gc
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from socialpub import platforms
from socialpub.domain.accounts.api_versions import NOTICE_MS, RETIRED_RULE_SUFFIX
from socialpub.domain.backups import verification
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.server import instance
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET, find_server
from socialpub.store.engine import sql
from socialpub.store.jobs import job_queue
from socialpub.store.queries.maintenance import IS_OPEN
from socialpub.store.schema.models import TABLES, Account, VersionNotice
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.media_files import picture
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import configured_count, wait_for

pytestmark = pytest.mark.slow

DAYS = configured_count("year_days", 365)
POSTS = configured_count("year_posts", 100)  # a day
STEPS = 4 if POSTS >= 40 else 1  # a day
STEP_SECONDS = 86_400 // STEPS
ON = ("bluesky", "facebook", "linkedin", "pinterest", "twitter")
MONTH = 30
QUARTER = 3 * MONTH  # by its end the first rows of everything are past their time
KEPT = dict.fromkeys(("events", "notifications", "intents", "attempts", "audit", "media"), "30d") | {"posts": "60d"}
# glibc takes memory in steps; a picture that is sent again may have two files until the older one is past its time.
SLACK = {"database": 50_000, "memory": 50_000_000, "files of media": 100}
BACKUPS = 3
SCOPES = ("openid", "profile", "w_member_social")
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A scheduler that makes its rounds often: between two there are hours here."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.02)
    # Files on the disk have the machine's time: by the test's, each upload was begun long ago.
    monkeypatch.setattr(files, "LEFTOVER_SECONDS", 10 * 365 * 86_400.0)
    logging.disable(logging.WARNING)  # pytest keeps every line
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def server(make_server: Callable[..., AppServer], lab: Any, tmp_path_factory: pytest.TempPathFactory) -> AppServer:
    app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    return make_server(
        platforms={name: {"api_base": lab.origin(name), **app} for name in ON},
        retention=KEPT,
        backup={"directory": str(tmp_path_factory.mktemp("backups")), "keep": BACKUPS},
        limits={"posts": 10_000},
        scheduling={"overdue_spacing": 0},  # by the real clock, and here everything is due at once
    )


class Year:
    """The days of one server and one person."""

    def __init__(self, server: AppServer, person: Person) -> None:
        self.server, self.person = server, person
        self.made = self.out = self.connected_again = 0
        self.refused: list[dict[str, Any]] = []
        self.accounts = {name: account["id"] for name, account in person.accounts.items()}
        self.sizes: dict[int, dict[str, int]] = {}

    def live(self, days: int) -> None:
        month = self.server.clock.now_ms()
        for day in range(1, days + 1):
            for step in range(STEPS):
                self._step(POSTS * (step + 1) // STEPS - POSTS * step // STEPS)
            if day % MONTH == 0 or day == days:
                self._look_back(month)
                month = self.server.clock.now_ms()
                self.sizes[day] = self._measured()

    def _look_back(self, since_ms: int) -> None:
        """Each post of the month is out once, or refused; then the platforms, in this process too, forget theirs."""
        rows = [row for row in self.server.rows() if row["created_at"] >= since_ms]
        out = [row["text"] for row in rows if row["status"] == "published"]
        self.out += len(out)
        self.refused += [row for row in rows if row["status"] != "published"]
        assert self.out + len(self.refused) == self.made
        assert Counter(post.text for post in self.server.lab.lab.ledger.posts()) == Counter(out)
        self.server.lab.lab.reset()

    def _step(self, posts: int) -> None:
        """Half of them at once, half at the end of these hours."""
        self._connect_again()
        ends = self.server.clock.now_ms() + STEP_SECONDS * 1000
        for number in range(posts):
            self._post(None if number % 2 else ends)
        self._pass(STEP_SECONDS + 1)
        assert wait_for(self._is_quiet, 120), self._open()

    def _connect_again(self) -> None:
        """What a person does who is told that an authorization ends: LinkedIn's two months, which nobody can renew."""
        for row in self.server.rows(Account):
            if row["status"] == "active":
                continue
            told = {data["accountId"] for kind, data in self.server.events() if kind == "token.expiring"}
            assert row["id"] in told, row
            authorization = find_server(self.server.lab.lab.fake(row["platform"]))
            assert authorization
            issue = authorization.issue(row["platform_account_id"].rpartition(":")[2], SCOPES)
            tokens = Tokens(issue.access, issue.refresh, (issue.now + issue.expires_in) * 1000)  # type: ignore[operator]
            identity = AccountIdentity(row["platform_account_id"], row["display_name"])
            self.server._keep(self.person, row["platform"], row["platform"], identity, tokens)
            self.connected_again += 1

    def _post(self, at_ms: int | None) -> None:
        platform = ON[self.made % len(ON)]
        body: dict[str, Any] = {"text": f"post {self.made}", "targets": [{"accountId": self.accounts[platform]}]}
        if platform == "pinterest":
            image = picture(size=(100 + self.made % 97, 100))
            body["media"] = [{"kind": "image", "bytesBase64": base64.b64encode(image).decode()}]
        if at_ms is not None:
            body["scheduledAt"] = format_instant(at_ms)
        answer = self.person.api.publish(body, key=f"post-{self.made}")
        assert answer.is_success, answer.text
        self.made += 1

    def _pass(self, seconds: float) -> None:
        assert wait_for(self._is_idle, 60)
        self.server.pass_time(seconds)
        self.server.lab.lab.calls.clear()

    def _is_idle(self) -> bool:
        """Nothing is under way that hours would cut off."""
        tasks = self.server.service.jobs.storage
        return not self.server.engine.periodic.token_refresher._running and not tasks._tasks and not tasks._running

    def _is_quiet(self) -> bool:
        """All that is due is out, and the scheduler has made a round since the hours passed."""
        engine = self.server.engine
        return not self._open() and engine.heartbeat > self.server.clock.monotonic() - 3600 and self._is_idle()

    def _open(self) -> list[str]:
        read = self.server.service.read(lambda: sql.fetch_all(f"SELECT status FROM post WHERE {IS_OPEN}"))
        return [status for (status,) in read.result()]

    def _measured(self) -> dict[str, int]:
        gc.collect()
        service, home = self.server.service, self.server.home
        service.write(lambda tx: None).result()
        found = {"database": (home / "socialpub.db").stat().st_size, "memory": memory()}
        found["files of media"] = sum(path.is_file() for path in (home / "media").rglob("*"))
        return found | {table._meta.table_name: rows(service, table) for table in TABLES}


def rows(service: AppContext, table: Any) -> int:
    return int(service.read(lambda: table.select().count()).result())


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def person(server: AppServer) -> Person:
    person = server.connected_person("Dora")
    for name in ON:
        if name != "bluesky":
            server.connect_simulated(person, name, handle=f"dora-{name}")
    return person


def test_a_year_goes_by_without_anybody(server: AppServer, person: Person, tell: ReportLine) -> None:
    began, person.api.watch = server.clock.now_ms(), None  # which would keep every answer
    year = Year(server, person)
    year.live(DAYS)
    tell(told(year))

    assert [row for row in year.refused if not is_of_an_ended_version(server, row)] == []

    last = {day: found for day, found in year.sizes.items() if day > DAYS - QUARTER}
    before = {day: found for day, found in year.sizes.items() if max(QUARTER, DAYS - 2 * QUARTER) < day not in last}
    for what in year.sizes[DAYS]:
        most, had = (max(found[what] for found in quarter.values()) for quarter in (last, before))
        assert most <= had * 1.1 + SLACK.get(what, 50), (what, had, most)

    backups = sorted(Path(server.service.runtime.settings.backup.directory).glob("*.zip"))
    assert len(backups) == BACKUPS
    assert verification.verify_backup(backups[-1], lambda what, done, total: None).problems == ()
    newest = datetime.strptime(backups[-1].name, "socialpub-%Y%m%dT%H%M%SZ.zip").replace(tzinfo=UTC)
    assert server.clock.now_ms() - newest.timestamp() * 1000 < 2 * DAY_MS

    assert year.connected_again <= DAYS // 50 + 1
    versions = {row["platform"]: row["told_at"] for row in server.rows(VersionNotice)}
    assert set(versions) == {name for name in ON if sunset(server, name) <= server.clock.now_ms() + NOTICE_MS}
    for name, at_ms in versions.items():  # a person had three months
        assert at_ms <= max(began, sunset(server, name) - NOTICE_MS) + 2 * DAY_MS, name
    assert server.service.read(instance.get_pause_reason).result() is None


def sunset(server: AppServer, name: str) -> float:
    """When the version of a platform's API that is called ends; never, where none is told."""
    day = platforms.PLATFORMS[name].find_sunset(server.service.sites[name])
    return math.inf if day is None else parse_instant(day)


def is_of_an_ended_version(server: AppServer, row: dict[str, Any]) -> bool:
    """What a person was told of in time, and nobody did anything about."""
    rule = json.loads(row["error"] or "{}").get("rule") or ""
    return rule.endswith(RETIRED_RULE_SUFFIX) and row["updated_at"] >= sunset(server, row["platform"])


def told(year: Year) -> str:
    lines = [f"{year.made} posts in {DAYS} days; an account was connected again {year.connected_again} times, as told"]
    for day, found in sorted(year.sizes.items()):
        counts = ", ".join(f"{what} {found[what]}" for what in ("post", "event", "intent", "audit", "files of media"))
        sizes = f"database {found['database'] / 1e6:.1f} MB, memory {found['memory'] / 1e6:.0f} MB"
        lines.append(f"day {day}: {sizes}; {counts}")
    return "\n".join(lines)

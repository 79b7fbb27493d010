"""Publishing engine without a web server, and fair job claims across job kinds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.domain.background.job_kinds import JOB_KINDS, JobKind
from socialpub.simulator.server import SimulatorThread
from socialpub.store.engine import sql
from socialpub.store.engine.sqlite import proxy
from socialpub.store.jobs.leases import Claim
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.soak.soak_world import wait_for

BACKLOG = 10_000
NAMES = [kind.name for kind in JOB_KINDS]


# --- Without a web server --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_scheduled_post_goes_out_where_there_is_no_web_server(tmp_path: Path, lab: SimulatorThread) -> None:
    made = lab.lab.add_account("bluesky", handle="alone.test")
    arguments = (str(tmp_path), lab.origin("bluesky"), made["handle"], made["appPassword"])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.standalone_engine", *arguments],
        capture_output=True,
        timeout=60,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"status": "published", "web": []}
    assert [post.text for post in lab.lab.ledger.posts()] == ["without a web server"]


# --- Kinds of job ----------------------------------------------------------------------------------------------------


def hold(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is claimed until `go_on`."""
    monkeypatch.setattr(server.service.jobs, "paused", lambda: NAMES)


def go_on(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.service.jobs, "paused", server.engine.gate.list_held_kinds)
    server.service.jobs.wakeup.wake()


def backlog(server: AppServer, kind: str) -> None:
    """Jobs that are due for longer than any other; nothing is left to be done for them."""
    rows = [(f"{kind}:{number}:0:x", kind, "", 1, 0, "", "") for number in range(BACKLOG)]
    columns = "key, kind, serial_group, visible_at, claims, host, owner"

    def write(tx: Any) -> None:
        for start in range(0, BACKLOG, 1000):
            part = rows[start : start + 1000]
            places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(part))
            values = tuple(value for row in part for value in row)
            proxy.execute_sql(f"INSERT INTO job ({columns}) VALUES {places}", values)

    server.service.write(write).result()


@pytest.fixture
def claimed(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the workers claim, in order: kind and key."""
    told: list[tuple[str, str]] = []
    usual = server.service.jobs.claim

    def claim(wanted: Iterable[Claim]) -> list[Claim]:
        got = usual(wanted)
        told.extend((claim.kind, claim.key) for claim in got)
        return got

    monkeypatch.setattr(server.service.jobs, "claim", claim)
    return told


@pytest.mark.parametrize("kind", [kind for kind in JOB_KINDS if kind.name != "publish"], ids=lambda kind: kind.name)
def test_a_due_post_is_among_the_next_claims_whatever_else_is_due(
    kind: JobKind, server: AppServer, alice: Person, claimed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(server, monkeypatch)
    backlog(server, kind.name)
    body = {
        "text": "on time",
        "targets": [{"accountId": alice.bluesky}],
        "scheduledAt": format_instant(server.clock.now_ms() + 60_000),
    }
    post = alice.api.publish(body).json()["results"][0]["postId"]
    server.skip(61)
    go_on(server, monkeypatch)
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "published", 60)
    assert claimed.index(("publish", post)) < server.service.runtime.settings.publishing.workers


@pytest.mark.parametrize("kind", [kind for kind in JOB_KINDS if kind.name != "publish"], ids=lambda kind: kind.name)
def test_due_post_gets_a_slot_while_another_kind_fills_its_own(
    kind: JobKind, server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, me = server.service.jobs, threading.get_ident()
    monkeypatch.setattr(jobs, "paused", lambda: () if threading.get_ident() == me else NAMES)  # the workers are held
    backlog(server, kind.name)
    taken = [claim for _ in range(3) for claim in jobs.claim(jobs.due(100)[0])]
    assert [claim.kind for claim in taken] == [kind.name] * kind.concurrency(server.service.runtime.settings)
    share = ShareKey("bluesky", alice.organization)
    server.service.write(lambda tx: jobs.put(tx, "publish", "due", jobs.clock.now_ms(), alice.bluesky, share)).result()
    assert [claim.key for claim in jobs.due(1)[0]] == ["due"]
    for claim in taken:
        jobs.leave(claim)
        jobs.drop(claim)


def test_claiming_goes_through_the_index_of_kind_and_time(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits for later, or is of another kind, is not looked at; nothing is sorted."""
    jobs, me = server.service.jobs, list[int]()
    jobs.shares.host_limits = lambda: {"silent": 0}
    plans: list[list[str]] = []

    def told(asked: Callable[..., Any]) -> Callable[..., Any]:
        def telling(text: str, params: Any = ()) -> Any:
            if threading.get_ident() in me:
                explained = proxy.connection().execute(f"EXPLAIN QUERY PLAN {text}", params or ()).fetchall()
                plans.append([row[3] for row in explained if re.match("SEARCH|SCAN (?!json_each|known|.sub)", row[3])])
            return asked(text, params)

        return telling

    def plan() -> None:
        me.append(threading.get_ident())
        with monkeypatch.context() as watched:
            watched.setattr(proxy.obj, "execute_sql", told(proxy.obj.execute_sql))
            watched.setattr(sql, "execute", told(sql.execute))
            jobs._build_read(1, dict.fromkeys(NAMES, 3), {"serial_group"})()
            jobs._times["publish"](["post"])

    server.service.read(plan).result()
    looks, *usual, times = plans
    assert [len(steps) for steps in usual] == [1] * len(JOB_KINDS) + [2]
    for step in [step for steps in usual for step in steps]:
        assert re.match(
            r"SEARCH job USING (COVERING )?INDEX job_kind_visible_at_key_serial_group_host_owner \(kind=", step
        )
    assert [re.sub("INDEX .*", "", step) for step in times] == ["SEARCH post USING "]
    assert any("(key=?)" in step or "INDEX job_kind_visible_at" in step for step in looks), looks
    assert not [step for step in looks if "SCAN" in step and "intent_open" not in step], looks  # only of open intents


def test_every_kind_that_is_put_is_in_the_table() -> None:
    source = "".join(path.read_text() for path in Path("socialpub").rglob("*.py"))
    put = set(re.findall(r'(?:\.put|\.put_new|\.put_held|_enqueue)\(\s*(?:tx|service), "(\w+)"', source))
    assert put == set(NAMES)


def test_what_a_pause_leaves_alone_is_what_publishes() -> None:
    assert [kind.name for kind in JOB_KINDS if kind.pausable] == ["publish"]

"""Limits of concurrent publishing: file descriptors, threads, claims per transaction."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.concurrency.fair_executor import FairShareLimiter, ShareKey
from socialpub.base.settings_sections import PublishingSettings
from socialpub.base.system import host_identity
from socialpub.domain.context.app_context import CONCURRENCY_MIN, limit_concurrency
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs.job_queue import CLAIMS_MAX
from socialpub.store.jobs.leases import Claim
from tests.support.app_server import MovableClock, format_instant
from tests.support.publishing_protocol import ProtocolServer
from tests.support.soak import extra_platforms
from tests.support.soak.soak_world import wait_for

BURST, BATCH = 275, 25  # accounts with a post each, and how many of them in a request
LIMITS = """
import json, resource
from socialpub.base.system import host_identity
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
before = host_identity.get_file_limit()
host_identity.raise_file_limit()
print(json.dumps([before, host_identity.get_file_limit(), hard, host_identity.FILE_LIMIT_MAX]))
"""


# --- How much ---


def test_thousand_posts_of_one_organization_to_one_platform_are_queued() -> None:
    for places in (PublishingSettings().workers, PublishingSettings().threads):
        shares = FairShareLimiter(places)
        assert sum(shares.try_enter(ShareKey("platform", "greedy")) for _ in range(2000)) == 1000
        assert sum(shares.try_enter(ShareKey("another", "modest")) for _ in range(2000)) == 334


@pytest.mark.parametrize(
    "asked, limit, wanted",
    [(1500, 20_000, 1500), (1500, 1024, 206), (8, 1024, 8), (1500, 128, CONCURRENCY_MIN), (1, 16, 1)],
)
def test_no_more_than_there_are_descriptors_for(
    asked: int, limit: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_identity, "get_file_limit", lambda: limit)
    assert limit_concurrency(asked) == wanted


def test_a_server_takes_as_many_descriptors_as_it_may() -> None:
    said = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, timeout=60, check=True)
    before, after, hard, most = json.loads(said.stdout)
    assert before == 256
    assert after == (most if hard < 0 else min(hard, most))


# --- A burst ---


@pytest.fixture
def server(tmp_path: Path, three: SimulatorThread, wall: MovableClock) -> Iterator[ProtocolServer]:
    three.lab.reset()
    server = ProtocolServer(tmp_path, three, wall, {"publishing": {"workers": PublishingSettings().workers}})
    server.start()
    server.furnish()
    yield server
    server.stop()
    three.lab.reset()


def connected(server: ProtocolServer) -> list[str]:
    """Accounts of one organization on one platform; their ids."""
    ids = []
    for number in range(BURST):
        made = server.lab.lab.add_account("plain", id=f"plain-{number}")
        name = f"plain-{number}"
        ids.append(
            server._keep(server.alice, name, "plain", AccountIdentity(name, name), Tokens(made["accessToken"]))["id"]
        )
    return ids


def schedule(server: ProtocolServer) -> int:
    """A post for each account, all due in an hour."""
    accounts, due = connected(server), server.clock.now_ms() + 3_600_000
    for start in range(0, BURST, BATCH):
        targets = [{"accountId": account, "text": account} for account in accounts[start : start + BATCH]]
        server.alice.api.publish({"text": "due", "targets": targets, "scheduledAt": format_instant(due)})
    return due


class Gate:
    """Where a platform's calls wait until it is opened; how many do."""

    def __init__(self) -> None:
        self.open, self.inside = threading.Event(), 0
        self._lock = threading.Lock()

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def gated(*given: Any) -> Any:
            with self._lock:
                self.inside += 1
            self.open.wait(120)
            return step(*given)

        return gated


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made, connector = Gate(), extra_platforms.CONNECTORS["plain"]
    monkeypatch.setattr(connector, "prepare", made.around(connector.prepare))
    yield made
    made.open.set()


@pytest.fixture
def claims(server: ProtocolServer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each transaction has claimed."""
    made: list[int] = []
    usual = server.service.jobs.claim

    def claim(wanted: Iterable[Claim]) -> list[Claim]:
        got = usual(wanted)
        made.append(len(got))
        return got

    monkeypatch.setattr(server.service.jobs, "claim", claim)
    return made


@pytest.mark.slow
def test_a_burst_is_claimed_in_few_transactions_and_is_under_way_at_once(
    server: ProtocolServer, gate: Gate, claims: list[int]
) -> None:
    crew = server.service.executors.upstream_pool
    idle = crew.threads
    schedule(server)
    assert crew.threads == idle == 0  # nothing is under way, so nobody waits for it
    server.skip(3600)
    assert wait_for(lambda: gate.inside == BURST, 60), gate.inside
    assert crew.threads == BURST
    assert sum(claims) == BURST
    assert len(claims) <= -(-BURST // CLAIMS_MAX) + 1
    assert server.publish("crate", "at once")["status"] == "published"  # beside it, an immediate post finds a thread
    gate.open.set()
    assert wait_for(lambda: {row["status"] for row in server.rows()} == {"published"}, 120)
    assert wait_for(lambda: not server.service.jobs.held(), 30)
    texts = [entry.text for entry in server.lab.lab.ledger.posts()]
    assert len(texts) == len(set(texts)) == BURST + 1

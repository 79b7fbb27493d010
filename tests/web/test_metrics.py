"""GET /metrics: what Prometheus is told, and who is told it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from socialpub.web.pages.metrics import text_of
from tests.kit import Person, Server, breathe, error_of, iso

TOKEN = "a-token-of-thirty-two-characters"


def read(server: Server, **headers: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    told = httpx.get(f"{server.url}/metrics", headers=headers, trust_env=False)
    assert told.status_code == 200
    families = text_string_to_metric_families(told.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_outcomes_upstream_calls_and_commits_are_counted(server: Server, alice: Person) -> None:
    before = read(server)
    for text in ("one", "two"):
        alice.api.publish({"text": text, "targets": [{"accountId": alice.bluesky}]})
    published, deadline = ("socialpub_posts_total", "published", "bluesky"), time.monotonic() + 10
    # The answer may be there as soon as the outcome is on the disk; what is counted, a moment later.
    while (after := read(server)).get(published, 0.0) < before.get(published, 0.0) + 2:
        assert time.monotonic() < deadline, "an outcome was not counted"
        breathe()

    def grew(*sample: str) -> float:
        return after[sample] - before.get(sample, 0.0)

    assert grew(*published) == 2
    assert grew("socialpub_upstream_seconds_count", "bluesky") >= 2
    assert grew("socialpub_commit_changes_count") >= 4
    assert [name for name, *_ in after if name.endswith("_created")] == []


def test_how_things_stand_is_told(server: Server, alice: Person) -> None:
    later = iso(server.clock.now_ms() + 3_600_000)
    body = {"text": "later", "targets": [{"accountId": alice.bluesky}], "scheduledAt": later}
    assert alice.api.post("/v1/posts", json=body).status_code == 202
    told = read(server)
    assert told["socialpub_oldest_overdue_seconds",] == 0
    assert told["socialpub_paused",] == 0
    assert told["socialpub_jobs_due", "publish"] == 0
    assert told["socialpub_accounts", "bluesky", "active"] == 1
    assert told["socialpub_deliveries_pending",] == 0
    assert told["socialpub_notifications_pending",] == 0


def test_what_is_late_is_told(server: Server, alice: Person) -> None:
    server.engine.keeper.pauses.reason = "clock"
    server.service.jobs.paused = lambda: ("publish",)
    at = iso(server.clock.now_ms() + 60_000)
    body = {"text": "soon", "targets": [{"accountId": alice.bluesky}], "scheduledAt": at}
    assert alice.api.post("/v1/posts", json=body).status_code == 202
    server.clock.skip(90)
    told = read(server)
    assert told["socialpub_oldest_overdue_seconds",] == pytest.approx(30, abs=5)
    assert told["socialpub_jobs_due", "publish"] == 1


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via"])
def test_what_a_proxy_passes_on_is_not_from_here(server: Server, header: str) -> None:
    refused = httpx.get(f"{server.url}/metrics", headers={header: "127.0.0.1"}, trust_env=False)
    assert (refused.status_code, error_of(refused)["code"]) == (401, "unauthenticated")


def test_the_token_opens_it_from_anywhere(make_server: Callable[..., Server]) -> None:
    server = make_server(server={"metrics_token": TOKEN})
    far = {"X-Forwarded-For": "203.0.113.7"}
    assert read(server, Authorization=f"Bearer {TOKEN}", **far)["socialpub_paused",] == 0
    for presented in ("wrong", f"{TOKEN}x", "ü"):
        refused = httpx.get(
            f"{server.url}/metrics", headers=far | {"Authorization": f"Bearer {presented}".encode()}, trust_env=False
        )
        assert refused.status_code == 401
        assert TOKEN not in refused.text


def test_a_key_of_the_api_does_not_open_it(server: Server, alice: Person) -> None:
    refused = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {alice.key}"}, trust_env=False)
    assert refused.status_code == 401


def test_the_dashboard_for_grafana_asks_for_nothing_that_is_not_told(server: Server, alice: Person) -> None:
    alice.api.publish({"text": "one", "targets": [{"accountId": alice.bluesky}]})
    told = httpx.get(f"{server.url}/metrics", trust_env=False).text
    board = json.loads((Path(__file__).parents[2] / "docs" / "running" / "grafana.json").read_text())
    asked = {
        name for panel in board["panels"] for name in re.findall(r"socialpub_[a-z_]+", panel["targets"][0]["expr"])
    }
    assert asked > {"socialpub_paused", "socialpub_posts_total"}
    for name in asked - {"socialpub_"}:
        assert f"\n{name}" in told or f"# TYPE {name} " in told, name


def test_how_something_stands_reads_as_prometheus_writes_it() -> None:
    there = GaugeMetricFamily("b_there", "There.", labels=("of",))
    there.add_metric(("x",), 2)
    none = GaugeMetricFamily("c_none", "None.", labels=("of",))
    told = text_of([GaugeMetricFamily("a_paused", "Paused.", value=1.0), there, none]).decode()
    assert told.splitlines() == [
        "# HELP a_paused Paused.",
        "# TYPE a_paused gauge",
        "a_paused 1.0",
        "# HELP b_there There.",
        "# TYPE b_there gauge",
        'b_there{of="x"} 2.0',
        "# HELP c_none None.",
        "# TYPE c_none gauge",
    ]

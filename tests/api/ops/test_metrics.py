"""GET /metrics: Prometheus values, and access by address or token."""

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

from socialpub.web.ops.metrics import format_families
from tests.support import raw_http
from tests.support.app_server import AppServer, Person, error_of, format_instant, sleep_briefly

TOKEN = "a-token-of-thirty-two-characters"


def read(server: AppServer, **headers: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    told = httpx.get(f"{server.url}/metrics", headers=headers, trust_env=False)
    assert told.status_code == 200
    families = text_string_to_metric_families(told.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_outcomes_upstream_calls_and_commits_are_counted(server: AppServer, alice: Person) -> None:
    before = read(server)
    for text in ("one", "two"):
        alice.api.publish({"text": text, "targets": [{"accountId": alice.bluesky}]})
    published, deadline = ("socialpub_posts_total", "published", "bluesky"), time.monotonic() + 10
    # The answer may be there as soon as the outcome is on the disk; what is counted, a moment later.
    while (after := read(server)).get(published, 0.0) < before.get(published, 0.0) + 2:
        assert time.monotonic() < deadline, "an outcome was not counted"
        sleep_briefly()

    def grew(*sample: str) -> float:
        return after[sample] - before.get(sample, 0.0)

    assert grew(*published) == 2
    assert grew("socialpub_upstream_seconds_count", "bluesky") >= 2
    assert grew("socialpub_commit_changes_count") >= 4
    assert [name for name, *_ in after if name.endswith("_created")] == []


def test_how_things_stand_is_told(server: AppServer, alice: Person) -> None:
    later = format_instant(server.clock.now_ms() + 3_600_000)
    body = {"text": "later", "targets": [{"accountId": alice.bluesky}], "scheduledAt": later}
    assert alice.api.post("/v1/posts", json=body).status_code == 202
    told = read(server)
    assert told["socialpub_oldest_overdue_seconds",] == 0
    assert told["socialpub_paused",] == 0
    assert told["socialpub_jobs_due", "publish"] == 0
    assert told["socialpub_accounts", "bluesky", "active"] == 1
    assert told["socialpub_deliveries_pending",] == 0
    assert told["socialpub_notifications_pending",] == 0


def test_what_is_late_is_told(server: AppServer, alice: Person) -> None:
    server.engine.gate.reason = "clock"
    server.service.jobs.paused = lambda: ("publish",)
    at = format_instant(server.clock.now_ms() + 60_000)
    body = {"text": "soon", "targets": [{"accountId": alice.bluesky}], "scheduledAt": at}
    assert alice.api.post("/v1/posts", json=body).status_code == 202
    server.clock.skip(90)
    told = read(server)
    assert told["socialpub_oldest_overdue_seconds",] == pytest.approx(30, abs=5)
    assert told["socialpub_jobs_due", "publish"] == 1


FORWARDED = ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via"]
HERE = ["127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8080", "127.3.2.1"]
ELSEWHERE = ["pub.example.com", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "0.0.0.0", ""]


def asked(server: AppServer, host: str | None, *lines: str) -> raw_http.RawResponse:
    """The answer to a request from this machine that names a host, or none (HTTP/1.0 may)."""
    version = "1.0" if host is None else "1.1"
    head = [f"GET /metrics HTTP/{version}", *([] if host is None else [f"Host: {host}"]), *lines, "", ""]
    return raw_http.send_raw(server, "\r\n".join(head).encode())


@pytest.mark.parametrize("header", FORWARDED)
def test_what_a_proxy_passes_on_is_not_from_here(server: AppServer, header: str) -> None:
    refused = httpx.get(f"{server.url}/metrics", headers={header: "127.0.0.1"}, trust_env=False)
    assert (refused.status_code, error_of(refused)["code"]) == (401, "unauthenticated")


def test_it_is_local_only_where_the_host_is_loopback_too(server: AppServer) -> None:
    """A proxy of this machine that adds no header passes the name on by which it was asked."""
    assert {host: asked(server, host).status for host in HERE} == dict.fromkeys(HERE, 200)
    for host in (*ELSEWHERE, None):
        answer = asked(server, host)
        assert (answer.status, answer.error()["rule"]) == (401, "metrics.unforwarded"), host
        assert "rule" not in asked(server, host, "X-Forwarded-For: 203.0.113.7").error()


@pytest.mark.parametrize("public", ["https://pub.example.com", "http://10.0.0.1:8080", "http://localhost.:80"])
def test_with_a_public_address_it_wants_its_token(public: str, make_server: Callable[..., AppServer]) -> None:
    """Whatever the Host: a proxy that names no client may have rewritten it."""
    server = make_server(server={"base_url": public, "metrics_token": TOKEN})
    server.url = f"http://127.0.0.1:{server.port}"
    for host in (*HERE, public.partition("://")[2]):
        answer = asked(server, host)
        assert (answer.status, answer.error()["rule"]) == (401, "metrics.unforwarded"), host
        assert asked(server, host, f"Authorization: Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("public", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:8080"])
def test_a_public_address_of_this_machine_leaves_it_local(public: str, make_server: Callable[..., AppServer]) -> None:
    server = make_server(server={"base_url": public})
    server.url = f"http://127.0.0.1:{server.port}"
    assert asked(server, "127.0.0.1").status == 200
    assert asked(server, public.partition("://")[2], "X-Forwarded-For: 203.0.113.7").status == 401


def test_without_a_token_in_the_settings_none_opens_it(make_server: Callable[..., AppServer]) -> None:
    server = make_server(server={"base_url": "https://pub.example.com"})
    server.url = f"http://127.0.0.1:{server.port}"
    for presented in ("", "x", "None"):
        assert asked(server, "127.0.0.1", f"Authorization: Bearer {presented}").status == 401


def test_the_token_opens_it_from_anywhere(make_server: Callable[..., AppServer]) -> None:
    server = make_server(server={"metrics_token": TOKEN})
    far = {"X-Forwarded-For": "203.0.113.7"}
    assert read(server, Authorization=f"Bearer {TOKEN}", **far)["socialpub_paused",] == 0
    for presented in ("wrong", f"{TOKEN}x", "ü"):
        refused = httpx.get(
            f"{server.url}/metrics", headers=far | {"Authorization": f"Bearer {presented}".encode()}, trust_env=False
        )
        assert refused.status_code == 401
        assert TOKEN not in refused.text


def test_a_key_of_the_api_does_not_open_it(server: AppServer, alice: Person) -> None:
    refused = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {alice.key}"}, trust_env=False)
    assert refused.status_code == 401


def test_the_dashboard_for_grafana_asks_for_nothing_that_is_not_told(server: AppServer, alice: Person) -> None:
    alice.api.publish({"text": "one", "targets": [{"accountId": alice.bluesky}]})
    told = httpx.get(f"{server.url}/metrics", trust_env=False).text
    board = json.loads((Path(__file__).parents[3] / "docs" / "running" / "grafana.json").read_text())
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
    told = format_families([GaugeMetricFamily("a_paused", "Paused.", value=1.0), there, none]).decode()
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

"""Gauges for `/metrics` from the database: backlogs, delays, accounts and API versions."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from socialpub import platforms
from socialpub.domain.accounts import api_versions
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.server import instance
from socialpub.store.engine import sql
from socialpub.store.queries import gauges


def build_gauges(now_ms: int) -> list[GaugeMetricFamily]:
    """Build the gauges. Call within a read."""
    return list(_build_families(now_ms))


def _build_families(now_ms: int) -> Iterator[GaugeMetricFamily]:
    due = sql.fetch_value(gauges.FIND_OLDEST_DUE)
    overdue = max(0.0, (now_ms - due) / 1000) if due is not None else 0.0
    yield _build_gauge(
        "oldest_overdue_seconds", "How late the oldest post is that is due and has no outcome yet.", overdue
    )
    yield _build_gauge("paused", "1 while nothing is published.", 1.0 if instance.get_pause_reason() else 0.0)
    waiting = GaugeMetricFamily("socialpub_jobs_due", "Jobs that are due, by kind.", labels=("kind",))
    for kind in JOB_KINDS:
        waiting.add_metric((kind.name,), sql.fetch_value(gauges.COUNT_DUE_JOBS, (kind.name, now_ms)))
    yield waiting
    yield _build_gauge(
        "deliveries_pending",
        "Deliveries to webhooks still to be made.",
        sql.fetch_value(gauges.COUNT_PENDING_DELIVERIES),
    )
    yield _build_gauge(
        "notifications_pending",
        "Messages to people still to go out.",
        sql.fetch_value(gauges.COUNT_PENDING_NOTIFICATIONS),
    )
    yield from _build_account_gauges(now_ms)
    yield from _build_version_gauges(now_ms)


def _build_account_gauges(now_ms: int) -> Iterator[GaugeMetricFamily]:
    labels = ("platform", "status")
    accounts = GaugeMetricFamily("socialpub_accounts", "Connected accounts.", labels=labels)
    ends = GaugeMetricFamily(
        "socialpub_token_expiry_seconds", "Until the first of these accounts has to be connected again.", labels=labels
    )
    for platform, status, count, first in sql.fetch_all(gauges.COUNT_ACCOUNTS):
        accounts.add_metric((platform, status), count)
        if first is not None:
            ends.add_metric((platform, status), (first - now_ms) / 1000)
    yield from (accounts, ends)


def _build_version_gauges(now_ms: int) -> Iterator[GaugeMetricFamily]:
    labels = ("platform", "version")
    answered = GaugeMetricFamily(
        "socialpub_version_answered",
        "Whether the platform answers this version of its API (1) or not (0).",
        labels=labels,
    )
    ends = GaugeMetricFamily("socialpub_version_ends_seconds", "Until the version that is called ends.", labels=labels)
    for each in api_versions.list_checks():
        for version, verdict in ((each.pin, each.verdict), (each.newer, each.next_verdict)):
            if version and verdict in ("good", "ended"):
                answered.add_metric((each.platform, version), 1.0 if verdict == "good" else 0.0)
        day = platforms.platform(each.platform).sunsets.get(each.pin)
        if day is not None:
            ends.add_metric((each.platform, each.pin), (parse_instant(f"{day}T00:00:00Z") - now_ms) / 1000)
    yield from (answered, ends)


def _build_gauge(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"socialpub_{name}", help_text, value=value)

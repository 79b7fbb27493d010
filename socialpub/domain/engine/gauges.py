"""How things stand now, for `/metrics`: what waits, how late it is, whose tokens end."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from socialpub.domain.core import instance
from socialpub.domain.engine.kinds import KINDS
from socialpub.store import sql
from socialpub.store.statements import gauges


def gauges_at(now_ms: int) -> list[GaugeMetricFamily]:
    """Within a read."""
    return list(_families(now_ms))


def _families(now_ms: int) -> Iterator[GaugeMetricFamily]:
    due = sql.value(gauges.OLDEST_DUE)
    late = max(0.0, (now_ms - due) / 1000) if due is not None else 0.0
    yield _one("oldest_overdue_seconds", "How late the oldest post is that is due and has no outcome yet.", late)
    yield _one("paused", "1 while nothing is published.", 1.0 if instance.paused() else 0.0)
    waiting = GaugeMetricFamily("socialpub_jobs_due", "Jobs that are due, by kind.", labels=("kind",))
    for kind in KINDS:
        waiting.add_metric((kind.name,), sql.value(gauges.JOBS_DUE, (kind.name, now_ms)))
    yield waiting
    yield _one("deliveries_pending", "Deliveries to webhooks still to be made.", sql.value(gauges.DELIVERIES_PENDING))
    yield _one("notifications_pending", "Messages to people still to go out.", sql.value(gauges.NOTIFICATIONS_PENDING))
    yield from _accounts(now_ms)


def _accounts(now_ms: int) -> Iterator[GaugeMetricFamily]:
    named = ("platform", "status")
    there = GaugeMetricFamily("socialpub_accounts", "Connected accounts.", labels=named)
    ends = GaugeMetricFamily(
        "socialpub_token_expiry_seconds", "Until the first of these accounts has to be connected again.", labels=named
    )
    for platform, status, count, first in sql.every(gauges.ACCOUNTS):
        there.add_metric((platform, status), count)
        if first is not None:
            ends.add_metric((platform, status), (first - now_ms) / 1000)
    yield from (there, ends)


def _one(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"socialpub_{name}", about, value=value)

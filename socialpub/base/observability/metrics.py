"""Counters and histograms of this process since its start, for `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

# Creation times would double the text, and no dashboard needs them.
disable_created_metrics()  # type: ignore[no-untyped-call]

REGISTRY = CollectorRegistry()
POST_OUTCOMES = Counter("socialpub_posts", "Outcomes of posts.", ("platform", "outcome"), registry=REGISTRY)
TASK_FAILURES = Counter("socialpub_task_failures", "Tasks that failed, each try.", ("task",), registry=REGISTRY)
UPSTREAM_SECONDS = Histogram(
    "socialpub_upstream_seconds",
    "How long calls to a platform took, until their answer or their failure.",
    ("platform",),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
COMMIT_CHANGES = Histogram(
    "socialpub_commit_changes",
    "How many changes one transaction wrote.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
    registry=REGISTRY,
)

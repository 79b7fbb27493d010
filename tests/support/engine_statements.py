"""Statements of workers, transactions and timers, whether or not anything is published."""

from __future__ import annotations

from socialpub.store.queries import (
    api_versions,
    billing,
    due_jobs,
    gauges,
    maintenance,
    notifications,
    post_retention,
    search_index,
    webhooks,
)
from socialpub.store.queries.authentication import FIND_OWNER
from tests.support.database_costs import DatabaseWork

OTHERS = (billing, due_jobs, post_retention, gauges, notifications, search_index, maintenance, api_versions, webhooks)
LOOKS = {FIND_OWNER, *(text for module in OTHERS for text in vars(module).values() if isinstance(text, str))}


def own(work: DatabaseWork) -> list[str]:
    """Return the statements of the publishing itself."""
    return [text for text in work.within if text not in LOOKS and "FROM job WHERE kind = ?" not in text]

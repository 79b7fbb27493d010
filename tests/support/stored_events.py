"""Stored events decoded from the database, with public ids in place of row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from socialpub.domain.delivery.webhooks import event_log
from socialpub.store.queries.events import FULL_DATA, TYPE_NAMES
from socialpub.store.queries.id_columns import select_column

SELECT_EVENTS = f"""
    SELECT event.number, event.created_at, event.type, organization.id AS organization,
        coalesce(event.profile, {select_column("post", "profile")}) AS profile, post.id AS post, {FULL_DATA} AS data,
        coalesce(event.request_id, batch.request_id) AS request_id
    FROM event JOIN organization ON organization.number = event.organization
    LEFT JOIN post ON post.number = event.post LEFT JOIN batch ON batch.id = post.batch
    ORDER BY event.number
"""


class StoredEvent(NamedTuple):
    """An event."""

    id: str
    number: int
    created_at: int
    type: str
    organization: str
    profile: str | None
    post: str | None
    data: str
    request_id: str | None


def decode_events(rows: Iterable[Sequence[Any]], **wanted: Any) -> list[StoredEvent]:
    """What EVENTS found, in the order of the commits: those that have these values."""
    found = []
    for number, created_at, type_, organization, *rest in rows:
        id = event_log.compute_id(organization, number, created_at)
        found.append(StoredEvent(id, number, created_at, TYPE_NAMES[type_], organization, *rest))
    return [event for event in found if all(getattr(event, name) == value for name, value in wanted.items())]

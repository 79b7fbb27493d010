"""Notices of expiring API keys: the event `key.expiring`, 7 days and 1 day ahead."""

from __future__ import annotations

from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.schemas.events import KeyExpiring
from socialpub.store.database import Tx
from socialpub.store.rows import ApiKeyRow
from socialpub.store.schema.models import ApiKey, find_rows

NOTICE_DAYS = (1, 7)  # ahead; after the later notice, the earlier one is not sent any more
CHECK_SECONDS = 3600.0
NOTICE_BATCH = 100  # keys per transaction


def notify_due(service: AppContext) -> None:
    """Send the notices that are due."""
    while service.read(lambda: _find_due(service)).result():
        service.write(lambda tx: _notify_batch(service, tx)).result()


def _find_due(service: AppContext) -> list[tuple[ApiKeyRow, int]]:
    """Find keys with a due notice, and how many days ahead it is.

    A notice whose time was before the key's creation is not due.
    """
    now, due = service.now_ms, []
    for days in NOTICE_DAYS:
        at = ApiKey.expires_at - days * DAY_MS
        is_due = (at <= now) & (at >= ApiKey.created_at) & (ApiKey.expires_at > now) & ApiKey.revoked_at.is_null()
        is_new = ApiKey.notice_days.is_null() | (ApiKey.notice_days > days)
        due += [(row, days) for row in find_rows(ApiKey, is_due, is_new)]
    return due[:NOTICE_BATCH]


def _notify_batch(service: AppContext, tx: Tx) -> None:
    notified: set[str] = set()
    for row, days in _find_due(service):
        if row["id"] not in notified:  # the notice of 1 day replaces that of 7
            notified.add(row["id"])
            ApiKey.update(notice_days=days).where(ApiKey.id == row["id"]).execute()
            events.emit(
                service, tx, "key.expiring", row["organization"], _build_data(service, row), profile=row["profile"]
            )


def _build_data(service: AppContext, row: ApiKeyRow) -> KeyExpiring:
    ends = row["expires_at"]
    assert ends is not None, "only keys that expire have a notice"
    return {
        "keyId": row["id"],
        "name": row["name"],
        "prefix": row["prefix"],
        "last4": row["last4"],
        "profileId": row["profile"],
        "expiresAt": format_iso(ends),
        "daysUntilExpiry": -((service.now_ms - ends) // DAY_MS),
    }

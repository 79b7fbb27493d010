"""Log of sent notifications."""

from __future__ import annotations

from typing import NamedTuple

from socialpub.base.runtime import format_iso
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.notifications import channels, message_texts
from socialpub.domain.events import cursors
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.notifications import NotificationBody, NotificationPage, NotificationsQuery
from socialpub.store.engine import sql
from socialpub.store.queries import notifications as statements
from socialpub.store.rows import DeliveryStatus

LISTING = "notifications"


class _HistoryRow(NamedTuple):
    """Message, in the column order of `statements.PAGE`."""

    number: int
    id: str
    channel: str
    type: str
    data: str
    times: int
    follows: bool
    status: DeliveryStatus
    attempts: int
    next_attempt_at: int | None
    last_status_code: int | None
    last_error: str | None
    created_at: int
    updated_at: int
    name: str | None


def load_page(service: AppContext, scope: Scope, query: NotificationsQuery) -> NotificationPage:
    """Load one page, newest first. Raises ApiError `not_found` (profile, channel), `cursor`."""
    profile = scope.narrowed(query.profile_id)
    profiles.check_profile(scope, query.profile_id)
    if query.channel_id is not None:
        channels.find(scope, query.channel_id)
    types, states = sql.dump_json(query.type or []), sql.dump_json(query.status or [])

    def load(before: int, reach: int) -> list[_HistoryRow]:
        wanted = (scope.organization, before, reach, profile, query.channel_id, query.since or 0, types, states)
        limits = (scope.profile, scope.account_list, query.limit + 1)
        return [_HistoryRow(*row) for row in sql.fetch_all(statements.PAGE, (*wanted, *limits))]

    rows, cursor = cursors.load_log_page(service, LISTING, scope.organization, query, statements.FIND_PAGE_REACH, load)
    return {"data": [_to_body(service, row) for row in rows], "nextCursor": cursor}


def _to_body(service: AppContext, row: _HistoryRow) -> NotificationBody:
    context = message_texts.MessageContext(
        row.type, sql.load_json(row.data), row.name, row.times, bool(row.follows), row.created_at
    )
    message = message_texts.compose(context, service.base_url)
    return {
        "id": row.id,
        "channelId": row.channel,
        "type": row.type,
        "count": row.times,
        "title": message.title,
        "text": message.text,
        "status": row.status,
        "attemptCount": row.attempts,
        "nextAttemptAt": format_iso(row.next_attempt_at),
        "lastStatusCode": row.last_status_code,
        "lastError": row.last_error,
        "createdAt": format_iso(row.created_at),
        "updatedAt": format_iso(row.updated_at),
    }

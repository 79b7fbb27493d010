"""Queue of notifications: one row per channel and cause, in the transaction of the event.

Ten posts that fail because one account is broken, or one platform is down, share a cause. The first event is sent at
once. Later ones within its window are collected in one row, which is sent at the end of the window; the next window is
twice as long. The state is in the rows, so it survives a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from socialpub.base.json_codec import dumps
from socialpub.base.runtime import DAY_MS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import notifications as statements

DEFAULT_TYPES = (
    "post.failed", "post.rejected", "token.expiring", "token.revoked", "key.expiring", "webhook.disabled", PAUSED_TYPE,
)  # fmt: skip
"""Types of a channel that names none: those that need a person."""
WINDOW_MAX_MS = DAY_MS


class ChannelSubscription(NamedTuple):
    """Notification channel. `types`: JSON list; an empty one means `DEFAULT_TYPES`."""

    id: str
    organization: str
    profile: str | None
    accounts: str | None
    types: str

    def wants(self, event: NotificationInput) -> bool:
        """Return whether the channel wants this event, by type, profile and account."""
        is_chosen = event.type in (json.loads(self.types) or DEFAULT_TYPES)
        return is_chosen and self.profile in (None, event.profile) and is_of_accounts(self.accounts, event.data)


def is_of_accounts(accounts: str | None, data: Mapping[str, object]) -> bool:
    """Return whether the accounts (JSON; None: all) include every account of the event, if any."""
    if accounts is None:
        return True
    of_event = data.get("accountIds", [data["accountId"]] if "accountId" in data else [])
    return set(json.loads(accounts)).issuperset(cast(list[str], of_event))


class NotificationInput(NamedTuple):
    """Event that may lead to notifications."""

    type: str
    profile: str | None
    data: Mapping[str, Any]


class _LatestNotification(NamedTuple):
    """Newest row of a cause on a channel."""

    number: int
    status: str
    attempts: int
    next_attempt_at: int | None
    follows: bool
    window_ms: int
    ends_at: int

    def is_collecting(self, now: int) -> bool:
        """Return whether it waits for the end of a window, so that more events can join it."""
        return bool(self.follows) and not self.attempts and self._is_near(self.next_attempt_at or 0, now)

    def has_window(self, now: int) -> bool:
        """Return whether the next event of the cause waits for the end of this window."""
        return self._is_near(self.ends_at, now)

    def _is_near(self, at: int, now: int) -> bool:
        # A time further ahead is from before the clock was set back: ignore it.
        return 0 < at - now <= self.window_ms


def enqueue(
    service: AppContext, tx: Tx, channels: Sequence[ChannelSubscription], inputs: Sequence[NotificationInput]
) -> set[str]:
    """Enqueue notifications in the caller's transaction; return the channels with a new row."""
    to_wake = set()
    for one in inputs:
        wanting = [channel for channel in channels if channel.wants(one)]
        cause = find_cause(one.type, one.data) if wanting else None
        if cause is not None:
            to_wake |= {channel.id for channel in wanting if _enqueue_one(service, tx, channel, one, cause)}
    return to_wake


def enqueue_paused(service: AppContext, tx: Tx, reason: str) -> None:
    """Notify every channel that subscribes to it that publishing is paused."""
    to_wake = set()
    for row in sql.fetch_all(statements.FIND_ALL_CHANNELS):
        channel = ChannelSubscription(*row)
        to_wake |= enqueue(
            service, tx, [channel], [NotificationInput(PAUSED_TYPE, channel.profile, {"reason": reason})]
        )
    if to_wake:
        tx.after_commit(lambda: service.wake_deliveries(sorted(to_wake)))


def _enqueue_one(
    service: AppContext, tx: Tx, channel: ChannelSubscription, event: NotificationInput, cause: str
) -> bool:
    """Add to the collecting row, or insert a new one; return whether a row was inserted."""
    now = service.now_ms
    row = sql.fetch_one(statements.FIND_NEWEST, (channel.id, cause))
    newest = _LatestNotification(*row) if row else None
    if newest is not None and newest.is_collecting(now):
        sql.update(statements.ADD_TO_NEWEST, (now, newest.number))
        return False
    follows = newest is not None and newest.has_window(now)
    if newest is not None and follows:
        due, window = newest.ends_at, min(2 * newest.window_ms, WINDOW_MAX_MS)
    else:
        due, window = now, int(service.runtime.settings.notifications.window * 1000)
    columns = (service.runtime.ids.prefixed("ntf_"), channel.id, channel.organization, event.profile, event.type, cause)
    sql.update(statements.INSERT, (*columns, dumps(event.data), follows, window, due + window, due, now))
    return True


# --- Causes --------------------------------------------------------------------------------------------------------


_COMMON_FIELDS = ("batchId", "accountId", "keyId", "endpointId", "platform", "reason")


def find_cause(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return the cause that an event shares with others; None for a failure that is retried."""
    if type_ in ("post.failed", "post.rejected"):
        return None if data.get("willRetry") else _find_failure_cause(data)
    if type_ == "token.revoked":
        return _format_account_cause(data)
    if type_.startswith("draft."):
        return f"{type_} {data['id']}"
    common = next((name for name in _COMMON_FIELDS if name in data), None)
    return f"{type_} {data[common]}" if common else type_


def _find_failure_cause(data: Mapping[str, Any]) -> str:
    """Return the cause of a failure: the account, the platform, the server or the rule."""
    error = data["error"]
    why = f"{error['code']} {error.get('rule', '')}"
    if error["code"] == "platform_auth_failed":
        return _format_account_cause(data)
    if error["code"] == "platform_unavailable":
        return f"{data['platform']} {why}"
    return why if error["code"] == "internal_error" else f"{data['accountId']} {why}"


def _format_account_cause(data: Mapping[str, Any]) -> str:
    return f"account {data['accountId']}"

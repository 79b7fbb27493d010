"""What people are told: a row for each channel, written with what has happened, and one for each cause.

Ten posts that fail because an account is broken, or a platform is down, are one cause. The first is told at once. What
comes within the window after it joins one row that waits for the window's end, so that it is told in one message; the
window after that is twice as long. All of it stands in the rows, so a start goes on where the run before ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from socialpub.base.json_codec import dumps
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import notifications as statements

DEFAULT_TYPES = ("post.failed", "post.rejected", "token.expiring", "token.revoked", "webhook.disabled", PAUSED_TYPE)
"""What a channel that names no types is told: what needs somebody."""
WINDOW_MAX_MS = 24 * 3600 * 1000


class ChannelSubscription(NamedTuple):
    """A channel that somebody is told on, and what: the JSON of the types, none for `DEFAULT_TYPES`."""

    id: str
    organization: str
    profile: str | None
    types: str

    def wants(self, type_: str, profile: str | None) -> bool:
        """Whether something that happened in this profile (None: to the whole organization) is told here."""
        return self.profile in (None, profile) and type_ in (json.loads(self.types) or DEFAULT_TYPES)


class NotificationInput(NamedTuple):
    """Something that has happened, and that somebody may want to be told."""

    type: str
    profile: str | None
    data: Mapping[str, Any]


class _LatestNotification(NamedTuple):
    """The newest row of a cause on a channel."""

    number: int
    status: str
    attempts: int
    next_attempt_at: int | None
    follows: bool
    window_ms: int
    ends_at: int

    def gathers(self, now: int) -> bool:
        """Whether it still waits for the end of a window: more of the cause joins it."""
        return bool(self.follows) and not self.attempts and self._is_near(self.next_attempt_at or 0, now)

    def has_window(self, now: int) -> bool:
        """Whether more of the cause is told at the end of its window, and not at once."""
        return self._is_near(self.ends_at, now)

    def _is_near(self, at: int, now: int) -> bool:
        # A time that is further off was set by a clock that has been set back since: nobody waits for it.
        return 0 < at - now <= self.window_ms


def enqueue(
    service: AppContext, tx: Tx, channels: Sequence[ChannelSubscription], news: Sequence[NotificationInput]
) -> set[str]:
    """Write down who is told what, in the caller's transaction; the channels with a new row."""
    rung = set()
    for one in news:
        wanting = [channel for channel in channels if channel.wants(one.type, one.profile)]
        cause = find_cause(one.type, one.data) if wanting else None
        if cause is not None:
            rung |= {channel.id for channel in wanting if _enqueue_one(service, tx, channel, one, cause)}
    return rung


def enqueue_paused(service: AppContext, tx: Tx, reason: str) -> None:
    """Publishing is paused from now on: every organization is told that wants to be."""
    rung = set()
    for row in sql.fetch_all(statements.FIND_ALL_CHANNELS):
        channel = ChannelSubscription(*row)
        rung |= enqueue(service, tx, [channel], [NotificationInput(PAUSED_TYPE, channel.profile, {"reason": reason})])
    if rung:
        tx.after_commit(lambda: service.ring_receivers(sorted(rung)))


def _enqueue_one(
    service: AppContext, tx: Tx, channel: ChannelSubscription, news: NotificationInput, cause: str
) -> bool:
    """Join the row that waits, or write a new one; whether it did that."""
    now = service.now_ms
    found = sql.fetch_one(statements.FIND_NEWEST, (channel.id, cause))
    newest = _LatestNotification(*found) if found else None
    if newest is not None and newest.gathers(now):
        sql.update(statements.ADD_TO_NEWEST, (now, newest.number))
        return False
    follows = newest is not None and newest.has_window(now)
    if newest is not None and follows:
        due, window = newest.ends_at, min(2 * newest.window_ms, WINDOW_MAX_MS)
    else:
        due, window = now, int(service.runtime.settings.notifications.window * 1000)
    row = (service.runtime.ids.prefixed("ntf_"), channel.id, channel.organization, news.profile, news.type, cause)
    sql.update(statements.INSERT, (*row, dumps(news.data), follows, window, due + window, due, now))
    return True


# --- Causes --------------------------------------------------------------------------------------------------------


def find_cause(type_: str, data: Mapping[str, Any]) -> str | None:
    """What this has in common with others, which are told together; None for what nobody is told: it is tried again."""
    if type_ in ("post.failed", "post.rejected"):
        return None if data.get("willRetry") else _find_failure_cause(data)
    if type_ == "token.revoked":
        return _format_account_cause(data)
    common = next((name for name in ("batchId", "accountId", "endpointId", "platform", "reason") if name in data), None)
    return f"{type_} {data[common]}" if common else type_


def _find_failure_cause(data: Mapping[str, Any]) -> str:
    """A broken account is one cause whatever fails by it, a platform that is down too, and a server that was down."""
    error = data["error"]
    why = f"{error['code']} {error.get('rule', '')}"
    if error["code"] == "platform_auth_failed":
        return _format_account_cause(data)
    if error["code"] == "platform_unavailable":
        return f"{data['platform']} {why}"
    return why if error["code"] == "internal_error" else f"{data['accountId']} {why}"


def _format_account_cause(data: Mapping[str, Any]) -> str:
    return f"account {data['accountId']}"

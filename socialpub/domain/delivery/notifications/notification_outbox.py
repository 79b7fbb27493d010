"""Notification outbox: compose, send and record the due messages of a channel."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery import url_policy
from socialpub.domain.delivery.attempts import (
    DISABLE_AFTER_MS,
    CallResult,
    OutboundAttempt,
    compute_retry_at,
    get_status,
    log_attempt,
    run_timed,
)
from socialpub.domain.delivery.notifications import channels, chat_services, email, message_texts
from socialpub.domain.delivery.outbox_worker import DeliveryTask, DueTasks
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import notifications as statements

log = logging.getLogger("socialpub.notifications")

SERIAL_GROUP = "channel"  # one message after another per channel


@dataclass(frozen=True)
class NotificationTarget:
    """Channel with its decrypted target."""

    id: str
    organization: str
    kind: str
    secret: Mapping[str, Any]


class DueNotification(NamedTuple):
    """Due message, in the column order of `statements.FIND_DUE` after its target."""

    to: NotificationTarget
    number: int
    id: str
    type: str
    data: str
    times: int
    follows: bool
    attempts: int
    created_at: int
    name: str | None


def decrypt_target(service: AppContext, channel: str, organization: str, kind: str, sealed: str) -> NotificationTarget:
    """Decrypt the target of a channel's row."""
    return NotificationTarget(channel, organization, kind, channels.decrypt_secret(service, channel, sealed))


def get_share_key(service: AppContext, to: NotificationTarget) -> ShareKey:
    """Return the share key of calls to a channel."""
    settings = service.runtime.settings
    if to.kind == "email":
        return ShareKey(settings.smtp.host, to.organization)
    return url_policy.get_share_key(to.secret.get("url", settings.notifications.telegram_api), to.organization)


def send(
    service: AppContext, to: NotificationTarget, message: message_texts.Message, reference: str
) -> OutboundAttempt:
    """Send a message and return the attempt; never raises. `reference`: same for every attempt."""

    def run() -> CallResult:
        if to.kind == "email":
            return email.send(service, to.secret["address"], message, reference)
        return chat_services.send(service, chat_services.BUILDERS[to.kind](service, to.secret, message))

    return run_timed(service, reference, run)


class NotificationOutbox:
    """Notification outbox; it stays open during a pause, to report the pause."""

    prefix = channels.PREFIX
    sends_during_pause = True

    def find_next_due(self, service: AppContext) -> list[tuple[str, int]]:
        """Implement `Outbox`."""
        return sql.fetch_all(statements.FIND_NEXT_DUE)

    def find_due(
        self, service: AppContext, receiver: str, limit: int, excluded: Collection[int], *, is_paused: bool
    ) -> DueTasks:
        """Implement `Outbox`."""
        row, now = sql.fetch_one(statements.FIND_CHANNEL, (receiver,)), service.now_ms
        if row is None:
            return DueTasks()
        to = decrypt_target(service, *row)
        wanted = (receiver, now, PAUSED_TYPE if is_paused else None, limit, sql.dump_json(list(excluded)))
        due = [DueNotification(to, *found) for found in sql.fetch_all(statements.FIND_DUE, wanted)]
        next_at = sql.fetch_value(statements.FIND_NEXT_DUE_OF_CHANNEL, (receiver, now))
        return DueTasks(get_share_key(service, to), [_build_task(service, each) for each in due], next_at)

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[DeliveryTask, OutboundAttempt]]
    ) -> list[int | None]:
        """Implement `Outbox`."""
        return [_record_attempt(service, tx, task.data, attempt) for task, attempt in calls]


def _build_task(service: AppContext, due: DueNotification) -> DeliveryTask:
    context = message_texts.MessageContext(
        due.type, sql.load_json(due.data), due.name, due.times, bool(due.follows), due.created_at
    )
    return DeliveryTask(
        due.number,
        due.id,
        SERIAL_GROUP,
        lambda: send(service, due.to, message_texts.compose(context, service.base_url), due.id),
        due,
    )


def _record_attempt(service: AppContext, tx: Tx, due: DueNotification, attempt: OutboundAttempt) -> int | None:
    """Record an attempt on message and channel; return the time of the next one.

    After a failure at an earlier target, the message goes to the present one, which has not failed.
    """
    now, to, is_moved = service.now_ms, due.to.id, attempt.error is not None and _is_moved(service, due.to)
    next_at = now if is_moved else compute_retry_at(service, due.attempts, attempt)
    state = get_status(attempt, next_at)
    tx.after_commit(lambda: log_attempt("notification", due.id, due.type, to, attempt, next_at))
    sql.update(statements.RECORD_ATTEMPT, (state, next_at, attempt.status, attempt.error, now, due.number))
    if next_at is not None:
        channels.end_messages_if_deleted(tx, to, now)  # it may have been deleted during the call
    if attempt.error is None:
        sql.update(statements.RECORD_SUCCESS, (now, to))
        return None
    if is_moved:
        return next_at
    active = sql.fetch_value(statements.RECORD_FAILURE, (attempt.error, now, now - DISABLE_AFTER_MS, to))
    if active == 0:
        log.warning("notification channel %s is disabled: every message has failed for 5 days", to)
    return next_at


def _is_moved(service: AppContext, called: NotificationTarget) -> bool:
    """Return whether the channel leads elsewhere by now."""
    row = sql.fetch_one(statements.FIND_CHANNEL, (called.id,))
    return row is not None and decrypt_target(service, *row) != called

"""Test messages, sent on request to check a channel."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import OutboundAttempt
from socialpub.domain.delivery.notifications import channels, message_texts, notification_outbox
from socialpub.domain.schemas.notifications import ChannelTestBody
from socialpub.store.database import Tx

log = logging.getLogger("socialpub.notifications")


def load_target(scope: Scope, service: AppContext, channel: str) -> notification_outbox.NotificationTarget:
    """Load a channel of the scope, active or not. Raises ApiError `not_found`."""
    row = channels.find(scope, channel)
    return notification_outbox.decrypt_target(service, row["id"], row["organization"], row["kind"], row["secret"])


@dataclass(frozen=True)
class SampleMessageResult:
    """Test message with its attempt."""

    message: message_texts.Message
    attempt: OutboundAttempt


def send(
    service: AppContext, to: notification_outbox.NotificationTarget, type_: str | None, data: Mapping[str, Any]
) -> SampleMessageResult:
    """Send a test message and wait; `type_` and `data` imitate an event."""
    context = message_texts.MessageContext(type_, data, None, 1, False, service.now_ms) if type_ else None
    message = message_texts.compose_sample(service.base_url, context)
    return SampleMessageResult(
        message, notification_outbox.send(service, to, message, service.runtime.ids.prefixed("ntf_"))
    )


def build_result(
    tx: Tx, who: Actor, to: notification_outbox.NotificationTarget, result: SampleMessageResult
) -> ActionResult:
    """Build the API body of a test result."""
    attempt, message = result.attempt, result.message
    tx.after_commit(
        lambda: log.info("test message to notification channel %s: %s", to.id, attempt.error or "delivered")
    )
    answer: ChannelTestBody = {
        "delivered": attempt.error is None,
        "status": attempt.status,
        "durationMs": attempt.duration_ms,
        "responseBody": attempt.response,
        "nonRetryable": attempt.error is not None and attempt.final,
        "error": attempt.error,
        "errorName": attempt.name,
        "sentText": "\n".join((message.title, message.text, *message.links)),
    }
    return ActionResult(answer, subject=to.id)

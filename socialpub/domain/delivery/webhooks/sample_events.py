"""Test events: sample events sent to an endpoint on request."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from socialpub.base.json_codec import dumps
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import OutboundAttempt
from socialpub.domain.delivery.webhooks import endpoints, event_log, webhook_outbox
from socialpub.domain.schemas.events import SampleEvent
from socialpub.domain.schemas.webhooks import TestBody
from socialpub.store.database import Tx

log = logging.getLogger("socialpub.webhooks")


@dataclass(frozen=True)
class SampleEventResult:
    """Test event with its attempt."""

    event: SampleEvent
    attempt: OutboundAttempt


def load_target(scope: Scope, service: AppContext, endpoint: str) -> webhook_outbox.EndpointTarget:
    """Load an endpoint of the scope, active or not. Raises ApiError `not_found`."""
    row = endpoints.find(scope, endpoint)
    return webhook_outbox.decrypt_target(service, row)


def send(
    service: AppContext, to: webhook_outbox.EndpointTarget, type_: str, data: Mapping[str, Any], request: str
) -> SampleEventResult:
    """Send a test event, wait for the response and return the attempt."""
    new = service.runtime.ids.prefixed("evt_")
    columns = event_log.EventColumns(0, new, type_, to.organization, dumps(dict(data)), service.now_ms)
    text = event_log.build_envelope(columns)
    event: SampleEvent = json.loads(text)
    return SampleEventResult(
        event, webhook_outbox.send(service, to, text.encode("utf-8", "surrogatepass"), new, type_, request)
    )


def build_result(tx: Tx, who: Actor, to: webhook_outbox.EndpointTarget, result: SampleEventResult) -> ActionResult:
    """Build the API body of a test result."""
    attempt = result.attempt
    tx.after_commit(lambda: log.info("test event to webhook endpoint %s: %s", to.id, attempt.error or "delivered"))
    body: TestBody = {
        "delivered": attempt.error is None,
        "status": attempt.status,
        "durationMs": attempt.duration_ms,
        "responseBody": attempt.response,
        "deliveryId": attempt.id,
        "nonRetryable": attempt.error is not None and attempt.final,
        "errorName": attempt.name,
        "sentEvent": result.event,
    }
    return ActionResult(body, subject=to.id)

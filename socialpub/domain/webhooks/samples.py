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
from socialpub.domain.outbox.calls import Attempt
from socialpub.domain.shapes.events import SampleEvent
from socialpub.domain.shapes.webhooks import TestBody
from socialpub.domain.webhooks import deliver, endpoints, eventlog
from socialpub.store.database import Tx

log = logging.getLogger("socialpub.webhooks")


@dataclass(frozen=True)
class Tried:
    """Test event with its attempt."""

    event: SampleEvent
    attempt: Attempt


def receiver(scope: Scope, service: AppContext, endpoint: str) -> deliver.Receiver:
    """Load an endpoint of the scope, active or not. Raises ApiError `not_found`."""
    row = endpoints.find(scope, endpoint)
    return deliver.receiver_of(service, row)


def send(service: AppContext, to: deliver.Receiver, type_: str, data: Mapping[str, Any], request: str) -> Tried:
    """Send a test event, wait for the response and return the attempt."""
    new = service.runtime.ids.prefixed("evt_")
    made = eventlog.Shown(0, new, type_, to.organization, dumps(dict(data)), service.now_ms)
    text = eventlog.envelope(made)
    event: SampleEvent = json.loads(text)
    return Tried(event, deliver.call(service, to, text.encode("utf-8", "surrogatepass"), new, type_, request))


def tried(tx: Tx, who: Actor, to: deliver.Receiver, tried: Tried) -> ActionResult:
    """Build the API body of a test result."""
    attempt = tried.attempt
    tx.after_commit(lambda: log.info("a sample was sent to endpoint %s: %s", to.id, attempt.error or "delivered"))
    answer: TestBody = {
        "delivered": attempt.error is None,
        "status": attempt.status,
        "durationMs": attempt.duration_ms,
        "responseBody": attempt.response,
        "deliveryId": attempt.id,
        "nonRetryable": attempt.error is not None and attempt.final,
        "errorName": attempt.name,
        "sentEvent": tried.event,
    }
    return ActionResult(answer, subject=to.id)

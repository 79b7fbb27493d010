"""Registration of webhook endpoints, and queries for their deliveries."""

from __future__ import annotations

import time
from typing import Any

from socialpub.store.schema.models import WebhookDelivery
from tests.support.app_server import AppServer, Person, sleep_briefly

ENDPOINTS = "/v1/webhook-endpoints"
DELIVERIES = "/v1/webhook-deliveries"
PATIENCE_SECONDS = 60


def register_endpoint(person: Person, url: str, **fields: Any) -> dict[str, Any]:
    answer = person.api.post(ENDPOINTS, json={"url": url, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def list_deliveries(person: Person, **query: Any) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = person.api.get(DELIVERIES, params=query).json()["data"]
    return data


def wait_for_failure(person: Person, address: str) -> None:
    """Return once an attempt for the endpoint or channel at this address has failed."""
    while person.api.get(address).json()["lastFailureReason"] is None:
        sleep_briefly()


def wait_for_deliveries(server: AppServer, person: Person, count: int, *states: str) -> list[dict[str, Any]]:
    """The deliveries of somebody, once so many are in one of these states; AssertionError when they do not come."""
    wanted = states or ("succeeded", "failed")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        rows = server.rows(WebhookDelivery)
        found = [row["status"] for row in rows]
        if sum(status in wanted for status in found) >= count:
            break
        assert time.monotonic() < deadline, f"{count} deliveries in {wanted} were expected; there are {found}"
        later = [row["next_attempt_at"] - server.clock.now_ms() for row in rows if row["status"] == "pending"]
        if later and min(later) > 0:  # nobody waits for a time to come
            server.skip(min(later) / 1000)
        sleep_briefly()
    return [row for row in list_deliveries(person, limit=200) if row["status"] in wanted]

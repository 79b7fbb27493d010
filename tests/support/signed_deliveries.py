"""Signed deliveries of webhooks, as the server makes them."""

from __future__ import annotations

import base64
import json

from socialpub.domain.delivery.webhooks import signatures

SECRET, OLD, OTHER = ("whsec_" + base64.b64encode(bytes([number] * 32)).decode() for number in range(3))
NOW = 1_800_000_000
EVENT = {
    "id": "evt_1",
    "type": "post.published",
    "createdAt": "2026-11-26T10:00:00Z",
    "organizationId": "o",
    "data": {"id": "p"},
}
BODY = json.dumps(EVENT).encode()


def delivery(*secrets: str, body: bytes = BODY, at: int = NOW) -> dict[str, str]:
    """The headers of a delivery, as the server makes them."""
    return signatures.build_headers(
        "X-Postman", list(secrets), body, event="evt_1", type_="x", delivery="d", request=None, at_seconds=at
    )


def own_only(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not name.startswith("webhook-")}

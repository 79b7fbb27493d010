"""Lemon Squeezy webhook payloads, signed with the server's secret."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import httpx

from tests.support.app_server import AppServer, Person, format_instant

SECRET = "a-lemon-squeezy-signing-secret"  # noqa: S105 - the tests' own
VARIANTS = {"101": "pro", "102": "business"}
SETTINGS = {"lemonsqueezy_secret": SECRET, "variants": VARIANTS, "free": 5, "pro": 10, "business": 20}
PATH = "/billing/lemonsqueezy"
NOON = 1_790_000_000_000
MONTH_MS = 30 * 86_400_000


def make_notice(
    name: str, organization: str, *, at: int = 0, variant: int = 101, subscription: str = "7001", **fields: Any
) -> dict[str, Any]:
    """What is told `at` so many seconds after noon."""
    now = NOON + at * 1000
    head = {"event_name": name, "test_mode": False, "custom_data": {"organization_id": organization}}
    if "payment" in name:
        facts = {"store_id": 1, "subscription_id": int(subscription), "updated_at": format_instant(now), **fields}
        return {"meta": head, "data": {"type": "subscription-invoices", "id": f"9{at}", "attributes": facts}}
    facts = {
        "store_id": 1,
        "variant_id": variant,
        "user_email": "ann@example.com",
        "status": "active",
        "cancelled": False,
        "renews_at": format_instant(NOON + MONTH_MS),
        "ends_at": None,
        "created_at": format_instant(NOON),
        "updated_at": format_instant(now).replace("Z", "000Z"),  # six digits
        **fields,
    }
    return {"meta": head, "data": {"type": "subscriptions", "id": subscription, "attributes": facts}}


def sign_notice(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def send_notice(server: AppServer, body: bytes, **headers: str) -> httpx.Response:
    sent = {"X-Signature": sign_notice(body), "Content-Type": "application/json"} | headers
    return server.api().post(
        PATH, content=body, headers=[(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    )


def deliver_notice(server: AppServer, person: Person, name: str, **fields: Any) -> httpx.Response:
    """A signed notice about somebody's organization is taken."""
    answer = send_notice(server, json.dumps(make_notice(name, person.organization, **fields)).encode())
    assert answer.status_code == 200, answer.text
    return answer

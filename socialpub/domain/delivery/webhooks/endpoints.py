"""Webhook endpoints: user URLs that events are sent to, each with its own secret."""

from __future__ import annotations

import base64
import json

from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery import subscriptions, url_policy
from socialpub.domain.schemas.common import DeletedBody
from socialpub.domain.schemas.webhooks import EndpointBody, EndpointChange, EndpointRequest, SignedEndpointBody
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import webhooks
from socialpub.store.rows import WebhookEndpointRow
from socialpub.store.schema.models import WebhookEndpoint

PREFIX = "whe_"
MAX_PER_ORGANIZATION = 200
SECRET_OVERLAP_MS = DAY_MS
SECRET_BYTES = 32


# --- Reading -----------------------------------------------------------------------------------------------------


def to_body(row: WebhookEndpointRow) -> EndpointBody:
    """Build the API body of an endpoint."""
    return {
        "id": row["id"],
        "url": row["url"],
        "events": json.loads(row["events"]),
        "description": row["description"],
        "active": bool(row["active"]),
        "profileId": row["profile"],
        "accounts": sql.load_optional_json(row["accounts"]),
        "lastDeliveryAt": format_iso(row["last_delivery_at"]),
        "lastFailureReason": row["last_failure_reason"],
        "previousSecretUntil": format_iso(row["previous_until"]),
        "previousSecretDeliveries": row["previous_accepted"],
        "createdAt": format_iso(row["created_at"]),
        "updatedAt": format_iso(row["updated_at"]),
    }


def list_bodies(scope: Scope) -> list[EndpointBody]:
    """List the endpoints of the scope, oldest first."""
    return [to_body(row) for row in subscriptions.list_rows(WebhookEndpoint, scope)]


def find(scope: Scope, endpoint: str) -> WebhookEndpointRow:
    """Load an endpoint of the scope. Raises ApiError `not_found`."""
    row: WebhookEndpointRow = subscriptions.find(WebhookEndpoint, scope, endpoint, "webhook endpoint")
    return row


# --- Changes -----------------------------------------------------------------------------------------------------


def create(tx: Tx, who: Actor, request: EndpointRequest) -> ActionResult:
    """Create an endpoint; the body shows its `signingSecret`, this once.

    Raises ApiError `webhook.endpoints.max`, or for a URL that may not be called.
    """
    service, scope, now = who.service, who.scope, who.service.now_ms
    url_policy.check_webhook(service, request.url)
    subscriptions.check_room(WebhookEndpoint, scope, MAX_PER_ORGANIZATION, "webhook.endpoints.max", "webhook endpoint")
    endpoint, secret = service.runtime.ids.prefixed(PREFIX), generate_secret(service)
    WebhookEndpoint.insert(
        id=endpoint,
        organization=scope.organization,
        profile=scope.profile,
        accounts=scope.account_list,
        url=request.url,
        events=subscriptions.encode_events(request.events),
        description=request.description,
        secret=encrypt_secret(service, endpoint, secret),
        created_at=now,
        updated_at=now,
    ).execute()
    return _build_signed(find(scope, endpoint), secret, 201)


def change(tx: Tx, who: Actor, endpoint: str, request: EndpointChange) -> EndpointBody:
    """Change an endpoint. Raises ApiError `not_found`, or for a URL that may not be called."""
    row = find(who.scope, endpoint)
    is_moved = request.url not in (None, row["url"])
    changes = subscriptions.list_changes(request, who.service.now_ms, is_moved=is_moved)
    if request.url is not None:
        url_policy.check_webhook(who.service, request.url)
        changes["url"] = request.url
    WebhookEndpoint.update(**changes).where(WebhookEndpoint.id == row["id"]).execute()
    tx.after_commit(lambda: who.service.wake_deliveries([row["id"]]))  # pending deliveries may be sent now
    return to_body(find(who.scope, endpoint))


def rotate_secret(tx: Tx, who: Actor, endpoint: str) -> ActionResult:
    """Rotate the `signingSecret`; the old one signs too for a day. Raises `not_found`."""
    service, row = who.service, find(who.scope, endpoint)
    secret, now = generate_secret(service), service.now_ms
    previous = decrypt_secret(service, row["id"], row["secret"])
    WebhookEndpoint.update(
        secret=encrypt_secret(service, row["id"], secret),
        previous_secret=encrypt_secret(service, row["id"], previous),
        previous_until=now + SECRET_OVERLAP_MS,
        previous_accepted=0,
        updated_at=now,
    ).where(WebhookEndpoint.id == row["id"]).execute()
    return _build_signed(find(who.scope, endpoint), secret, 200)


def delete(tx: Tx, who: Actor, endpoint: str) -> DeletedBody:
    """Delete an endpoint; its pending deliveries end as failed. Raises ApiError `not_found`."""
    row, now = find(who.scope, endpoint), who.service.now_ms
    changes = {"active": False, "deleted_at": now, "secret": "", "previous_secret": None}
    WebhookEndpoint.update(**changes).where(WebhookEndpoint.id == row["id"]).execute()
    end_deliveries_if_deleted(tx, row["id"], now)
    return {"id": row["id"], "deleted": True}


def end_deliveries_if_deleted(tx: Tx, endpoint: str, now: int) -> None:
    """End the pending deliveries of an endpoint as failed, if it is deleted."""
    sql.update(webhooks.END_DELIVERIES, ("The endpoint was deleted.", now, endpoint))


def _build_signed(row: WebhookEndpointRow, secret: str, status: int) -> ActionResult:
    shown: SignedEndpointBody = {**to_body(row), "signingSecret": secret}
    return ActionResult(shown, status, secret=True)


# --- Secrets -----------------------------------------------------------------------------------------------------


def generate_secret(service: AppContext) -> str:
    return "whsec_" + base64.b64encode(service.runtime.entropy(SECRET_BYTES)).decode()


def encrypt_secret(service: AppContext, endpoint: str, secret: str) -> str:
    return service.runtime.vault.seal(secret.encode(), ("webhook_endpoint", "secret", endpoint))


def decrypt_secret(service: AppContext, endpoint: str, sealed: str) -> str:
    return service.runtime.vault.open(sealed, ("webhook_endpoint", "secret", endpoint)).decode()

"""The webhooks of the OpenAPI document: the delivery of each event type, with an example."""

from __future__ import annotations

from typing import Any

from socialpub.domain.schemas.errors import ErrorBody
from socialpub.domain.schemas.events import EVENTS
from socialpub.web.openapi.components import delivery_headers, ref
from socialpub.web.openapi.examples import (
    ACCOUNT_ID,
    AT_URI,
    BASE,
    BATCH_ID,
    CID,
    DISPLAY_NAME,
    DRAFT_AUTHOR,
    DRAFT_ID,
    NOW,
    OAUTH_PLATFORM,
    ORGANIZATION_ID,
    PLATFORM,
    PLATFORM_ACCOUNT_ID,
    POST_ID,
    PROFILE_ID,
    REFUSED,
    SOON,
    WEB,
)
from socialpub.web.openapi.schemas import event_name, to_pascal_case
from socialpub.web.openapi.texts import DELIVERIES_TAG

Json = dict[str, Any]


def webhooks() -> Json:
    """Return the references to the deliveries, by event type.

    openapi-generator makes untyped methods of inline webhooks, and skips references.
    """
    return {event: ref("pathItems", _operation_id(event)) for event in EVENTS}


def deliveries(header_prefix: str) -> Json:
    """Return the delivery of each event type, by operation id."""
    headers = delivery_headers(header_prefix)
    return {_operation_id(event): _delivery(event, kind.text, headers) for event, kind in EVENTS.items()}


def _operation_id(event: str) -> str:
    return f"on{to_pascal_case(event)}"


def _delivery(event: str, text: str, headers: list[Json]) -> Json:
    return {
        "post": {
            "operationId": _operation_id(event),
            "summary": text,
            "tags": [DELIVERIES_TAG],
            "security": [],
            "parameters": headers,
            "requestBody": {"required": True, "content": {"application/json": _event_content(event)}},
            "responses": {
                "2XX": {"description": "Delivered."},
                "3XX": {"description": "Not followed: a permanent failure."},
                "4XX": {"description": "A permanent failure; it is not tried again."},
                "5XX": {"description": "Tried again: 8 attempts in all, after 5, 10, 20, 40, 80, 160 and 320 s."},
            },
        }
    }


def _event_content(event: str) -> Json:
    return {"schema": ref("schemas", event_name(event)), "example": find_example(event)}


# --- Examples ------------------------------------------------------------------------------------------------------

_POST_EVENT: Json = {
    "id": POST_ID,
    "batchId": BATCH_ID,
    "platform": PLATFORM,
    "accountId": ACCOUNT_ID,
    "profileId": PROFILE_ID,
    "scheduledAt": SOON,
}
_ERROR: ErrorBody = {
    "code": "platform_unavailable",
    "message": "The platform could not be reached or is overloaded.",
    "platform": PLATFORM,
    "remediation": "Try again later.",
    "docUrl": f"{BASE}/docs/errors/platform_unavailable",
}
_DRAFT_EVENT: Json = {
    "id": DRAFT_ID,
    "profileId": None,
    "accountIds": [ACCOUNT_ID],
    "title": "Opening hours",
    "by": DRAFT_AUTHOR,
}
_TOKEN_EVENT: Json = {
    "accountId": ACCOUNT_ID,
    "platform": PLATFORM,
    "profileId": PROFILE_ID,
    "platformAccountId": PLATFORM_ACCOUNT_ID,
    "displayName": DISPLAY_NAME,
}
_PERIOD: Json = {"periodStart": "2026-11-20T00:00:00.000Z", "periodEnd": "2026-12-20T00:00:00.000Z"}
_QUOTA: Json = {"period": "2026-11", "quota": 5000, "resetAt": "2026-12-01T00:00:00.000Z"}

EXAMPLES: dict[str, Json] = {
    "post.queued": _POST_EVENT | {"queuedAt": NOW},
    "post.validated": _POST_EVENT | {"validatedAt": NOW},
    "post.published": _POST_EVENT | {"publishedAt": "2030-12-01T08:30:00.412Z", "uri": AT_URI, "cid": CID, "url": WEB},
    "post.rejected": _POST_EVENT | {"rejectedAt": SOON, "error": {**REFUSED, "platform": PLATFORM}},
    "post.failed": _POST_EVENT
    | {"failedAt": SOON, "error": _ERROR, "willRetry": True, "nextAttemptAt": "2030-12-01T08:30:30.000Z"},
    "post.canceled": _POST_EVENT | {"canceledAt": NOW},
    "post.rescheduled": _POST_EVENT | {"previousScheduledAt": "2030-11-30T08:30:00.000Z"},
    "post.edited": _POST_EVENT | {"changed": ["text"], "editedAt": NOW},
    "draft.proposed": _DRAFT_EVENT | {"proposedAt": NOW},
    "draft.approved": _DRAFT_EVENT | {"approvedAt": NOW},
    "draft.returned": _DRAFT_EVENT | {"returnedAt": NOW, "note": "Please name the holidays too."},
    "token.expiring": _TOKEN_EVENT | {"expiresAt": "2026-11-27T12:00:00.000Z", "daysUntilExpiry": 7},
    "token.revoked": _TOKEN_EVENT | {"revokedAt": NOW, "reason": "The refresh token was refused."},
    "version.deprecated": {
        "platform": OAUTH_PLATFORM,
        "currentPin": "202601",
        "nextPin": "202610",
        "sunsetAt": "2027-01-31T00:00:00.000Z",
    },
    "key.expiring": {
        "keyId": "01997b30-02c4-7f18-a5d6-8e3b1c9f7024",
        "name": "Newsletter",
        "prefix": "svc_live_",
        "last4": "cQ7x",
        "profileId": None,
        "expiresAt": "2026-11-27T12:00:00.000Z",
        "daysUntilExpiry": 7,
    },
    "webhook.disabled": {
        "endpointId": "whe_0WnLKDOSC7lvGKl4nUiYNb",
        "profileId": None,
        "description": "Newsroom bot",
        "reason": "The receiver answered 410 (Gone).",
        "disabledAt": NOW,
    },
    "subscription.activated": {"tier": "pro", "previousTier": "free"} | _PERIOD,
    "subscription.cancelled": {
        "tier": "pro",
        "cancelAtPeriodEnd": True,
        "cancelledAt": NOW,
        "effectiveAt": "2026-12-20T00:00:00.000Z",
    },
    "subscription.tier_changed": {"previousTier": "pro", "tier": "business"} | _PERIOD,
    "quota.warning": _QUOTA | {"postsCount": 4000, "percent": 0.8},
    "quota.exceeded": _QUOTA | {"postsCount": 5000},
    "billing.payment_failed": {"ls_subscription_id": "418231", "failedAt": NOW, "tier": "pro"},
    "billing.delinquent": {"ls_subscription_id": "418231", "since": NOW, "tier": "free"},
    "billing.recovered": {"ls_subscription_id": "418231", "recoveredAt": NOW, "tier": "pro"},
}


def find_example(type_: str) -> Json:
    """Return the example of an event type."""
    return {
        "id": "evt_0BzR7mQx4TnV2cKpLw9sYh",
        "type": type_,
        "createdAt": NOW,
        "organizationId": ORGANIZATION_ID,
        "data": EXAMPLES[type_],
    }

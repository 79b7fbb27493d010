"""The bodies that the reference shows as examples; tests hold every one to its schema."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ACCOUNT_ID = "01997b2e-5c1f-7a40-9a58-0d6c3f1b7e21"
OTHER_ACCOUNT_ID = "01997b2e-61d3-7b92-8c07-4e5a90b2d6f3"
PROFILE_ID = "01997b2e-4b02-7d15-b3c4-7f1e2a6d9083"
BATCH_ID = "01999c41-7e30-7c68-a1f5-3b8d07e4c952"
POST_ID = "01999c41-7e31-7020-8f6b-95d2c1a7e340"
ATTEMPT_ID = "01999c41-7e4a-7335-9d10-6c8e5f2b1a74"
MEDIA_ID = "med_0Bk3xQ9ZrT7uVw2YhN4mLp"
AT_URI = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3lxtq4kz5m22p"
CID = "bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm"
WEB = "https://bsky.app/profile/did:plc:ewvi7nxzyoun6zhxrhs64oiz/post/3lxtq4kz5m22p"
TEXT = "The new opening hours start on Monday."
SOON = "2026-12-01T08:30:00.000Z"
NOW = "2026-11-20T12:00:00.000Z"
DONE = "2026-11-20T12:00:00.640Z"
BASE = "https://social.example.org"

PUBLISH: Json = {"targets": [{"accountId": ACCOUNT_ID}], "text": TEXT}
SCHEDULE: Json = {
    "targets": [{"platform": "bluesky"}],
    "text": TEXT,
    "media": [{"kind": "image", "url": "https://example.org/door.jpg", "altText": "A door with the new hours on it"}],
    "scheduledAt": "2026-12-01T09:30:00+01:00",
}
DIFFERENT: Json = {
    "targets": [
        {"accountId": ACCOUNT_ID, "options": {"platform": "bluesky", "langs": ["en"]}},
        {"accountId": OTHER_ACCOUNT_ID, "text": "New opening hours from Monday. Details on our page."},
    ],
    "text": TEXT,
    "media": [MEDIA_ID],
}
RESCHEDULE: Json = {"scheduledAt": "2026-12-02T09:30:00+01:00"}
SETTLE: Json = {"published": True, "uri": AT_URI}

BATCH: Json = {
    "id": BATCH_ID,
    "status": "partial_failed",
    "createdAt": NOW,
    "results": [
        {
            "accountId": ACCOUNT_ID,
            "platform": "bluesky",
            "postId": POST_ID,
            "status": "published",
            "uri": AT_URI,
            "cid": CID,
            "url": WEB,
        },
        {
            "accountId": OTHER_ACCOUNT_ID,
            "platform": "twitter",
            "postId": "01999c41-7e32-7ae9-b7d1-0a4f6e8c2b95",
            "status": "rejected",
            "error": {
                "code": "platform_auth_failed",
                "message": "The account's authorization was revoked or has expired.",
                "rule": "account.reconnect_required",
                "platform": "twitter",
                "remediation": "Reconnect the account, then try the post again.",
                "docUrl": f"{BASE}/docs/errors/platform_auth_failed",
                "ruleUrl": f"{BASE}/docs/rules/account.reconnect_required",
            },
        },
    ],
}
SCHEDULED_BATCH: Json = {
    "id": BATCH_ID,
    "status": "queued",
    "createdAt": NOW,
    "results": [{"accountId": ACCOUNT_ID, "platform": "bluesky", "postId": POST_ID, "status": "queued"}],
    "scheduledAt": SOON,
}

POST: Json = {
    "id": POST_ID,
    "batchId": BATCH_ID,
    "profileId": PROFILE_ID,
    "accountId": ACCOUNT_ID,
    "account": {
        "id": ACCOUNT_ID,
        "platform": "bluesky",
        "platformAccountId": "did:plc:ewvi7nxzyoun6zhxrhs64oiz",
        "displayName": "Corner Bakery",
    },
    "platform": "bluesky",
    "status": "queued",
    "text": TEXT,
    "mediaRefs": [],
    "scheduledAt": SOON,
    "nextAttemptAt": None,
    "publishedAt": None,
    "platformUri": None,
    "platformCid": None,
    "url": None,
    "warnings": [],
    "createdAt": NOW,
    "updatedAt": NOW,
}
PUBLISHED: Json = POST | {
    "status": "published",
    "scheduledAt": None,
    "publishedAt": DONE,
    "platformUri": AT_URI,
    "platformCid": CID,
    "url": WEB,
    "updatedAt": DONE,
}
POST_PAGE: Json = {"data": [PUBLISHED], "nextCursor": None}
POST_DETAIL: Json = PUBLISHED | {
    "firstComment": None,
    "attempts": [
        {
            "id": ATTEMPT_ID,
            "attemptNumber": 1,
            "startedAt": NOW,
            "finishedAt": DONE,
            "succeeded": True,
            "errorCode": None,
            "errorMessage": None,
            "platformResponse": None,
        }
    ],
}
SETTLED: Json = PUBLISHED | {"platformCid": None, "url": None}
CANCELED: Json = {"id": POST_ID, "status": "canceled"}

VALIDATION: Json = {
    "valid": True,
    "results": [
        {
            "targetIndex": 0,
            "accountId": ACCOUNT_ID,
            "platform": "bluesky",
            "valid": True,
            "text": {"length": 38, "limit": 300, "unit": "graphemes"},
            "errors": [],
            "warnings": [],
        }
    ],
}

STATE = "Zk3vX0m5cH2bQ8rT1nYwLdA7eUoJ9sGfPiK4xRqVtBh"
CONNECT: Json = {
    "platform": "linkedin",
    "state": "stable",
    "descriptor": {
        "type": "oauth",
        "authorizeUrl": f"https://www.linkedin.com/oauth/v2/authorization?response_type=code&state={STATE}",
    },
}
CHOICE: Json = {
    "id": "8d969eef6ecad3c29a3a",
    "platformAccountId": "urn:li:organization:2414183",
    "displayName": "Corner Bakery",
    "kind": "organization",
}
BOARD: Json = {"id": "549755885175", "name": "Bread", "privacy": "PUBLIC"}
MEDIA: Json = {
    "id": MEDIA_ID,
    "url": f"https://socialpub.example.org/media/{MEDIA_ID}/1f0c9a7be23d4856a1f0c9a7be23d485.jpg",
    "contentType": "image/jpeg",
    "sizeBytes": 184211,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "kind": "image",
    "width": 1600,
    "height": 1200,
    "durationMs": None,
    "profileId": PROFILE_ID,
    "altText": "Loaves on a wooden shelf",
    "createdAt": "2026-05-04T09:12:31.884Z",
}
ACCOUNT: Json = {
    "id": ACCOUNT_ID,
    "profileId": PROFILE_ID,
    "platform": "bluesky",
    "platformAccountId": "did:plc:ewvi7nxzyoun6zhxrhs64oiz",
    "displayName": "Corner Bakery",
    "status": "active",
    "createdAt": "2026-09-24T07:15:02.431Z",
    "updatedAt": "2026-09-24T07:15:02.431Z",
    "tokenExpiresAt": None,
}
PROFILE: Json = {
    "id": PROFILE_ID,
    "name": "default",
    "slug": "default",
    "createdAt": "2026-09-24T07:14:20.098Z",
    "updatedAt": "2026-09-24T07:14:20.098Z",
}

NEW_PROFILE: Json = PROFILE | {"name": "Corner Bakery", "slug": "corner-bakery"}

KEY_ID = "01997b30-02c4-7f18-a5d6-8e3b1c9f7024"
KEY: Json = {
    "id": KEY_ID,
    "name": "Newsletter",
    "prefix": "svc_live_",
    "last4": "cQ7x",
    "profileId": None,
    "createdAt": "2026-09-24T07:16:41.207Z",
    "lastUsedAt": None,
    "revokedAt": None,
}
MINTED_KEY: Json = KEY | {"key": "svc_live_…cQ7x"}

PLATFORM: Json = {
    "platform": "bluesky",
    "label": "Bluesky",
    "state": "stable",
    "apiVersion": "",
    "sunsetAt": None,
    "text": {"limit": 300, "unit": "graphemes"},
    "media": {"images": 4, "videos": 1, "mixed": False, "types": ["image/jpeg", "image/png", "video/mp4"]},
    "firstComment": True,
}
RULE: Json = {
    "rule": "targets.max",
    "platform": None,
    "stage": "request",
    "severity": "error",
    "limit": None,
    "unit": None,
    "message": "`targets` has more than 25 entries.",
    "remediation": "Split the batch: at most 25 targets each.",
    "source": "socialpub",
    "ruleUrl": f"{BASE}/docs/rules/targets.max",
}
CODE: Json = {
    "code": "rate_limited",
    "status": 429,
    "message": "Too many requests in the last minute.",
    "remediation": "Wait as long as `Retry-After` says.",
    "docUrl": f"{BASE}/docs/errors/rate_limited",
}

# --- Events ------------------------------------------------------------------------------------------------------

_POST_EVENT: Json = {
    "id": POST_ID,
    "batchId": BATCH_ID,
    "platform": "bluesky",
    "accountId": ACCOUNT_ID,
    "profileId": PROFILE_ID,
    "scheduledAt": SOON,
}
_ERROR: Json = {
    "code": "platform_unavailable",
    "message": "The platform could not be reached or is overloaded.",
    "platform": "bluesky",
    "remediation": "Try again later.",
    "docUrl": f"{BASE}/docs/errors/platform_unavailable",
}
_TOKEN_EVENT: Json = {
    "accountId": ACCOUNT_ID,
    "platform": "bluesky",
    "profileId": PROFILE_ID,
    "platformAccountId": "did:plc:ewvi7nxzyoun6zhxrhs64oiz",
    "displayName": "Corner Bakery",
}
_PERIOD: Json = {"periodStart": "2026-11-20T00:00:00.000Z", "periodEnd": "2026-12-20T00:00:00.000Z"}
_QUOTA: Json = {"period": "2026-11", "quota": 5000, "resetAt": "2026-12-01T00:00:00.000Z"}

EVENT_DATA: dict[str, Json] = {
    "post.queued": _POST_EVENT | {"queuedAt": NOW},
    "post.validated": _POST_EVENT | {"validatedAt": NOW},
    "post.published": _POST_EVENT | {"publishedAt": "2026-12-01T08:30:00.412Z", "uri": AT_URI, "cid": CID, "url": WEB},
    "post.rejected": _POST_EVENT
    | {"rejectedAt": SOON, "error": BATCH["results"][1]["error"] | {"platform": "bluesky"}},
    "post.failed": _POST_EVENT
    | {"failedAt": SOON, "error": _ERROR, "willRetry": True, "nextAttemptAt": "2026-12-01T08:30:30.000Z"},
    "post.canceled": _POST_EVENT | {"canceledAt": NOW},
    "post.rescheduled": _POST_EVENT | {"previousScheduledAt": "2026-11-30T08:30:00.000Z"},
    "token.expiring": _TOKEN_EVENT | {"expiresAt": "2026-11-27T12:00:00.000Z", "daysUntilExpiry": 7},
    "token.revoked": _TOKEN_EVENT | {"revokedAt": NOW, "reason": "The refresh token was refused."},
    "version.deprecated": {
        "platform": "linkedin",
        "currentPin": "202601",
        "nextPin": "202610",
        "sunsetAt": "2027-01-31T00:00:00.000Z",
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


def event(type_: str) -> Json:
    """An example of one type of event."""
    return {
        "id": "evt_0BzR7mQx4TnV2cKpLw9sYh",
        "type": type_,
        "createdAt": NOW,
        "organizationId": "01997b2e-4afe-7c31-8d92-5e6b0f3a1c47",
        "data": EVENT_DATA[type_],
    }

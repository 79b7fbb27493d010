"""Texts of the reference about the API as a whole. Those of operations are in `Operation`."""

from __future__ import annotations

from socialpub.base.key_scopes import KEY_SCOPES

_SCOPES = "\n\n".join(f"`{scope.name}`: {scope.about}" for scope in KEY_SCOPES.values())
API_DESCRIPTION = f"""\
Publish one piece of content to up to 25 social accounts in one request, now or at a scheduled time. The response tells
for each account whether the post was published, where, or why not.

**Authentication.** Send `Authorization: Bearer <API_KEY>`. A key belongs to one organization and may be limited to one
of its profiles, or to some of its accounts; anything outside is 404. Reads also accept the session cookie of a
signed-in browser. A key may be limited to some scopes. Each operation names the one that it needs; without it, the
response is 403 (`api_key.scope`):

{_SCOPES}

**Requests** are JSON and closed: unknown fields and null are rejected. Times carry a time zone. Ids are opaque.

The request line and the headers together may have 8 KiB; put longer values into the body.

**Responses** are JSON and open: fields may be added, never removed, so ignore unknown fields. Times are in UTC,
with milliseconds. Every response has an `X-Request-Id`; send your own in that header to use it.

**Errors** all have one shape, `{{"error": {{…}}}}`. Switch on `code`; `rule` names the rule that was broken,
`remediation` tells what to do, `docUrl` and `ruleUrl` link to an explanation on this server.

**Repeating** a write is safe with an `Idempotency-Key`: the work is done once, and the same key with the same body gets
the same response for 24 hours.

**Rate limits** apply to each key and route over a sliding window of 60 seconds; every response has your current usage.

**Generated clients.** This document is tested with openapi-generator (Python, Go, Java, TypeScript),
openapi-python-client and openapi-typescript. For Java set `containerDefaultToNull=true`: otherwise a list that you
leave out is sent as an empty list, which means something else. New event types may be added: let your client skip
unknown types, or request only the types that it knows.

**HEAD** works wherever GET does, and OPTIONS lists the methods of an address.\
"""

DELIVERIES_TAG = "Webhook deliveries"
TAG_DESCRIPTIONS: dict[str, str] = {
    "Posts": "Publish, schedule, read, edit, reschedule, cancel and retry posts.",
    "Batches": "The posts of one publish request together: read, wait for, edit, reschedule and cancel them.",
    "Drafts": "Publish requests that are written, proposed and approved before they are published.",
    "Accounts": "The connected accounts that posts are published to.",
    "Media": "Images, videos and documents of posts: uploaded once, used by id.",
    "Profiles": "Groups of accounts within an organization.",
    "Slots": "Weekly times at which a profile publishes.",
    "API keys": "Create, list and revoke API keys. Only signed-in users can do this: a key cannot create keys.",
    "Catalogue": "Every platform, rule and error code of this server. No key is needed.",
    "Health": "For monitoring. No key is needed.",
    "Webhooks": "Endpoints that receive events, and the outcome of each delivery.",
    "Notifications": "Channels that notify people by e-mail or chat, and the messages that were sent.",
    "Events": "Events, which you read in order, or receive at webhook endpoints: signed, at least once, in no fixed "
    "order.",
    DELIVERIES_TAG: "The request that a webhook endpoint receives for each event type.",
}

"""What the reference says of the API as a whole; of an operation it is said beside its handler (`Operation`)."""

from __future__ import annotations

ABOUT = """\
Publish one piece of content to up to 25 social accounts in one request, now or at a time of your choice, and learn for
each account whether it went out, and if not, why.

**Authentication.** Send `Authorization: Bearer <API_KEY>`. A key belongs to one organization and may be bound to one of
its profiles; whatever lies outside is 404. Reads also take the session cookie of a signed-in browser.

**Requests** are JSON and closed: an unknown field is refused, and so is null. Times carry a time zone. Ids are opaque.

The request line and the headers together may take 8 KiB; put anything longer into the body.

**Answers** are JSON and open: fields may be added, never removed, so ignore those that you do not know. Times are UTC,
with milliseconds. Every answer has an `X-Request-Id`; send your own in that header to have it kept.

**Errors** all have one shape, `{"error": {…}}`. Switch on `code`; `rule` says which rule was broken, `remediation` what
to do, `docUrl` and `ruleUrl` where this server explains it.

**Repeating** a write is safe with an `Idempotency-Key`: the work is done once, and the same key with the same body gets
the same answer for 24 hours.

**Rate limits** apply to each key and route over a sliding window of 60 seconds; every answer says where you stand.

**Generated clients.** This document is tested with openapi-generator (Python, Go, Java, TypeScript),
openapi-python-client and openapi-typescript. For Java set `containerDefaultToNull=true`: otherwise a list that you
leave out is sent as an empty list, which has a meaning of its own. New types of events may be added: let your client
skip unknown ones, or request only those that it knows.

**HEAD** works wherever GET does, and OPTIONS names an address's methods.\
"""

DELIVERIES = "Webhook deliveries"
TAGS: dict[str, str] = {
    "Posts": "Publish, schedule, look up, move, cancel, try again.",
    "Accounts": "The connected accounts that posts go to.",
    "Media": "Files that posts carry: uploaded once, used by id.",
    "Profiles": "The parts of an organization; each owns its accounts.",
    "API keys": "Made, listed and revoked by signed-in people only: a key cannot make keys.",
    "Catalogue": "Every platform, rule and error code, from the tables that the code checks with. No key is needed.",
    "Health": "For monitoring. No key is needed.",
    "Webhooks": "Endpoints that events are sent to, and what became of each delivery.",
    "Notifications": "Channels on which people are told, by e-mail or in a chat, and what they were told.",
    "Events": "What happened: read in order, or sent to webhook endpoints: signed, at least once, in no fixed order.",
    DELIVERIES: "What a webhook endpoint is sent for each type of event.",
}

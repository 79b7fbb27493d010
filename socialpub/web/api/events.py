"""/v1/events: the log of events, in order, for polling."""

from __future__ import annotations

import functools

from socialpub.domain.delivery.webhooks import event_log
from socialpub.domain.schemas.events import EventBody, EventPage, EventsQuery
from socialpub.web.http import awaited_reads
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import (
    ACCOUNT_ID,
    BATCH_ID,
    NOW,
    ORGANIZATION_ID,
    PLATFORM,
    POST_ID,
    PROFILE_ID,
    SOON,
)

EVENT: EventBody = {
    "id": "evt_0Bk3xQ9ZrT7uVw2YhN4mLp",
    "type": "post.queued",
    "createdAt": NOW,
    "organizationId": ORGANIZATION_ID,
    "data": {
        "id": POST_ID,
        "batchId": BATCH_ID,
        "platform": PLATFORM,
        "accountId": ACCOUNT_ID,
        "profileId": PROFILE_ID,
        "scheduledAt": SOON,
        "queuedAt": NOW,
    },
}
PAGE: EventPage = {"data": [EVENT], "nextCursor": None, "endCursor": "r1kq…AAE="}
LIST = Operation(
    "Events",
    "listEvents",
    "List events",
    "Events, oldest first, in the envelope that a webhook endpoint gets. To read newer events, send `endCursor` as "
    "`cursor`: no event is skipped or listed twice. A page that is empty because of a filter may still have a "
    "`nextCursor`. With `Prefer: wait=N`, an empty response comes after N seconds, any other as soon as there is an "
    "event.",
    query=EventsQuery,
    answers={200: SuccessResponse(EventPage, "One page.", PAGE)},
    errors=("cursor", "not_found", "api_key.profile_scope"),
)


async def list_events(call: RequestContext) -> HandlerResponse:
    """GET /v1/events."""
    query = await call.read(functools.partial(event_log.fix_start, call.service, call.scope, call.query(EventsQuery)))
    found, headers = await awaited_reads.read_when_ready(
        call,
        f"events:{call.scope.organization}",
        lambda: event_log.load_page(call.service, call.scope, query),
        event_log.has_news,
    )
    return HandlerResponse(found, headers=headers)

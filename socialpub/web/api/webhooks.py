"""/v1/webhook-endpoints and /v1/webhook-deliveries: who is told, and what became of it."""

from __future__ import annotations

import asyncio

from socialpub.domain.act import Deed, deed
from socialpub.domain.outbox import addresses
from socialpub.domain.shapes.common import DeletedBody, Narrowing
from socialpub.domain.shapes.webhooks import (
    DeliveriesQuery,
    DeliveryBody,
    DeliveryDetail,
    DeliveryPage,
    EndpointBody,
    EndpointChange,
    EndpointList,
    EndpointRequest,
    RedeliveredBody,
    RedeliverRequest,
    SignedEndpointBody,
    TestBody,
    TestRequest,
)
from socialpub.domain.webhooks import deliveries as records
from socialpub.domain.webhooks import endpoints, samples
from socialpub.web.api.events import EVENT
from socialpub.web.api.writes import commit, commit_after, commit_bare
from socialpub.web.examples import DONE, NOW
from socialpub.web.http import Call, Reply
from socialpub.web.openapi.events import example_of
from socialpub.web.operation import Operation, Success

TAG = "Webhooks"
URL_ERRORS = ("webhook.url.scheme", "webhook.url.address")
SECRET = "whsec_C2FtcGxlLXNhbXBsZS1zYW1wbGUtc2FtcGxlLXNhbXA="

ENDPOINT: EndpointBody = {
    "id": "whe_0Bk3xQ9ZrT7uVw2YhN4mLp",
    "url": "https://hooks.example.org/socialpub",
    "events": ["post.published", "post.failed", "post.rejected"],
    "description": "Newsroom bot",
    "active": True,
    "profileId": None,
    "lastDeliveryAt": DONE,
    "lastFailureReason": None,
    "previousSecretUntil": None,
    "previousSecretDeliveries": 0,
    "createdAt": NOW,
    "updatedAt": NOW,
}
NEW: SignedEndpointBody = {**ENDPOINT, "lastDeliveryAt": None, "signingSecret": SECRET}
REGISTRATION = {"url": ENDPOINT["url"], "events": ENDPOINT["events"], "description": ENDPOINT["description"]}

LISTING = Operation(
    TAG,
    "listWebhookEndpoints",
    "List endpoints",
    "A key that is bound to a profile sees that profile's.",
    answers={200: Success(EndpointList, "The endpoints.", EndpointList(data=[ENDPOINT]))},
    links={"readWebhookEndpoint": "/data/0/id"},
)


async def listing(call: Call) -> Reply:
    """GET /v1/webhook-endpoints."""
    return Reply(EndpointList(data=await call.service.read(lambda: endpoints.listed(call.scope))))


REGISTER = Operation(
    TAG,
    "registerWebhookEndpoint",
    "Register an endpoint",
    "Events that happen from now on are sent there, each at least once. The signing secret is in this answer and "
    "nowhere else. A key that is bound to a profile registers for that profile's events.",
    body=EndpointRequest,
    requests={"some types": REGISTRATION, "everything": {"url": ENDPOINT["url"]}},
    answers={201: Success(SignedEndpointBody, "The new endpoint, with its signing secret.", NEW)},
    errors=(*URL_ERRORS, "webhook.endpoints.max"),
)


async def register(call: Call) -> Reply:
    """POST /v1/webhook-endpoints: the signing secret is in this answer and never again."""

    async def choose(request: EndpointRequest) -> Deed:
        await addresses.check_address(call.service, call.scope.organization, request.url)
        return deed(call.who, endpoints.register, request)

    return await commit_after(call, EndpointRequest, choose)


READ = Operation(
    TAG,
    "readWebhookEndpoint",
    "Read one endpoint",
    query=Narrowing,
    answers={200: Success(EndpointBody, "The endpoint.", ENDPOINT)},
    errors=("not_found",),
)


async def read(call: Call) -> Reply:
    """GET /v1/webhook-endpoints/{id}."""
    endpoint = call.path_value("endpoint_id")
    return Reply(await call.service.read(lambda: endpoints.body(endpoints.find(call.narrowed, endpoint))))


CHANGE = Operation(
    TAG,
    "changeWebhookEndpoint",
    "Change an endpoint",
    "What the body leaves out stays as it is.",
    query=Narrowing,
    body=EndpointChange,
    requests={"switch off": {"active": False}, "everything": {"events": []}},
    answers={200: Success(EndpointBody, "The endpoint as it is now.", ENDPOINT)},
    errors=("not_found", *URL_ERRORS),
)


async def change(call: Call) -> Reply:
    """PATCH /v1/webhook-endpoints/{id}."""
    endpoint = call.path_value("endpoint_id")

    async def choose(request: EndpointChange) -> Deed:
        if request.url is not None:
            await addresses.check_address(call.service, call.scope.organization, request.url)
        return deed(call.who, endpoints.change, endpoint, request)

    return await commit_after(call, EndpointChange, choose)


DELETE = Operation(
    TAG,
    "deleteWebhookEndpoint",
    "Delete an endpoint",
    "Nothing more is sent there, nor what was still on its way.",
    query=Narrowing,
    answers={200: Success(DeletedBody, "The endpoint is gone.", DeletedBody(id=ENDPOINT["id"], deleted=True))},
    errors=("not_found",),
)


async def delete(call: Call) -> Reply:
    """DELETE /v1/webhook-endpoints/{id}."""
    return await commit_bare(call, lambda: deed(call.who, endpoints.delete, call.path_value("endpoint_id")))


TESTED: TestBody = {
    "delivered": True,
    "status": 204,
    "durationMs": 87,
    "responseBody": "",
    "deliveryId": "dlv_0Bk3xQ9ZrT7uVw2YhN4mLr",
    "nonRetryable": False,
    "errorName": None,
    "sentEvent": EVENT,
}
TEST = Operation(
    TAG,
    "testWebhookEndpoint",
    "Send a sample",
    "Sends a sample event now, signed like every other, and answers with what the endpoint did. It is not in the log "
    "of events or deliveries, and is not tried again. An endpoint that is switched off can be tested, too.",
    query=Narrowing,
    body=TestRequest,
    requests={"a published post": {}, "of your own": {"type": "post.failed", "data": {"id": "42"}}},
    answers={200: Success(TestBody, "What the endpoint did.", TESTED)},
    errors=("not_found",),
)


async def test(call: Call) -> Reply:
    """POST /v1/webhook-endpoints/{id}/test."""
    endpoint = call.path_value("endpoint_id")
    return await commit_after(call, TestRequest, lambda request: try_out(call, endpoint, request))


async def try_out(call: Call, endpoint: str, request: TestRequest) -> Deed:
    """Send a sample to an endpoint now; to be written down, what came of it."""
    type_ = request.type or "post.published"
    data = request.data if request.data is not None else example_of(type_)["data"]
    scope = call.who.scope
    to = await call.service.read(lambda: samples.receiver(scope, call.service, endpoint))
    sending = call.service.delivering.of(to.share)
    tried = await asyncio.get_running_loop().run_in_executor(
        sending, samples.send, call.service, to, type_, data, call.request_id
    )
    return deed(call.who, samples.tried, to, tried)


ROTATE = Operation(
    TAG,
    "rotateWebhookSecret",
    "Exchange the signing secret",
    "The new secret is in this answer and nowhere else. For 24 hours every delivery is signed with both; a receiver "
    "that answers 401 or 403 meanwhile is called once more at once with the two signatures exchanged.",
    query=Narrowing,
    answers={200: Success(SignedEndpointBody, "The endpoint, with its new secret.", NEW)},
    errors=("not_found",),
)


async def rotate(call: Call) -> Reply:
    """POST /v1/webhook-endpoints/{id}/rotate-secret."""
    return await commit_bare(call, lambda: deed(call.who, endpoints.rotate, call.path_value("endpoint_id")))


REDELIVERED: RedeliveredBody = {"count": 1000}
REDELIVER_SINCE = Operation(
    TAG,
    "redeliverSince",
    "Deliver again what has failed",
    "Every failed delivery since a time goes out again, under the same event id and with all its attempts.",
    query=Narrowing,
    body=RedeliverRequest,
    requests={"what has failed": {"since": "2026-11-20T09:00:00Z"}},
    answers={202: Success(RedeliveredBody, "How many go out again.", REDELIVERED)},
    errors=("not_found",),
)


async def redeliver_since(call: Call) -> Reply:
    """POST /v1/webhook-endpoints/{id}/redeliver."""
    endpoint = call.path_value("endpoint_id")
    return await commit(
        call, RedeliverRequest, lambda request: deed(call.who, records.redeliver_since, endpoint, request)
    )


# --- Deliveries --------------------------------------------------------------------------------------------------

DELIVERY_ROW: DeliveryBody = {
    "id": "whd_0Bk3xQ9ZrT7uVw2YhN4mLq",
    "endpointId": ENDPOINT["id"],
    "eventId": EVENT["id"],
    "type": EVENT["type"],
    "status": "succeeded",
    "attemptCount": 1,
    "nextAttemptAt": None,
    "lastStatusCode": 204,
    "lastError": None,
    "createdAt": NOW,
    "updatedAt": DONE,
}
DELIVERIES = Operation(
    TAG,
    "listWebhookDeliveries",
    "List deliveries",
    "What became of each event at each endpoint, newest first.",
    query=DeliveriesQuery,
    answers={200: Success(DeliveryPage, "One page.", DeliveryPage(data=[DELIVERY_ROW], nextCursor=None))},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readWebhookDelivery": "/data/0/id"},
)


async def deliveries(call: Call) -> Reply:
    """GET /v1/webhook-deliveries."""
    query = call.query(DeliveriesQuery)
    return Reply(await call.service.read(lambda: records.page(call.service, call.scope, query)))


DETAIL: DeliveryDetail = {
    **DELIVERY_ROW,
    "event": EVENT,
    "attempts": [
        {
            "id": TESTED["deliveryId"],
            "startedAt": NOW,
            "durationMs": 87,
            "statusCode": 204,
            "error": None,
            "responseBody": "",
        }
    ],
}
DELIVERY = Operation(
    TAG,
    "readWebhookDelivery",
    "Read one delivery",
    "The delivery with the event that is sent, and every call that was made.",
    query=Narrowing,
    answers={200: Success(DeliveryDetail, "The delivery.", DETAIL)},
    errors=("not_found",),
)


async def delivery(call: Call) -> Reply:
    """GET /v1/webhook-deliveries/{id}."""
    return Reply(await call.service.read(lambda: records.detail(call.narrowed, call.path_value("delivery_id"))))


PENDING: DeliveryBody = {**DELIVERY_ROW, "status": "pending", "nextAttemptAt": DONE, "updatedAt": DONE}
REDELIVER = Operation(
    TAG,
    "redeliverWebhookDelivery",
    "Deliver again",
    "The delivery goes out again, under the same event id, with all its attempts.",
    query=Narrowing,
    answers={202: Success(DeliveryBody, "The delivery, pending again.", PENDING)},
    errors=("not_found",),
)


async def redeliver(call: Call) -> Reply:
    """POST /v1/webhook-deliveries/{id}/redeliver."""
    return await commit_bare(call, lambda: deed(call.who, records.redeliver, call.path_value("delivery_id")))

"""/v1/webhook-endpoints and /v1/webhook-deliveries."""

from __future__ import annotations

from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.delivery import url_policy
from socialpub.domain.delivery.webhooks import deliveries as records
from socialpub.domain.delivery.webhooks import endpoints, sample_events
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.domain.schemas.webhooks import (
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
from socialpub.web.api.events import EVENT
from socialpub.web.api.write_handlers import commit, commit_after_lookup, commit_without_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.events import find_example
from socialpub.web.openapi.examples import DONE, NOW

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
    "accounts": None,
    "lastDeliveryAt": DONE,
    "lastFailureReason": None,
    "previousSecretUntil": None,
    "previousSecretDeliveries": 0,
    "createdAt": NOW,
    "updatedAt": NOW,
}
NEW: SignedEndpointBody = {**ENDPOINT, "lastDeliveryAt": None, "signingSecret": SECRET}
REGISTRATION = {"url": ENDPOINT["url"], "events": ENDPOINT["events"], "description": ENDPOINT["description"]}

LIST = Operation(
    TAG,
    "listWebhookEndpoints",
    "List endpoints",
    "A key that is limited to a profile sees only the endpoints of that profile.",
    answers={200: SuccessResponse(EndpointList, "The endpoints.", EndpointList(data=[ENDPOINT]))},
    links={"readWebhookEndpoint": "/data/0/id"},
)


async def list_endpoints(call: RequestContext) -> HandlerResponse:
    """GET /v1/webhook-endpoints."""
    return HandlerResponse(EndpointList(data=await call.service.read(lambda: endpoints.list_bodies(call.scope))))


REGISTER = Operation(
    TAG,
    "registerWebhookEndpoint",
    "Add an endpoint",
    "The endpoint gets events from now on, each at least once. The signing secret is shown only in this response. A "
    "key that is limited to a profile adds an endpoint for the events of that profile.",
    body=EndpointRequest,
    requests={"some types": REGISTRATION, "everything": {"url": ENDPOINT["url"]}},
    answers={201: SuccessResponse(SignedEndpointBody, "The new endpoint, with its signing secret.", NEW)},
    errors=(*URL_ERRORS, "webhook.endpoints.max"),
)


async def register(call: RequestContext) -> HandlerResponse:
    """POST /v1/webhook-endpoints: the response shows the signing secret once."""

    async def choose(request: EndpointRequest) -> BoundAction:
        await url_policy.check_address(call.service, call.scope.organization, request.url)
        return bind(call.actor, endpoints.create, request)

    return await commit_after_lookup(call, EndpointRequest, choose)


READ = Operation(
    TAG,
    "readWebhookEndpoint",
    "Read one endpoint",
    query=ProfileQuery,
    answers={200: SuccessResponse(EndpointBody, "The endpoint.", ENDPOINT)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/webhook-endpoints/{id}."""
    endpoint = call.path_value("endpoint_id")
    return HandlerResponse(
        await call.service.read(lambda: endpoints.to_body(endpoints.find(call.profile_scope, endpoint)))
    )


CHANGE = Operation(
    TAG,
    "changeWebhookEndpoint",
    "Change an endpoint",
    "Fields that the body leaves out keep their value.",
    query=ProfileQuery,
    body=EndpointChange,
    requests={"turn off": {"active": False}, "everything": {"events": []}},
    answers={200: SuccessResponse(EndpointBody, "The changed endpoint.", ENDPOINT)},
    errors=("not_found", *URL_ERRORS),
)


async def change(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/webhook-endpoints/{id}."""
    endpoint = call.path_value("endpoint_id")

    async def choose(request: EndpointChange) -> BoundAction:
        if request.url is not None:
            await url_policy.check_address(call.service, call.scope.organization, request.url)
        return bind(call.actor, endpoints.change, endpoint, request)

    return await commit_after_lookup(call, EndpointChange, choose)


DELETE = Operation(
    TAG,
    "deleteWebhookEndpoint",
    "Delete an endpoint",
    "The endpoint gets no more deliveries, including those that are pending.",
    query=ProfileQuery,
    answers={
        200: SuccessResponse(DeletedBody, "The endpoint was deleted.", DeletedBody(id=ENDPOINT["id"], deleted=True))
    },
    errors=("not_found",),
)


async def delete(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/webhook-endpoints/{id}."""
    return await commit_without_body(call, lambda: bind(call.actor, endpoints.delete, call.path_value("endpoint_id")))


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
    "Send a test event",
    "Sends a signed test event now and returns the endpoint's response. It does not appear in the lists of events or "
    "deliveries, and it is not retried. You can also test an endpoint that is turned off.",
    query=ProfileQuery,
    body=TestRequest,
    requests={"a published post": {}, "your own data": {"type": "post.failed", "data": {"id": "42"}}},
    answers={200: SuccessResponse(TestBody, "The result of the test.", TESTED)},
    errors=("not_found",),
)


async def test(call: RequestContext) -> HandlerResponse:
    """POST /v1/webhook-endpoints/{id}/test."""
    endpoint = call.path_value("endpoint_id")
    return await commit_after_lookup(call, TestRequest, lambda request: send_test(call, endpoint, request))


async def send_test(call: RequestContext, endpoint: str, request: TestRequest) -> BoundAction:
    """Send a sample event now. Return the action that records the outcome."""
    type_ = request.type or "post.published"
    data = request.data if request.data is not None else find_example(type_)["data"]
    scope = call.actor.scope
    to = await call.service.read(lambda: sample_events.load_target(scope, call.service, endpoint))
    threads = call.service.executors.delivering
    tried = await threads.run(to.share, sample_events.send, call.service, to, type_, data, call.request.request_id)
    return bind(call.actor, sample_events.build_result, to, tried)


ROTATE = Operation(
    TAG,
    "rotateWebhookSecret",
    "Rotate the signing secret",
    "The new secret is shown only in this response. For 24 hours, every delivery is signed with both secrets. If the "
    "receiver answers 401 or 403 in this time, it is called again at once with the two signatures swapped.",
    query=ProfileQuery,
    answers={200: SuccessResponse(SignedEndpointBody, "The endpoint, with its new secret.", NEW)},
    errors=("not_found",),
)


async def rotate(call: RequestContext) -> HandlerResponse:
    """POST /v1/webhook-endpoints/{id}/rotate-secret."""
    return await commit_without_body(
        call, lambda: bind(call.actor, endpoints.rotate_secret, call.path_value("endpoint_id"))
    )


REDELIVERED: RedeliveredBody = {"count": 1000}
REDELIVER_SINCE = Operation(
    TAG,
    "redeliverSince",
    "Redeliver failed deliveries",
    "Redelivers every delivery that failed since the given time, with the same event id and a full set of attempts.",
    query=ProfileQuery,
    body=RedeliverRequest,
    requests={"failed deliveries": {"since": "2026-11-20T09:00:00Z"}},
    answers={202: SuccessResponse(RedeliveredBody, "The number of deliveries.", REDELIVERED)},
    errors=("not_found",),
)


async def redeliver_since(call: RequestContext) -> HandlerResponse:
    """POST /v1/webhook-endpoints/{id}/redeliver."""
    endpoint = call.path_value("endpoint_id")
    return await commit(
        call, RedeliverRequest, lambda request: bind(call.actor, records.redeliver_since, endpoint, request)
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
LIST_DELIVERIES = Operation(
    TAG,
    "listWebhookDeliveries",
    "List deliveries",
    "Every delivery of every event with its outcome, newest first.",
    query=DeliveriesQuery,
    answers={200: SuccessResponse(DeliveryPage, "One page.", DeliveryPage(data=[DELIVERY_ROW], nextCursor=None))},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readWebhookDelivery": "/data/0/id"},
)


async def list_deliveries(call: RequestContext) -> HandlerResponse:
    """GET /v1/webhook-deliveries."""
    query = call.query(DeliveriesQuery)
    return HandlerResponse(await call.service.read(lambda: records.load_page(call.service, call.scope, query)))


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
READ_DELIVERY = Operation(
    TAG,
    "readWebhookDelivery",
    "Read one delivery",
    "The delivery with its event and every attempt.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeliveryDetail, "The delivery.", DETAIL)},
    errors=("not_found",),
)


async def read_delivery(call: RequestContext) -> HandlerResponse:
    """GET /v1/webhook-deliveries/{id}."""
    delivery, profile = call.path_value("delivery_id"), call.query(ProfileQuery).profile_id
    return HandlerResponse(await call.service.read(lambda: records.load_detail(call.scope, delivery, profile)))


PENDING: DeliveryBody = {**DELIVERY_ROW, "status": "pending", "nextAttemptAt": DONE, "updatedAt": DONE}
REDELIVER = Operation(
    TAG,
    "redeliverWebhookDelivery",
    "Redeliver a delivery",
    "Redelivers with the same event id and a full set of attempts.",
    query=ProfileQuery,
    answers={202: SuccessResponse(DeliveryBody, "The delivery, pending again.", PENDING)},
    errors=("not_found",),
)


async def redeliver(call: RequestContext) -> HandlerResponse:
    """POST /v1/webhook-deliveries/{id}/redeliver."""
    delivery = call.path_value("delivery_id")

    def choose() -> BoundAction:
        who, profile = call.actor._replace(scope=call.scope), call.query(ProfileQuery).profile_id
        return bind(who, records.redeliver, delivery, profile)

    return await commit_without_body(call, choose)

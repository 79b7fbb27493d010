"""Webhook endpoints and deliveries: how they are asked for, and what is told of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.domain.shapes.common import (
    NO_NUL,
    Address,
    AnyJson,
    DateTime,
    Instant,
    Maybe,
    Request,
    Short,
    Uuid,
    absent,
)
from socialpub.domain.shapes.events import EventBody, EventType, SampleEvent
from socialpub.store.rows import DeliveryStatus

DESCRIPTION_MAX = 500
DATA_MAX = 100  # names
Types = Annotated[list[EventType], Field(max_length=50)]
Description = Annotated[str, StringConstraints(max_length=DESCRIPTION_MAX), NO_NUL]
ENDPOINT_ID = r"^whe_[0-9A-Za-z]{22}$"
EndpointId = Annotated[str, StringConstraints(pattern=ENDPOINT_ID)]


# --- Endpoints -----------------------------------------------------------------------------------------------------


class EndpointRequest(Request):
    """The body of POST /v1/webhook-endpoints."""

    url: Address
    """Where events are sent: https, and a public address, unless the operator named the host."""
    events: Maybe[Types] = absent()
    """The types that are sent; none, or an empty list: all of them."""
    description: Description | None = absent()
    """What the endpoint is for, in your own words."""


class EndpointChange(Request):
    """The body of PATCH /v1/webhook-endpoints/{id}: what it leaves out stays."""

    url: Maybe[Address] = absent()
    events: Maybe[Types] = absent()
    """An empty list: all of them."""
    description: Description | None = absent()
    """Null: none."""
    active: Maybe[bool] = absent()
    """`false`: nothing is sent, and what happens meanwhile is not delivered later. `true` also ends a switch-off."""


class EndpointBody(TypedDict):
    """An endpoint that events are sent to."""

    id: str
    url: str
    events: list[EventType]
    """Empty: every type."""
    description: str | None
    active: bool
    """False: nothing is sent. An endpoint whose every delivery has failed for 5 days is switched off, and one whose
    receiver answered 410 (event `webhook.disabled`)."""
    profileId: str | None
    """The profile whose events are sent; null: the whole organization's."""
    lastDeliveryAt: DateTime | None
    """When something was last delivered."""
    lastFailureReason: str | None
    """Why the newest failed attempt failed; null once something was delivered."""
    previousSecretUntil: DateTime | None
    """Until when the secret before this one signs, too; null where there was none."""
    previousSecretDeliveries: int
    """Deliveries since the exchange that the receiver refused with the new secret and accepted with the one before.

    While it grows, the receiver does not know the new secret yet."""
    createdAt: DateTime
    updatedAt: DateTime


class SignedEndpointBody(EndpointBody):
    """An endpoint with its signing secret, which is shown this once."""

    signingSecret: str


class EndpointList(TypedDict):
    """The endpoints, oldest first."""

    data: list[EndpointBody]


class TestRequest(Request):
    """The body of POST /v1/webhook-endpoints/{id}/test."""

    type: Maybe[EventType] = absent()
    """The type of the sample; `post.published` where none is named."""
    data: Maybe[Annotated[dict[Short, AnyJson], Field(max_length=DATA_MAX)]] = absent()
    """What the sample carries in place of its example data."""


class TestBody(TypedDict):
    """What an endpoint did with a sample, now."""

    delivered: bool
    """Whether it answered with 2xx."""
    status: int | None
    """The status of its answer; null where none came."""
    durationMs: int
    responseBody: str | None
    """The first 2 KiB of the answer."""
    deliveryId: str
    nonRetryable: bool
    """Whether a real delivery would not be tried again."""
    errorName: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `timeout`, `unreachable`, `address` or `answer_lost`; null when delivered."""
    sentEvent: SampleEvent


# --- Deliveries ----------------------------------------------------------------------------------------------------


class DeliveriesQuery(Request):
    """The query of GET /v1/webhook-deliveries."""

    endpoint_id: Maybe[EndpointId] = absent()
    """Deliveries to this endpoint."""
    type: Maybe[Types] = absent()
    status: Maybe[Annotated[list[DeliveryStatus], Field(max_length=3)]] = absent()
    since: Maybe[Instant] = absent()
    """Deliveries of events that happened at this instant or later."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Deliveries a page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before; an empty one is as if absent."""
    profile_id: Maybe[Uuid] = absent()
    """Deliveries of this profile's events."""


class DeliveryBody(TypedDict):
    """One event on its way to one endpoint."""

    id: str
    endpointId: str
    eventId: str
    type: EventType
    status: DeliveryStatus
    attemptCount: int
    nextAttemptAt: DateTime | None
    """When it is tried next; null when it is not."""
    lastStatusCode: int | None
    lastError: str | None
    createdAt: DateTime
    updatedAt: DateTime


class DeliveryAttempt(TypedDict):
    """One call to the endpoint."""

    id: str
    """What the header `…-Delivery-Id` carried."""
    startedAt: DateTime
    durationMs: int
    statusCode: int | None
    error: str | None
    responseBody: str | None
    """The first 2 KiB of the answer."""


class DeliveryDetail(DeliveryBody):
    """A delivery with what is sent, and every call that was made."""

    event: EventBody
    attempts: list[DeliveryAttempt]


class DeliveryPage(TypedDict):
    """A page of deliveries, newest first."""

    data: list[DeliveryBody]
    nextCursor: str | None
    """Send it as `cursor` for the next page, until it is null. A filtered page may be empty and still have one."""


class RedeliverRequest(Request):
    """The body of POST /v1/webhook-endpoints/{id}/redeliver."""

    since: Instant
    """Of events that happened at this instant or later."""
    status: Maybe[DeliveryStatus] = absent()
    """`failed` (the default) or `succeeded`; what is pending is on its way."""


class RedeliveredBody(TypedDict):
    """How many deliveries go out again."""

    count: int

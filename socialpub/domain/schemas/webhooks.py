"""Schemas of webhook endpoints and deliveries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import (
    NO_NUL,
    Address,
    AnyJson,
    DateTime,
    Instant,
    Maybe,
    RequestModel,
    ShortText,
    Uuid,
    absent,
)
from socialpub.domain.schemas.events import EventBody, EventType, SampleEvent
from socialpub.store.rows import DeliveryStatus

DESCRIPTION_MAX = 500
DATA_MAX = 100  # names
EventTypes = Annotated[list[EventType], Field(max_length=50)]
Description = Annotated[str, StringConstraints(max_length=DESCRIPTION_MAX), NO_NUL]
ENDPOINT_ID_PATTERN = r"^whe_[0-9A-Za-z]{22}$"
EndpointId = Annotated[str, StringConstraints(pattern=ENDPOINT_ID_PATTERN)]


# --- Endpoints -----------------------------------------------------------------------------------------------------


class EndpointRequest(RequestModel):
    """Body of POST /v1/webhook-endpoints."""

    url: Address
    """The URL that receives the events: https and a public address, unless the operator allowed the host."""
    events: Maybe[EventTypes] = absent()
    """The event types to send. Absent or empty: all."""
    description: Description | None = absent()
    """The purpose of the endpoint, in your own words."""


class EndpointChange(RequestModel):
    """Body of PATCH /v1/webhook-endpoints/{id}: omitted fields stay unchanged."""

    url: Maybe[Address] = absent()
    events: Maybe[EventTypes] = absent()
    """Empty: all types."""
    description: Description | None = absent()
    """Null: none."""
    active: Maybe[bool] = absent()
    """`false`: nothing is sent, and events meanwhile are not delivered later. `true` also enables a disabled
    endpoint."""


class EndpointBody(TypedDict):
    """Webhook endpoint."""

    id: str
    url: str
    events: list[EventType]
    """Empty: all types."""
    description: str | None
    active: bool
    """False: nothing is sent. An endpoint is disabled after every delivery has failed for 5 days, or at once after a
    410 response (event `webhook.disabled`)."""
    profileId: str | None
    """The profile whose events are sent; null: the whole organization's."""
    accounts: list[str] | None
    """The accounts that the API key which created it is limited to: their events are sent, and those of no account.
    Null: the events of every account."""
    lastDeliveryAt: DateTime | None
    """The time of the last successful delivery."""
    lastFailureReason: str | None
    """Why the latest attempt failed; null after a successful delivery."""
    previousSecretUntil: DateTime | None
    """When the previous secret stops signing; null if there is none."""
    previousSecretDeliveries: int
    """Deliveries since the rotation that the receiver refused with the new secret and accepted with the previous one.
    While it grows, the receiver does not know the new secret yet."""
    createdAt: DateTime
    updatedAt: DateTime


class SignedEndpointBody(EndpointBody):
    """Webhook endpoint with its signing secret, shown only once."""

    signingSecret: str


class EndpointList(TypedDict):
    """Endpoints, oldest first."""

    data: list[EndpointBody]


class TestRequest(RequestModel):
    """Body of POST /v1/webhook-endpoints/{id}/test."""

    type: Maybe[EventType] = absent()
    """The type of the sample; default: `post.published`."""
    data: Maybe[Annotated[dict[ShortText, AnyJson], Field(max_length=DATA_MAX)]] = absent()
    """Replaces the example data of the sample."""


class TestBody(TypedDict):
    """Result of a sample event, sent now."""

    delivered: bool
    """Whether the receiver answered with 2xx."""
    status: int | None
    """The status of the response; null without one."""
    durationMs: int
    responseBody: str | None
    """The first 2 KiB of the response."""
    deliveryId: str
    nonRetryable: bool
    """Whether a real delivery would not be retried."""
    errorName: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `timeout`, `unreachable`, `address` or `answer_lost`; null if delivered."""
    sentEvent: SampleEvent


# --- Deliveries ----------------------------------------------------------------------------------------------------


class DeliveriesQuery(RequestModel):
    """Query of GET /v1/webhook-deliveries."""

    endpoint_id: Maybe[EndpointId] = absent()
    """Deliveries to this endpoint."""
    type: Maybe[EventTypes] = absent()
    status: Maybe[Annotated[list[DeliveryStatus], Field(max_length=3)]] = absent()
    since: Maybe[Instant] = absent()
    """Deliveries of events at this instant or later."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Deliveries per page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the previous page; an empty one is ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Deliveries of this profile's events."""


class DeliveryBody(TypedDict):
    """Delivery of one event to one endpoint."""

    id: str
    endpointId: str
    eventId: str
    type: EventType
    status: DeliveryStatus
    attemptCount: int
    nextAttemptAt: DateTime | None
    """The time of the next attempt; null if there is none."""
    lastStatusCode: int | None
    lastError: str | None
    createdAt: DateTime
    updatedAt: DateTime


class DeliveryAttempt(TypedDict):
    """Call to the endpoint."""

    id: str
    """Sent in the header `…-Delivery-Id`."""
    startedAt: DateTime
    durationMs: int
    statusCode: int | None
    error: str | None
    responseBody: str | None
    """The first 2 KiB of the response."""


class DeliveryDetail(DeliveryBody):
    """Delivery with the event and all calls."""

    event: EventBody
    attempts: list[DeliveryAttempt]


class DeliveryPage(TypedDict):
    """Page of deliveries, newest first."""

    data: list[DeliveryBody]
    nextCursor: str | None
    """The `cursor` of the next page; null at the end. A filtered page may be empty and still have one."""


class RedeliverRequest(RequestModel):
    """Body of POST /v1/webhook-endpoints/{id}/redeliver."""

    since: Instant
    """Events at this instant or later."""
    status: Maybe[DeliveryStatus] = absent()
    """`failed` (default) or `succeeded`; pending ones are sent anyway."""


class RedeliveredBody(TypedDict):
    """Number of deliveries sent again."""

    count: int

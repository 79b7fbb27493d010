"""The data of every event, once: what a webhook delivery carries in `data`, by event type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.domain.shapes.common import FILTER_MAX, DateTime, Maybe, PlatformName, Request, Uuid, absent
from socialpub.domain.shapes.errors import ErrorBody, WarningBody

Tier = Literal["free", "pro", "business", "enterprise", "self_host"]


class EventBody(TypedDict):
    """One event, as it is delivered. The same event is always the same bytes."""

    id: str
    """Begins with `evt_`; the same in every delivery of the event: drop what you have seen."""
    type: str
    createdAt: DateTime
    organizationId: str
    data: dict[str, Any]
    """What the event is about. Its fields depend on `type`."""


class SampleEvent(EventBody):
    """An event that never happened, as a test sends it. Its `data` is the example of its type or what was asked for."""


# --- Posts ---------------------------------------------------------------------------------------------------------


class PostEvent(TypedDict):
    """What the data of every post event has."""

    id: str
    """The post's id."""
    batchId: str
    platform: PlatformName
    accountId: str
    profileId: str
    scheduledAt: DateTime | None
    """Null for an immediate post."""


class PostQueued(PostEvent):
    """A post that waits for its time."""

    queuedAt: DateTime


class PostValidated(PostEvent):
    """A post that passed preflight."""

    validatedAt: DateTime


class PostPublished(PostEvent):
    """A post that is on its platform."""

    publishedAt: DateTime
    uri: str | None
    cid: str | None
    url: str | None
    firstCommentUri: NotRequired[str]
    firstCommentCid: NotRequired[str]
    warnings: NotRequired[list[WarningBody]]


class PostRejected(PostEvent):
    """A post that was refused; it is not tried again."""

    rejectedAt: DateTime
    error: ErrorBody


class PostFailed(PostEvent):
    """A post that could not be published."""

    failedAt: DateTime
    error: ErrorBody
    willRetry: bool
    nextAttemptAt: DateTime | None
    """When it is tried again; null when it is not."""


class PostCanceled(PostEvent):
    """A post that was canceled before its time; `scheduledAt` is when it would have been published."""

    canceledAt: DateTime


class PostRescheduled(PostEvent):
    """A post that was moved; `scheduledAt` is the new time."""

    previousScheduledAt: DateTime


# --- Accounts and versions -----------------------------------------------------------------------------------------


class TokenEvent(TypedDict):
    """What the data of every token event has."""

    accountId: str
    platform: PlatformName
    profileId: str
    platformAccountId: str
    displayName: str | None


class TokenExpiring(TokenEvent):
    """A token that ends soon and cannot be refreshed by itself: reconnect the account."""

    expiresAt: DateTime
    daysUntilExpiry: int


class TokenRevoked(TokenEvent):
    """A token that the platform refused: reconnect the account."""

    revokedAt: DateTime
    reason: str


class VersionDeprecated(TypedDict):
    """A platform ends the version of its API that this server calls."""

    platform: PlatformName
    currentPin: str
    nextPin: str | None
    sunsetAt: str | None


class WebhookDisabled(TypedDict):
    """A webhook endpoint that is switched off: nothing is sent to it until it is switched on again."""

    endpointId: str
    profileId: str | None
    """The profile that the endpoint belongs to; null: the whole organization."""
    description: str | None
    """What the endpoint is for, in its owner's words."""
    reason: str
    """Why it was switched off, as a sentence."""
    disabledAt: DateTime
    """When it was switched off."""


# --- Money ---------------------------------------------------------------------------------------------------------


class SubscriptionActivated(TypedDict):
    """A subscription that began."""

    tier: Tier
    previousTier: Tier
    periodStart: DateTime
    periodEnd: DateTime


class SubscriptionCancelled(TypedDict):
    """A subscription that was cancelled, and when that takes effect."""

    tier: Tier
    cancelAtPeriodEnd: bool
    cancelledAt: DateTime
    effectiveAt: DateTime


class SubscriptionTierChanged(TypedDict):
    """A subscription that moved to another tier."""

    previousTier: Tier
    tier: Tier
    periodStart: DateTime
    periodEnd: DateTime


class QuotaExceeded(TypedDict):
    """The month's posts are used up."""

    period: str
    """The month, `YYYY-MM`, in UTC."""
    postsCount: int
    quota: int
    resetAt: DateTime


class QuotaWarning(QuotaExceeded):
    """Four fifths of the month's posts are used."""

    percent: float
    """Between 0 and 1."""


class PaymentFailed(TypedDict):
    """A payment that failed."""

    ls_subscription_id: str
    failedAt: DateTime
    tier: Tier


class Delinquent(TypedDict):
    """A subscription that is past due; the organization is in tier `free` now."""

    ls_subscription_id: str
    since: DateTime
    tier: Tier


class Recovered(TypedDict):
    """A failed payment that was made good."""

    ls_subscription_id: str
    recoveredAt: DateTime
    tier: Tier


EVENT_DATA: dict[str, Any] = {
    "post.queued": PostQueued,
    "post.validated": PostValidated,
    "post.published": PostPublished,
    "post.rejected": PostRejected,
    "post.failed": PostFailed,
    "post.canceled": PostCanceled,
    "post.rescheduled": PostRescheduled,
    "token.expiring": TokenExpiring,
    "token.revoked": TokenRevoked,
    "version.deprecated": VersionDeprecated,
    "subscription.activated": SubscriptionActivated,
    "subscription.cancelled": SubscriptionCancelled,
    "subscription.tier_changed": SubscriptionTierChanged,
    "quota.warning": QuotaWarning,
    "quota.exceeded": QuotaExceeded,
    "billing.payment_failed": PaymentFailed,
    "billing.delinquent": Delinquent,
    "billing.recovered": Recovered,
    "webhook.disabled": WebhookDisabled,
}
"""The type of `data` for each type of `core.events.EVENTS`."""


if TYPE_CHECKING:
    EventType = str
else:
    EventType = Literal[tuple(EVENT_DATA)]


# --- The log -------------------------------------------------------------------------------------------------------


class EventPage(TypedDict):
    """A page of events, oldest first."""

    data: list[EventBody]
    nextCursor: str | None
    """Send it as `cursor` for the next page, until it is null. A filtered page may be empty and still have one."""
    endCursor: str
    """Where this page ends. Keep it, and send it as `cursor` later: you get what happened since."""


class EventsQuery(Request):
    """The query of GET /v1/events; `type` is repeated or comma-separated."""

    type: Maybe[Annotated[list[EventType], Field(max_length=FILTER_MAX)]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Events a page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` or `endCursor` of an earlier page, or the id of an event: what came after; or `end`: nothing, and an
    `endCursor` for what happens from now on. Empty: as if absent."""
    profile_id: Maybe[Uuid] = absent()
    """The events of this profile."""

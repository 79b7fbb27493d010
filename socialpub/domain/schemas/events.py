"""Schemas of event data: `data` of webhook deliveries, by event type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import FILTER_MAX, DateTime, Maybe, PlatformName, RequestModel, Uuid, absent
from socialpub.domain.schemas.errors import ErrorBody, WarningBody

ContentField = Literal["text", "media", "options"]
Tier = Literal["free", "pro", "business", "enterprise", "self_host"]


class DraftAuthor(TypedDict):
    """Author of a draft, of a change or of a decision."""

    type: Literal["user", "key", "link"]
    """`link`: the person who has the approval link."""
    id: str | None
    """The id of the user or API key; null for a link."""
    name: str | None
    """The user's e-mail address or the key's name, if it still exists."""


class EventBody(TypedDict):
    """Event, as delivered. The same event is always the same bytes."""

    id: str
    """Begins with `evt_`. Every delivery of the event has this id: use it to discard duplicates."""
    type: str
    createdAt: DateTime
    organizationId: str
    data: dict[str, Any]
    """Depends on `type`."""


class SampleEvent(EventBody):
    """Sample event of a test. Its `data` is the type's example or the `data` that you sent."""


# --- Posts ---------------------------------------------------------------------------------------------------------


class PostEvent(TypedDict):
    """Common data of post events."""

    id: str
    """The post's id."""
    batchId: str
    platform: PlatformName
    accountId: str
    profileId: str
    scheduledAt: DateTime | None
    """Null for an immediate post."""


class PostQueued(PostEvent):
    """Post scheduled for later."""

    queuedAt: DateTime


class PostValidated(PostEvent):
    """Post that passed preflight."""

    validatedAt: DateTime


class PostPublished(PostEvent):
    """Post published on its platform."""

    publishedAt: DateTime
    uri: str | None
    cid: str | None
    url: str | None
    firstCommentUri: NotRequired[str]
    firstCommentCid: NotRequired[str]
    warnings: NotRequired[list[WarningBody]]


class PostRejected(PostEvent):
    """Post refused; it is not retried."""

    rejectedAt: DateTime
    error: ErrorBody


class PostFailed(PostEvent):
    """Post that could not be published."""

    failedAt: DateTime
    error: ErrorBody
    willRetry: bool
    nextAttemptAt: DateTime | None
    """The time of the next attempt; null if there is none."""


class PostCanceled(PostEvent):
    """Post canceled before its time; `scheduledAt` is when it would have been published."""

    canceledAt: DateTime


class PostRescheduled(PostEvent):
    """Post rescheduled; `scheduledAt` is the new time."""

    previousScheduledAt: DateTime


class PostEdited(PostEvent):
    """Post whose content was changed before its time."""

    changed: list[ContentField]
    """What was changed."""
    editedAt: DateTime


# --- Drafts --------------------------------------------------------------------------------------------------------


class DraftEvent(TypedDict):
    """Common data of draft events."""

    id: str
    """The draft's id."""
    profileId: str | None
    accountIds: NotRequired[list[str]]
    """The accounts that the draft names. A key that is limited to accounts sees the event if it may use all of them."""
    title: str | None
    by: DraftAuthor
    """The author of the decision."""


class DraftProposed(DraftEvent):
    """Draft proposed for approval."""

    proposedAt: DateTime


class DraftApproved(DraftEvent):
    """Draft approved; a change of its content ends the approval."""

    approvedAt: DateTime


class DraftReturned(DraftEvent):
    """Draft returned to its author."""

    returnedAt: DateTime
    note: str | None


# --- Accounts and versions -----------------------------------------------------------------------------------------


class TokenEvent(TypedDict):
    """Common data of token events."""

    accountId: str
    platform: PlatformName
    profileId: str
    platformAccountId: str
    displayName: str | None


class TokenExpiring(TokenEvent):
    """Token that expires soon and cannot be refreshed automatically: reconnect the account."""

    expiresAt: DateTime
    daysUntilExpiry: int


class TokenRevoked(TokenEvent):
    """Token refused by the platform: reconnect the account."""

    revokedAt: DateTime
    reason: str


class VersionDeprecated(TypedDict):
    """API version, used by this server, that the platform is ending."""

    platform: PlatformName
    currentPin: str
    nextPin: str | None
    sunsetAt: str | None


class KeyExpiring(TypedDict):
    """API key that expires soon: create a new one and use it instead."""

    keyId: str
    """The id of the API key: not the key itself."""
    name: str
    prefix: str
    last4: str
    profileId: str | None
    """The profile that the key is bound to; null: the whole organization."""
    expiresAt: DateTime
    daysUntilExpiry: int


class WebhookDisabled(TypedDict):
    """Webhook endpoint disabled: it receives nothing until you enable it again."""

    endpointId: str
    profileId: str | None
    """The profile of the endpoint; null: the whole organization."""
    description: str | None
    """The owner's description of the endpoint."""
    reason: str
    """Why it was disabled, as a sentence."""
    disabledAt: DateTime
    """When it was disabled."""


# --- Billing -------------------------------------------------------------------------------------------------------


class SubscriptionActivated(TypedDict):
    """Subscription started."""

    tier: Tier
    previousTier: Tier
    periodStart: DateTime
    periodEnd: DateTime


class SubscriptionCancelled(TypedDict):
    """Subscription canceled, and when that takes effect."""

    tier: Tier
    cancelAtPeriodEnd: bool
    cancelledAt: DateTime
    effectiveAt: DateTime


class SubscriptionTierChanged(TypedDict):
    """Subscription moved to another tier."""

    previousTier: Tier
    tier: Tier
    periodStart: DateTime
    periodEnd: DateTime


class QuotaExceeded(TypedDict):
    """Monthly quota used up."""

    period: str
    """The month, `YYYY-MM`, in UTC."""
    postsCount: int
    quota: int
    resetAt: DateTime


class QuotaWarning(QuotaExceeded):
    """80 % of the monthly quota used."""

    percent: float
    """Between 0 and 1."""


class PaymentFailed(TypedDict):
    """Failed payment."""

    ls_subscription_id: str
    failedAt: DateTime
    tier: Tier


class Delinquent(TypedDict):
    """Past-due subscription; the organization is in tier `free` now."""

    ls_subscription_id: str
    since: DateTime
    tier: Tier


class Recovered(TypedDict):
    """Failed payment that has since succeeded."""

    ls_subscription_id: str
    recoveredAt: DateTime
    tier: Tier


class EventKind(NamedTuple):
    """Type of an event's `data`, and when the event is sent."""

    data: Any
    text: str


EVENTS: dict[str, EventKind] = {
    "post.queued": EventKind(PostQueued, "A scheduled post was accepted and queued."),
    "post.validated": EventKind(PostValidated, "Preflight passed."),
    "post.published": EventKind(PostPublished, "The post was published."),
    "post.rejected": EventKind(PostRejected, "Preflight or the platform rejected the post. It is not retried."),
    "post.failed": EventKind(PostFailed, "The post could not be published. `willRetry` tells whether it is retried."),
    "post.canceled": EventKind(PostCanceled, "A scheduled post was canceled before it was due."),
    "post.rescheduled": EventKind(PostRescheduled, "A scheduled post was moved to another time."),
    "post.edited": EventKind(PostEdited, "The content of a scheduled post was changed."),
    "draft.proposed": EventKind(DraftProposed, "A draft was proposed for approval."),
    "draft.approved": EventKind(DraftApproved, "A draft was approved, as it was at that time."),
    "draft.returned": EventKind(DraftReturned, "A draft was returned with a note."),
    "token.expiring": EventKind(
        TokenExpiring, "An account's token expires soon and cannot be refreshed automatically."
    ),
    "token.revoked": EventKind(TokenRevoked, "The platform rejected an account's token."),
    "version.deprecated": EventKind(
        VersionDeprecated, "A platform announced the end of the API version that this server uses."
    ),
    "subscription.activated": EventKind(SubscriptionActivated, "A subscription began."),
    "subscription.cancelled": EventKind(SubscriptionCancelled, "A subscription was cancelled."),
    "subscription.tier_changed": EventKind(SubscriptionTierChanged, "A subscription moved to another tier."),
    "quota.warning": EventKind(QuotaWarning, "80 % of the monthly post quota is used."),
    "quota.exceeded": EventKind(QuotaExceeded, "The monthly post quota is used up."),
    "billing.payment_failed": EventKind(PaymentFailed, "A payment failed."),
    "billing.delinquent": EventKind(Delinquent, "The subscription is past due and was downgraded to free."),
    "billing.recovered": EventKind(Recovered, "A failed payment was recovered."),
    "key.expiring": EventKind(KeyExpiring, "An API key expires soon: sent 7 days and 1 day ahead."),
    "webhook.disabled": EventKind(
        WebhookDisabled, "A webhook endpoint was turned off: it answered 410, or every delivery failed for 5 days."
    ),
}
"""Every event type. The list is canonical: adding is non-breaking, removing is breaking."""


if TYPE_CHECKING:
    EventType = str
else:
    EventType = Literal[tuple(EVENTS)]


# --- Event log -----------------------------------------------------------------------------------------------------


class EventPage(TypedDict):
    """Page of events, oldest first."""

    data: list[EventBody]
    nextCursor: str | None
    """The `cursor` of the next page; null at the end. A filtered page may be empty and still have one."""
    endCursor: str
    """The end of this page. Send it as `cursor` later to get the events since."""


class EventsQuery(RequestModel):
    """Query of GET /v1/events; `type` is repeated or comma-separated."""

    type: Maybe[Annotated[list[EventType], Field(max_length=FILTER_MAX)]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Events per page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` or `endCursor` of an earlier page, or an event's id: the events after it. `end`: no events, but an
    `endCursor` for future ones. Empty: ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Events of this profile."""

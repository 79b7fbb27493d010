"""The data of every event, once: what a webhook delivery carries in `data`, by event type."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from socialpub.domain.shapes.answers import Answer, ErrorBody, WarningBody
from socialpub.domain.shapes.schemas import DateTime, Maybe, PlatformName, absent

Tier = Literal["free", "pro", "business", "enterprise", "self_host"]


class EventBody(Answer):
    """One event, as it is delivered. The same event is always the same bytes."""

    id: str
    """Begins with `evt_`; the same in every delivery of the event: drop what you have seen."""
    type: str
    created_at: DateTime
    organization_id: str
    data: dict[str, Any]


# --- Posts -------------------------------------------------------------------------------------------------------


class PostEvent(Answer):
    """What the data of every post event has."""

    id: str
    """The post's id."""
    batch_id: str
    platform: PlatformName
    account_id: str
    profile_id: str
    scheduled_at: DateTime | None
    """Null for an immediate post."""


class PostQueued(PostEvent):
    """A post that waits for its time."""

    queued_at: DateTime


class PostValidated(PostEvent):
    """A post that passed preflight."""

    validated_at: DateTime


class PostPublished(PostEvent):
    """A post that is on its platform."""

    published_at: DateTime
    uri: str | None
    cid: str | None
    url: str | None
    first_comment_uri: Maybe[str] = absent()
    first_comment_cid: Maybe[str] = absent()
    warnings: Maybe[list[WarningBody]] = absent()


class PostRejected(PostEvent):
    """A post that was refused; it is not tried again."""

    rejected_at: DateTime
    error: ErrorBody


class PostFailed(PostEvent):
    """A post that could not be published."""

    failed_at: DateTime
    error: ErrorBody
    will_retry: bool
    next_attempt_at: DateTime | None
    """When it is tried again; null when it is not."""


class PostCanceled(PostEvent):
    """A post that was canceled before its time; `scheduledAt` is when it would have been published."""

    canceled_at: DateTime


class PostRescheduled(PostEvent):
    """A post that was moved; `scheduledAt` is the new time."""

    previous_scheduled_at: DateTime


# --- Accounts and versions ---------------------------------------------------------------------------------------


class TokenEvent(Answer):
    """What the data of every token event has."""

    account_id: str
    platform: PlatformName
    profile_id: str
    platform_account_id: str
    display_name: str | None


class TokenExpiring(TokenEvent):
    """A token that ends soon and cannot be refreshed by itself: reconnect the account."""

    expires_at: DateTime
    days_until_expiry: int


class TokenRevoked(TokenEvent):
    """A token that the platform refused: reconnect the account."""

    revoked_at: DateTime
    reason: str


class VersionDeprecated(Answer):
    """A platform ends the version of its API that this server calls."""

    platform: PlatformName
    current_pin: str
    next_pin: str | None
    sunset_at: str | None


# --- Money -------------------------------------------------------------------------------------------------------


class SubscriptionActivated(Answer):
    """A subscription that began."""

    tier: Tier
    previous_tier: Tier
    period_start: DateTime
    period_end: DateTime


class SubscriptionCancelled(Answer):
    """A subscription that was cancelled, and when that takes effect."""

    tier: Tier
    cancel_at_period_end: bool
    cancelled_at: DateTime
    effective_at: DateTime


class SubscriptionTierChanged(Answer):
    """A subscription that moved to another tier."""

    previous_tier: Tier
    tier: Tier
    period_start: DateTime
    period_end: DateTime


class QuotaExceeded(Answer):
    """The month's posts are used up."""

    period: str
    """The month, `YYYY-MM`, in UTC."""
    posts_count: int
    quota: int
    reset_at: DateTime


class QuotaWarning(QuotaExceeded):
    """Four fifths of the month's posts are used."""

    percent: float
    """Between 0 and 1."""


class PaymentFailed(Answer):
    """A payment that failed."""

    ls_subscription_id: str = Field(alias="ls_subscription_id")
    failed_at: DateTime
    tier: Tier


class Delinquent(Answer):
    """A subscription that is past due; the organization is in tier `free` now."""

    ls_subscription_id: str = Field(alias="ls_subscription_id")
    since: DateTime
    tier: Tier


class Recovered(Answer):
    """A failed payment that was made good."""

    ls_subscription_id: str = Field(alias="ls_subscription_id")
    recovered_at: DateTime
    tier: Tier


EVENT_DATA: dict[str, type[Answer]] = {
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
}
"""The model of `data` for each type of `events.EVENTS`."""

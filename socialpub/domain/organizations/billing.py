"""Tiers, and the Lemon Squeezy webhooks about the subscriptions that pay for them.

A webhook carries the state of a subscription at a time. Webhooks may be repeated, late or out of order: one that is not
newer than the stored state changes nothing and emits no event. An organization has the best tier of its live
subscriptions; `enterprise`, set by the operator, stays.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.base.security import crypto
from socialpub.domain.access.actor import ActionBody, Actor
from socialpub.domain.events import events
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.billing import BillingEnvelope, InvoicePayload, SubscriptionFacts, SubscriptionPayload
from socialpub.domain.schemas.events import (
    Delinquent,
    PaymentFailed,
    Recovered,
    SubscriptionActivated,
    SubscriptionCancelled,
    SubscriptionTierChanged,
    Tier,
)
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance
from socialpub.store.queries import billing as statements

log = logging.getLogger("socialpub.billing")

TIERS: tuple[Tier, ...] = get_args(Tier)
PAID_TIERS: tuple[Tier, ...] = ("free", "pro", "business")  # lowest first; the tiers a subscription can pay for
EXPIRED = "expired"
NoticeKind = Literal["subscription", "invoice"]


# --- Tiers -------------------------------------------------------------------------------------------------------


def set_tier(tx: Tx, who: Actor, organization: str, tier: Tier) -> ActionBody:
    """Set the tier; return `{id, name, tier}`. Raises ApiError `not_found`."""
    name = sql.fetch_value(statements.SET_TIER, (tier, organization))
    if name is None:
        raise ApiError("not_found", "There is no organization with this id.")
    return {"id": organization, "name": name, "tier": tier}


def _load_tier(organization: str) -> Tier:
    return cast(Tier, sql.fetch_value(acceptance.FIND_TIER, (organization,)))


def _update_tier(tx: Tx, organization: str) -> Tier:
    """Set the best tier of the organization's live subscriptions and return it."""
    now = _load_tier(organization)
    live = [tier for (tier,) in sql.fetch_all(statements.FIND_ACTIVE_TIERS, (organization,))]
    if now == "enterprise":
        return now
    best: Tier = max(["free", *live], key=PAID_TIERS.index)
    sql.fetch_value(statements.SET_TIER, (best, organization))
    return best


# --- Webhooks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BillingNotice:
    """State of a subscription from a webhook. `facts` is None for a webhook about a payment."""

    name: str
    organization: str
    subscription: str
    said_at: int
    facts: SubscriptionFacts | None = None

    @property
    def kind(self) -> NoticeKind:
        return "subscription" if self.facts else "invoice"


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Compare `signature` with the body's hex HMAC-SHA256, in constant time."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return crypto.is_equal(made.encode(), signature.encode("utf-8", "surrogatepass"))


def parse_notice(body: bytes) -> BillingNotice | None:
    """Parse a webhook; None for other event names. Raises ApiError `validation_failed`."""
    meta = validation.parse_body(BillingEnvelope, body).meta
    name, organization = meta.event_name, meta.organization
    if organization is None:
        return None
    if name in INVOICE_HANDLERS:
        invoice = validation.parse_body(InvoicePayload, body).data.attributes
        return BillingNotice(name, organization, invoice.subscription_id, invoice.updated_at)
    if name in SUBSCRIPTION_HANDLERS:
        data = validation.parse_body(SubscriptionPayload, body).data
        return BillingNotice(name, organization, data.id, data.attributes.updated_at, data.attributes)
    return None


def is_relevant(notice: BillingNotice) -> bool:
    """Return whether the webhook is newer than what is stored of a known organization."""
    if sql.fetch_value(acceptance.FIND_TIER, (notice.organization,)) is None:
        return False
    known = sql.fetch_one(statements.FIND_SUBSCRIPTION, (notice.subscription,))
    if known is not None and known[0] != notice.organization:  # a subscription stays with its first organization
        return False
    key = (notice.subscription, notice.kind, notice.name, notice.said_at)
    return bool(sql.fetch_value(statements.IS_NEW, key))


def apply_notice(tx: Tx, who: Actor, notice: BillingNotice) -> ActionBody:
    """Apply the webhook and emit its events; return `{id}` of the organization."""
    if is_relevant(notice) and _has_tier(who, notice):
        organization = notice.organization
        columns = (organization, notice.subscription, notice.kind, notice.name, notice.said_at)
        sql.execute(statements.SET_NOTICE, columns)
        if notice.facts:
            emitted = SUBSCRIPTION_HANDLERS[notice.name](tx, who, notice, notice.facts)
        else:
            emitted = INVOICE_HANDLERS[notice.name](notice)
        for type_, data in emitted.items():
            events.emit(who.service, tx, type_, organization, data, request_id=who.request_id)
    return {"id": notice.organization}


BillingEvents = Mapping[str, Mapping[str, object]]
_NO_EVENTS: BillingEvents = {}


def _apply_update(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> BillingEvents:
    """Apply "created" or "updated"; whichever arrives first starts the subscription."""
    if facts.status == EXPIRED:  # has its own webhook
        return _NO_EVENTS
    known = sql.fetch_one(statements.FIND_SUBSCRIPTION, (notice.subscription,))
    if known is None or known[2]:
        return _apply_start(tx, who, notice, facts)
    if known[1] == facts.variant_id:
        return _NO_EVENTS
    previous = _load_tier(notice.organization)
    _save_subscription(tx, who, notice, facts)
    data: SubscriptionTierChanged = {
        "previousTier": previous,
        "tier": _update_tier(tx, notice.organization),
        "periodStart": format_iso(facts.updated_at),
        "periodEnd": _format_period_end(facts),
    }
    return {"subscription.tier_changed": data}


def _apply_start(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> BillingEvents:
    previous = _load_tier(notice.organization)
    _save_subscription(tx, who, notice, facts)
    data: SubscriptionActivated = {
        "tier": _update_tier(tx, notice.organization),
        "previousTier": previous,
        "periodStart": format_iso(facts.created_at),
        "periodEnd": _format_period_end(facts),
    }
    return {"subscription.activated": data}


def _apply_cancellation(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> BillingEvents:
    _save_subscription(tx, who, notice, facts)  # stays active until its end date, even if unknown so far
    ends = facts.ends_at or facts.updated_at
    data: SubscriptionCancelled = {
        "tier": _update_tier(tx, notice.organization),
        "cancelAtPeriodEnd": ends > facts.updated_at,
        "cancelledAt": format_iso(facts.updated_at),
        "effectiveAt": format_iso(ends),
    }
    return {"subscription.cancelled": data}


def _apply_expiry(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> BillingEvents:
    """Apply "expired"; emits nothing while the organization keeps a paid tier."""
    _save_subscription(tx, who, notice, facts, ended=True)
    tier = _update_tier(tx, notice.organization)
    if tier != "free":
        return _NO_EVENTS
    since = format_iso(facts.ends_at or facts.updated_at)
    data: Delinquent = {"ls_subscription_id": notice.subscription, "since": since, "tier": tier}
    return {"billing.delinquent": data}


def _apply_resumption(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> BillingEvents:
    _save_subscription(tx, who, notice, facts)
    _update_tier(tx, notice.organization)
    return _build_recovered(notice)


def _build_recovered(notice: BillingNotice) -> BillingEvents:
    data: Recovered = {
        "ls_subscription_id": notice.subscription,
        "recoveredAt": format_iso(notice.said_at),
        "tier": _load_tier(notice.organization),
    }
    return {"billing.recovered": data}


def _build_payment_failed(notice: BillingNotice) -> BillingEvents:
    data: PaymentFailed = {
        "ls_subscription_id": notice.subscription,
        "failedAt": format_iso(notice.said_at),
        "tier": _load_tier(notice.organization),
    }
    return {"billing.payment_failed": data}


SUBSCRIPTION_HANDLERS: Mapping[str, Callable[[Tx, Actor, BillingNotice, SubscriptionFacts], BillingEvents]] = {
    "subscription_created": _apply_update,
    "subscription_updated": _apply_update,
    "subscription_cancelled": _apply_cancellation,
    "subscription_expired": _apply_expiry,
    "subscription_resumed": _apply_resumption,
}
INVOICE_HANDLERS: Mapping[str, Callable[[BillingNotice], BillingEvents]] = {
    "subscription_payment_failed": _build_payment_failed,
    "subscription_payment_recovered": _build_recovered,
}
"""Handlers by webhook name. Other names are ignored."""


def _save_subscription(
    tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts, *, ended: bool = False
) -> None:
    tier = _find_tier(who, facts) or "free"
    row = (notice.subscription, notice.organization, facts.variant_id, tier, int(ended), who.service.now_ms)
    sql.execute(statements.SET_SUBSCRIPTION, row)


def _has_tier(who: Actor, notice: BillingNotice) -> bool:
    """Return whether the variant maps to a tier (logged if not); an expiry needs none."""
    facts = notice.facts
    if facts is None or facts.status == EXPIRED or _find_tier(who, facts):
        return True
    names = (ascii(facts.variant_id)[1:-1], ascii(notice.subscription)[1:-1])
    log.warning(
        "billing.variants does not have variant %s of subscription %s: add it, then send the webhook again", *names
    )
    return False


def _find_tier(who: Actor, facts: SubscriptionFacts) -> Tier | None:
    return who.service.runtime.settings.billing.variants.get(facts.variant_id)


def _format_period_end(facts: SubscriptionFacts) -> str:
    return format_iso(facts.renews_at or facts.ends_at or facts.updated_at)

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

from socialpub.base import crypto
from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain.core import events
from socialpub.domain.people.actor import Actor, Body
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.billing import AboutInvoice, AboutSubscription, Heading, SubscriptionFacts
from socialpub.domain.shapes.events import (
    Delinquent,
    PaymentFailed,
    Recovered,
    SubscriptionActivated,
    SubscriptionCancelled,
    SubscriptionTierChanged,
    Tier,
)
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import accepting
from socialpub.store.statements import billing as statements

log = logging.getLogger("socialpub.billing")

TIERS: tuple[Tier, ...] = get_args(Tier)
PAID: tuple[Tier, ...] = ("free", "pro", "business")  # lowest first; the tiers a subscription can pay for
EXPIRED = "expired"
Kind = Literal["subscription", "invoice"]


# --- Tiers -------------------------------------------------------------------------------------------------------


def set_tier(tx: Tx, who: Actor, organization: str, tier: Tier) -> Body:
    """Set the tier; return `{id, name, tier}`. Raises ApiError `not_found`."""
    name = sql.value(statements.SET_TIER, (tier, organization))
    if name is None:
        raise ApiError("not_found", "There is no organization with this id.")
    return {"id": organization, "name": name, "tier": tier}


def _tier_of(organization: str) -> Tier:
    return cast(Tier, sql.value(accepting.TIER, (organization,)))


def _settled_tier(tx: Tx, organization: str) -> Tier:
    """Set the best tier of the organization's live subscriptions and return it."""
    now, live = _tier_of(organization), [tier for (tier,) in sql.every(statements.LIVE, (organization,))]
    if now == "enterprise":
        return now
    best: Tier = max(["free", *live], key=PAID.index)
    sql.value(statements.SET_TIER, (best, organization))
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
    def kind(self) -> Kind:
        return "subscription" if self.facts else "invoice"


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Compare `signature` with the body's hex HMAC-SHA256, in constant time."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return crypto.same(made.encode(), signature.encode("utf-8", "surrogatepass"))


def read(body: bytes) -> BillingNotice | None:
    """Parse a webhook; None for other event names. Raises ApiError `validation_failed`."""
    meta = issues.parse_body(Heading, body).meta
    name, organization = meta.event_name, meta.organization
    if organization is None:
        return None
    if name in INVOICES:
        invoice = issues.parse_body(AboutInvoice, body).data.attributes
        return BillingNotice(name, organization, invoice.subscription_id, invoice.updated_at)
    if name in SUBSCRIPTIONS:
        data = issues.parse_body(AboutSubscription, body).data
        return BillingNotice(name, organization, data.id, data.attributes.updated_at, data.attributes)
    return None


def matters(notice: BillingNotice) -> bool:
    """Return whether the webhook is newer than what is stored of a known organization."""
    if sql.value(accepting.TIER, (notice.organization,)) is None:
        return False
    known = sql.first(statements.KNOWN, (notice.subscription,))
    if known is not None and known[0] != notice.organization:  # a subscription stays with its first organization
        return False
    asked = (notice.subscription, notice.kind, notice.name, notice.said_at)
    return bool(sql.value(statements.IS_NEW, asked))


def take(tx: Tx, who: Actor, notice: BillingNotice) -> Body:
    """Apply the webhook and emit its events; return `{id}` of the organization."""
    if matters(notice) and _has_tier(who, notice):
        organization = notice.organization
        heard = (organization, notice.subscription, notice.kind, notice.name, notice.said_at)
        sql.execute(statements.HEARD, heard)
        if notice.facts:
            told = SUBSCRIPTIONS[notice.name](tx, who, notice, notice.facts)
        else:
            told = INVOICES[notice.name](notice)
        for type_, data in told.items():
            events.emit(who.service, tx, type_, organization, data, request_id=who.request_id)
    return {"id": notice.organization}


News = Mapping[str, Mapping[str, object]]
_NOTHING: News = {}


def _stands(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> News:
    """Apply "created" or "updated"; whichever arrives first starts the subscription."""
    if facts.status == EXPIRED:  # has its own webhook
        return _NOTHING
    known = sql.first(statements.KNOWN, (notice.subscription,))
    if known is None or known[2]:
        return _begun(tx, who, notice, facts)
    if known[1] == facts.variant_id:
        return _NOTHING
    previous = _tier_of(notice.organization)
    _keep(tx, who, notice, facts)
    data: SubscriptionTierChanged = {
        "previousTier": previous,
        "tier": _settled_tier(tx, notice.organization),
        "periodStart": iso(facts.updated_at),
        "periodEnd": _period_end(facts),
    }
    return {"subscription.tier_changed": data}


def _begun(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> News:
    previous = _tier_of(notice.organization)
    _keep(tx, who, notice, facts)
    data: SubscriptionActivated = {
        "tier": _settled_tier(tx, notice.organization),
        "previousTier": previous,
        "periodStart": iso(facts.created_at),
        "periodEnd": _period_end(facts),
    }
    return {"subscription.activated": data}


def _cancelled(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> News:
    _keep(tx, who, notice, facts)  # stays active until its end date, even if unknown so far
    ends = facts.ends_at or facts.updated_at
    data: SubscriptionCancelled = {
        "tier": _settled_tier(tx, notice.organization),
        "cancelAtPeriodEnd": ends > facts.updated_at,
        "cancelledAt": iso(facts.updated_at),
        "effectiveAt": iso(ends),
    }
    return {"subscription.cancelled": data}


def _expired(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> News:
    """Apply "expired"; emits nothing while the organization keeps a paid tier."""
    _keep(tx, who, notice, facts, ended=True)
    tier = _settled_tier(tx, notice.organization)
    if tier != "free":
        return _NOTHING
    since = iso(facts.ends_at or facts.updated_at)
    data: Delinquent = {"ls_subscription_id": notice.subscription, "since": since, "tier": tier}
    return {"billing.delinquent": data}


def _resumed(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts) -> News:
    _keep(tx, who, notice, facts)
    _settled_tier(tx, notice.organization)
    return _recovered(notice)


def _recovered(notice: BillingNotice) -> News:
    data: Recovered = {
        "ls_subscription_id": notice.subscription,
        "recoveredAt": iso(notice.said_at),
        "tier": _tier_of(notice.organization),
    }
    return {"billing.recovered": data}


def _payment_failed(notice: BillingNotice) -> News:
    data: PaymentFailed = {
        "ls_subscription_id": notice.subscription,
        "failedAt": iso(notice.said_at),
        "tier": _tier_of(notice.organization),
    }
    return {"billing.payment_failed": data}


SUBSCRIPTIONS: Mapping[str, Callable[[Tx, Actor, BillingNotice, SubscriptionFacts], News]] = {
    "subscription_created": _stands,
    "subscription_updated": _stands,
    "subscription_cancelled": _cancelled,
    "subscription_expired": _expired,
    "subscription_resumed": _resumed,
}
INVOICES: Mapping[str, Callable[[BillingNotice], News]] = {
    "subscription_payment_failed": _payment_failed,
    "subscription_payment_recovered": _recovered,
}
"""Handlers by webhook name. Other names are ignored."""


def _keep(tx: Tx, who: Actor, notice: BillingNotice, facts: SubscriptionFacts, *, ended: bool = False) -> None:
    tier = _variant(who, facts) or "free"
    row = (notice.subscription, notice.organization, facts.variant_id, tier, int(ended), who.service.now_ms)
    sql.execute(statements.KEEP, row)


def _has_tier(who: Actor, notice: BillingNotice) -> bool:
    """Return whether the variant maps to a tier (logged if not); an expiry needs none."""
    facts = notice.facts
    if facts is None or facts.status == EXPIRED or _variant(who, facts):
        return True
    shown = (ascii(facts.variant_id)[1:-1], ascii(notice.subscription)[1:-1])
    log.warning("billing.variants does not have variant %s of subscription %s: send the notice again then", *shown)
    return False


def _variant(who: Actor, facts: SubscriptionFacts) -> Tier | None:
    return who.service.runtime.settings.billing.variants.get(facts.variant_id)


def _period_end(facts: SubscriptionFacts) -> str:
    return iso(facts.renews_at or facts.ends_at or facts.updated_at)

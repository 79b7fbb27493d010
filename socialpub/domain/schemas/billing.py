"""Schemas of Lemon Squeezy webhooks, limited to the fields used here.

Source: docs.lemonsqueezy.com/help/webhooks (event types, signing requests) and /api/subscriptions,
/api/subscription-invoices. `data` is a subscription, or for payments one of its invoices.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import Instant

ID_MAX = 100


def _parse_id(value: object) -> str:
    """Parse an id, which is a number in some places and text in others."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise PydanticCustomError("id_type", "Input should be an id")


ExternalId = Annotated[str, BeforeValidator(_parse_id), StringConstraints(min_length=1, max_length=ID_MAX)]


class ReceivedBody(TypedDict):
    """Confirmation of a webhook."""

    received: Literal[True]


class ExternalModel(BaseModel):
    """Lenient model of a third party's JSON: no coercion, unknown fields ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)


class BillingMeta(ExternalModel):
    """Metadata of a webhook."""

    event_name: Annotated[str, StringConstraints(max_length=ID_MAX)]
    custom_data: Any = None

    @property
    def organization(self) -> str | None:
        """Organization named by the checkout."""
        named = self.custom_data.get("organization_id") if isinstance(self.custom_data, dict) else None
        return named if isinstance(named, str) else None


class BillingEnvelope(ExternalModel):
    """Part of any webhook that tells whether it matters."""

    meta: BillingMeta


class SubscriptionFacts(ExternalModel):
    """Subscription as of `updated_at`."""

    variant_id: ExternalId
    status: str
    renews_at: Instant | None = None
    ends_at: Instant | None = None
    created_at: Instant
    updated_at: Instant


class SubscriptionData(ExternalModel):
    id: ExternalId
    attributes: SubscriptionFacts


class SubscriptionPayload(ExternalModel):
    """Webhook about a subscription."""

    meta: BillingMeta
    data: SubscriptionData


class InvoiceFacts(ExternalModel):
    """Invoice as of `updated_at`."""

    subscription_id: ExternalId
    updated_at: Instant


class InvoiceData(ExternalModel):
    attributes: InvoiceFacts


class InvoicePayload(ExternalModel):
    """Webhook about a payment."""

    meta: BillingMeta
    data: InvoiceData

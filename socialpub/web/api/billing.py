"""Webhook of Lemon Squeezy for subscriptions.

It is off without `billing.lemonsqueezy_secret`.
"""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.organizations import billing
from socialpub.domain.schemas.billing import ReceivedBody
from socialpub.web.http.handler import HandlerResponse, RequestContext

SIGNATURE_HEADER = "x-signature"


async def receive_webhook(call: RequestContext) -> HandlerResponse:
    """POST /billing/lemonsqueezy: 200 for every signed notice, relevant or not."""
    secret = call.service.runtime.settings.billing.lemonsqueezy_secret
    if not secret:
        raise ApiError("not_found")
    if not billing.is_signed(secret, call.body, call.request.headers.get(SIGNATURE_HEADER, "")):
        remedy = "Set billing.lemonsqueezy_secret to the signing secret of the webhook at Lemon Squeezy."
        raise ApiError("unauthenticated", "The signature does not match the notice.", remediation=remedy)
    notice = billing.parse_notice(call.body)
    if notice is not None and await call.service.read(lambda: billing.is_relevant(notice)):
        audit_context = call.audit_context._replace(organization=notice.organization)
        await actions.perform(
            Actor(call.service, Scope(notice.organization), audit_context), billing.apply_notice, notice
        )
    return HandlerResponse(ReceivedBody(received=True))

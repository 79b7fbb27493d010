"""The address that Lemon Squeezy tells of subscriptions; there is none unless `billing.lemonsqueezy_secret` is set."""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.people import billing
from socialpub.domain.people.actor import Actor
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.billing import ReceivedBody
from socialpub.web.http.handler import HandlerResponse, RequestContext

SIGNATURE_HEADER = "x-signature"


async def receive_webhook(call: RequestContext) -> HandlerResponse:
    """POST /billing/lemonsqueezy: 200 for whatever is signed, whether it changes something or not."""
    secret = call.service.runtime.settings.billing.lemonsqueezy_secret
    if not secret:
        raise ApiError("not_found")
    if not billing.is_signed(secret, call.body, call.request.headers.get(SIGNATURE_HEADER, "")):
        remedy = "Set billing.lemonsqueezy_secret to the signing secret of the webhook at Lemon Squeezy."
        raise ApiError("unauthenticated", "The signature does not match the notice.", remediation=remedy)
    notice = billing.read(call.body)
    if notice is not None and await call.service.read(lambda: billing.matters(notice)):
        acts = call.act._replace(organization=notice.organization)
        await act.do(Actor(call.service, Scope(notice.organization), acts), billing.take, notice)
    return HandlerResponse(ReceivedBody(received=True))

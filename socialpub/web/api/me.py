"""/v1/me: the caller itself."""

from __future__ import annotations

from socialpub.domain.identity import caller
from socialpub.domain.schemas.caller import CallerBody
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import ACCOUNT_ID, NOW, ORGANIZATION_ID

CALLER: CallerBody = {
    "organization": {"id": ORGANIZATION_ID, "name": "Bakery"},
    "profile": None,
    "key": {
        "id": "01997b30-02c4-7f18-a5d6-8e3b1c9f7024",
        "name": "Newsletter",
        "prefix": "svc_live_",
        "last4": "cQ7x",
        "scopes": ["posts:plan", "accounts:read"],
        "accounts": [ACCOUNT_ID],
        "expiresAt": "2030-09-24T00:00:00.000Z",
        "createdAt": NOW,
    },
    "user": None,
}
READ = Operation(
    "API keys",
    "readMe",
    "Read your own key",
    "The organization, the key or session that you call with, and what it may do.",
    answers={200: SuccessResponse(CallerBody, "The caller.", CALLER)},
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/me."""
    return HandlerResponse(await call.read(lambda: caller.load_body(call.scope)))

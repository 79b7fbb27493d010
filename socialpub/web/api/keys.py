"""/v1/api-keys: for signed-in users only; a key cannot create keys."""

from __future__ import annotations

from socialpub.domain.access.actions import bind
from socialpub.domain.identity import api_keys
from socialpub.domain.schemas.api_keys import KeyBody, KeyList, KeyRequest, MintedKeyBody, RevokedKeyBody
from socialpub.domain.schemas.common import ProfileQuery
from socialpub.web.api.write_handlers import commit, commit_without_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import ACCOUNT_ID, NOW, PROFILE_ID

KEY: KeyBody = {
    "id": "01997b30-02c4-7f18-a5d6-8e3b1c9f7024",
    "name": "Newsletter",
    "prefix": "svc_live_",
    "last4": "cQ7x",
    "profileId": None,
    "scopes": ["posts:plan", "accounts:read"],
    "accounts": [ACCOUNT_ID],
    "expiresAt": "2030-09-24T00:00:00.000Z",
    "createdAt": "2026-09-24T07:16:41.207Z",
    "lastUsedAt": None,
    "revokedAt": None,
}


KEYS: KeyList = {"data": [KEY]}
LIST = Operation(
    "API keys",
    "listKeys",
    "List API keys",
    "The records of the organization's keys. The keys themselves are not stored.",
    answers={200: SuccessResponse(KeyList, "The keys.", KEYS)},
)


async def list_keys(call: RequestContext) -> HandlerResponse:
    """GET /v1/api-keys."""
    return HandlerResponse(KeyList(data=await call.service.read(lambda: api_keys.list_bodies(call.scope.organization))))


MINTED: MintedKeyBody = {**KEY, "key": "svc_live_…cQ7x"}
MINT = Operation(
    "API keys",
    "mintKey",
    "Create an API key",
    "The key is shown only in this response. What it may do cannot be changed later. `posts:write` contains "
    "`posts:plan`, which contains `posts:read`. An operation whose scope the key lacks is 403 (`api_key.scope`); the "
    "reference names the scope of each operation. Webhook endpoints and notification channels that a key with "
    "`accounts` creates send events of these accounts, and of none, only.",
    body=KeyRequest,
    requests={
        "make": {"name": "Newsletter"},
        "bind": {"name": "Newsletter", "profileId": PROFILE_ID},
        "limit": {
            "name": "Assistant",
            "scopes": ["posts:plan", "accounts:read"],
            "accounts": [ACCOUNT_ID],
            "expiresAt": "2030-09-24T00:00:00Z",
        },
    },
    answers={201: SuccessResponse(MintedKeyBody, "The new key.", MINTED)},
    errors=("not_found",),
)


async def mint(call: RequestContext) -> HandlerResponse:
    """POST /v1/api-keys: the response shows the key once."""
    return await commit(call, KeyRequest, lambda request: bind(call.actor, api_keys.create, request))


REVOKED: RevokedKeyBody = {"id": KEY["id"], "revokedAt": NOW}
REVOKE = Operation(
    "API keys",
    "revokeKey",
    "Revoke an API key",
    "It stops working at once.",
    query=ProfileQuery,
    answers={200: SuccessResponse(RevokedKeyBody, "The revoked key.", REVOKED)},
    errors=("not_found",),
)


async def revoke(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/api-keys/{id}."""
    return await commit_without_body(call, lambda: bind(call.actor, api_keys.revoke, call.path_value("key_id")))

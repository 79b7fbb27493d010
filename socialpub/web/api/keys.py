"""/v1/api-keys: for signed-in people only; a key cannot make keys."""

from __future__ import annotations

from typing import Any

from socialpub.domain.people import tenancy
from socialpub.domain.shapes.common import Narrowing
from socialpub.domain.shapes.keys import KeyBody, KeyList, KeyRequest, MintedKeyBody, RevokedKeyBody
from socialpub.store.db import Tx
from socialpub.web.api.writes import commit
from socialpub.web.examples import NOW, PROFILE_ID
from socialpub.web.http import Call, Reply
from socialpub.web.operation import Operation, Success

KEY: KeyBody = {
    "id": "01997b30-02c4-7f18-a5d6-8e3b1c9f7024",
    "name": "Newsletter",
    "prefix": "svc_live_",
    "last4": "cQ7x",
    "profileId": None,
    "createdAt": "2026-09-24T07:16:41.207Z",
    "lastUsedAt": None,
    "revokedAt": None,
}


KEYS: KeyList = {"data": [KEY]}
LISTING = Operation(
    "API keys",
    "listKeys",
    "List API keys",
    "The records of the organization's keys. The keys themselves are not stored.",
    answers={200: Success(KeyList, "The keys.", KEYS)},
)


async def listing(call: Call) -> Reply:
    """GET /v1/api-keys."""
    return Reply({"data": await call.service.read(lambda: tenancy.list_keys(call.scope.organization))})


MINTED: MintedKeyBody = {**KEY, "key": "svc_live_…cQ7x"}
MINT = Operation(
    "API keys",
    "mintKey",
    "Make an API key",
    "The key is in this answer and nowhere else. Its scope cannot be changed later.",
    body=KeyRequest,
    requests={"make": {"name": "Newsletter"}, "bind": {"name": "Newsletter", "profileId": PROFILE_ID}},
    answers={201: Success(MintedKeyBody, "The new key.", MINTED)},
    errors=("not_found",),
)


async def mint(call: Call) -> Reply:
    """POST /v1/api-keys: the key itself is in this answer and never again."""

    def write(tx: Tx, request: KeyRequest) -> tuple[int, Any]:
        label = tenancy.label_of(call.service, request.prefix)
        return 201, tenancy.mint_key(
            call.service, tx, call.scope.organization, profile=request.profile_id, name=request.name, label=label
        )

    return await commit(call, KeyRequest, write, secret=True)


REVOKED: RevokedKeyBody = {"id": KEY["id"], "revokedAt": NOW}
REVOKE = Operation(
    "API keys",
    "revokeKey",
    "Revoke an API key",
    "It stops working at once.",
    query=Narrowing,
    answers={200: Success(RevokedKeyBody, "The key is revoked.", REVOKED)},
    errors=("not_found",),
)


async def revoke(call: Call) -> Reply:
    """DELETE /v1/api-keys/{id}."""
    key = call.path_value("key_id")
    return await commit(call, None, lambda tx, _: (200, tenancy.revoke_key(call.service, tx, call.narrowed, key)))

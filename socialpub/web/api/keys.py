"""/v1/api-keys: for signed-in people only; a key cannot make keys."""

from __future__ import annotations

from typing import Any

from socialpub.domain.people import tenancy
from socialpub.domain.shapes.keys import KeyRequest
from socialpub.store.db import Tx
from socialpub.web.api.writes import commit
from socialpub.web.http import Call, Reply


async def listing(call: Call) -> Reply:
    """GET /v1/api-keys."""
    return Reply({"data": await call.service.read(lambda: tenancy.list_keys(call.scope.organization))})


async def mint(call: Call) -> Reply:
    """POST /v1/api-keys: the key itself is in this answer and never again."""

    def write(tx: Tx, request: KeyRequest) -> tuple[int, Any]:
        label = tenancy.label_of(call.service, request.prefix)
        return 201, tenancy.mint_key(
            call.service, tx, call.scope.organization, profile=request.profile_id, name=request.name, label=label
        )

    return await commit(call, KeyRequest, write, secret=True)


async def revoke(call: Call) -> Reply:
    """DELETE /v1/api-keys/{id}."""
    key = call.path_value("key_id")
    return await commit(call, None, lambda tx, _: (200, tenancy.revoke_key(call.service, tx, call.narrowed, key)))

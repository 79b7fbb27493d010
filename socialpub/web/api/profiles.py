"""/v1/profiles: read with a key or a session, changed by signed-in people only."""

from __future__ import annotations

from typing import Any

from socialpub.domain.people import tenancy
from socialpub.domain.shapes.profiles import ProfileRequest
from socialpub.store.db import Tx
from socialpub.web.api.writes import commit
from socialpub.web.http import Call, Reply


async def listing(call: Call) -> Reply:
    """GET /v1/profiles."""
    return Reply({"data": await call.service.read(lambda: tenancy.list_profiles(call.scope))})


async def create(call: Call) -> Reply:
    """POST /v1/profiles."""

    def write(tx: Tx, request: ProfileRequest) -> tuple[int, Any]:
        return 201, tenancy.create_profile(call.service, tx, call.scope.organization, request.name)

    return await commit(call, ProfileRequest, write)


async def rename(call: Call) -> Reply:
    """PATCH /v1/profiles/{id}."""
    profile = call.path_value("profile_id")

    def write(tx: Tx, request: ProfileRequest) -> tuple[int, Any]:
        return 200, tenancy.rename_profile(call.service, tx, call.narrowed, profile, request.name)

    return await commit(call, ProfileRequest, write)


async def delete(call: Call) -> Reply:
    """DELETE /v1/profiles/{id}."""
    profile = call.path_value("profile_id")
    return await commit(
        call, None, lambda tx, _: (200, tenancy.delete_profile(call.service, tx, call.narrowed, profile))
    )

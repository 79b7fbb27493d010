"""/v1/profiles."""

from __future__ import annotations

from socialpub.domain import tenancy
from socialpub.web.http import Call, Reply


async def listing(call: Call) -> Reply:
    """GET /v1/profiles."""
    return Reply({"data": await call.service.read(lambda: tenancy.list_profiles(call.scope))})

"""/v1/accounts."""

from __future__ import annotations

from socialpub.domain import accounts, schemas
from socialpub.web.http import Call, Reply


async def listing(call: Call) -> Reply:
    """GET /v1/accounts."""
    query = call.query(schemas.AccountsQuery)
    return Reply({"data": await call.service.read(lambda: accounts.list_bodies(call.scope, query.profile_id))})


async def read(call: Call) -> Reply:
    """GET /v1/accounts/{id}."""
    account = call.path_value("account_id")
    return Reply(await call.service.read(lambda: accounts.get_body(call.scope, account)))

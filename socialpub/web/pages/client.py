"""What this server tells authorization servers of itself, as an OAuth client without registration."""

from __future__ import annotations

import asyncio

from socialpub.domain.accounts import public_client
from socialpub.web.http import Call, Reply


async def metadata(call: Call) -> Reply:
    """GET /oauth/client-metadata.json: its address is the client's id."""
    return await _document(call, "client-metadata.json")


async def jwks(call: Call) -> Reply:
    """GET /oauth/jwks.json: the public half of the key that signs for the client."""
    return await _document(call, "jwks.json")


async def _document(call: Call, name: str) -> Reply:
    found = await asyncio.to_thread(public_client.document, call.service, name)
    return Reply(dict(found), headers={"Cache-Control": "public, max-age=300"})

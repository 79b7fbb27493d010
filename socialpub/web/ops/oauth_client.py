"""What this server tells authorization servers of itself, as an OAuth client without registration."""

from __future__ import annotations

import asyncio

from socialpub.domain.accounts import client_metadata
from socialpub.web.http.handler import HandlerResponse, RequestContext


async def read_metadata(call: RequestContext) -> HandlerResponse:
    """GET /oauth/client-metadata.json: its address is the client's id."""
    return await _document(call, "client-metadata.json")


async def read_jwks(call: RequestContext) -> HandlerResponse:
    """GET /oauth/jwks.json: the public half of the key that signs for the client."""
    return await _document(call, "jwks.json")


async def _document(call: RequestContext, name: str) -> HandlerResponse:
    found = await asyncio.to_thread(client_metadata.build_document, call.service, name)
    return HandlerResponse(dict(found), headers={"Cache-Control": "public, max-age=300"})

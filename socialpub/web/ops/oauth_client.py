"""This server's OAuth client metadata, for authorization servers without registration."""

from __future__ import annotations

import asyncio

from socialpub.domain.accounts import client_metadata
from socialpub.web.http.handler import HandlerResponse, RequestContext


async def read_metadata(call: RequestContext) -> HandlerResponse:
    """GET /oauth/client-metadata.json: its URL is the client id."""
    return await _document(call, "client-metadata.json")


async def read_jwks(call: RequestContext) -> HandlerResponse:
    """GET /oauth/jwks.json: the public key of the client's signatures."""
    return await _document(call, "jwks.json")


async def _document(call: RequestContext, name: str) -> HandlerResponse:
    found = await asyncio.to_thread(client_metadata.build_document, call.service, name)
    return HandlerResponse(dict(found), headers={"Cache-Control": "public, max-age=300"})

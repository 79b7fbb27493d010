"""The OpenAPI document, for programs and, as a page, for people."""

from __future__ import annotations

from socialpub.web.http import Call, Reply
from socialpub.web.openapi import Reference


async def openapi(call: Call) -> Reply:
    """GET /openapi.json."""
    return Reply(_reference(call).text)


async def page(call: Call) -> Reply:
    """GET /docs/reference."""
    return Reply(_reference(call).text)


def _reference(call: Call) -> Reference:
    reference: Reference = call.request.app.ctx.reference
    return reference

"""The settings' page about the server itself: what of it will need somebody, and what it is made of."""

from __future__ import annotations

from socialpub.domain.engine import system
from socialpub.store.statements.gauges import MOST
from socialpub.web.http import Call, Reply
from socialpub.web.pages.inside import show


async def look(call: Call) -> Reply:
    """GET /settings/system."""
    return await show(
        call, "settings/system.html", lambda _: {"system": system.look(call.engine, call.scope)}, most=MOST
    )

"""The page about the server: upcoming problems, versions and files."""

from __future__ import annotations

from socialpub.domain.operations import system_info
from socialpub.store.queries.gauges import COUNT_MAX
from socialpub.web.dashboard.parts.layout import show
from socialpub.web.http.handler import HandlerResponse, RequestContext


async def show_system(call: RequestContext) -> HandlerResponse:
    """GET /settings/system."""
    return await show(
        call,
        "settings/system.html",
        lambda _: {"system": system_info.load_system_info(call.engine, call.scope)},
        most=COUNT_MAX,
    )

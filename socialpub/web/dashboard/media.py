"""The media library: the stored files, and deleting one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media import library
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.media import MediaBody, MediaQuery
from socialpub.web.dashboard.parts.layout import redirect_with_flash, show
from socialpub.web.html import templates
from socialpub.web.http.handler import HandlerResponse, RequestContext

MEDIA_PATH, PAGE_SIZE = "/media", 24


async def list_media(call: RequestContext) -> HandlerResponse:
    """GET /media."""
    cursor = call.request.args.get("cursor") or ""

    def read(session: DashboardSession) -> dict[str, Any]:
        query = validation.parse_object(MediaQuery, {"limit": PAGE_SIZE, **({"cursor": cursor} if cursor else {})})
        page = library.load_page(call.service, session.scope, query)
        older = f"{MEDIA_PATH}?{urlencode({'cursor': page['nextCursor']})}" if page["nextCursor"] else None
        return {"files": [to_view(body) for body in page["data"]], "older": older}

    return await show(call, "media/list.html", read, is_later=bool(cursor))


def to_view(body: MediaBody) -> dict[str, Any]:
    """Return a file for a template, with its path on this server and its size in words."""
    return dict(body) | {"path": urlsplit(body["url"]).path, "size": templates.format_bytes(body["sizeBytes"])}


async def confirm_delete(call: RequestContext) -> HandlerResponse:
    """GET /library/{id}/delete: the effects."""
    id = call.path_value("media_id")

    def read(session: DashboardSession) -> dict[str, Any]:
        return {"file": to_view(library.to_body(call.service, library.find(call.scope, None, id)))}

    return await show(call, "media/delete.html", read)


async def delete(call: RequestContext) -> HandlerResponse:
    """POST /library/{id}/delete."""
    try:
        await actions.perform(call.actor, library.delete, call.path_value("media_id"))
    except ApiError as error:
        if error.rule != "media.in_use":
            raise
        return redirect_with_flash(call, MEDIA_PATH, f"{error.message} {error.remediation or ''}".strip(), good=False)
    return redirect_with_flash(call, MEDIA_PATH, "File deleted.")

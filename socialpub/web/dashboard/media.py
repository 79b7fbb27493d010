"""The media library: the stored files, and deleting one."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode, urlsplit

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media import library, thumbnails
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.media import MediaBody, MediaQuery
from socialpub.store.rows import MediaRow
from socialpub.web.dashboard.parts.layout import redirect, redirect_with_flash, show
from socialpub.web.html import templates
from socialpub.web.http.file_response import has_matching_tag
from socialpub.web.http.handler import HandlerResponse, RequestContext

MEDIA_PATH, PAGE_SIZE = "/media", 24
NO_PICTURE_PATH = "/static/picture.svg"
THUMBNAIL_HEADERS = {
    "Cache-Control": "private, max-age=86400",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


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
    """Return a file for a template, with its path and thumbnail here, and its size in words."""
    return dict(body) | {
        "path": urlsplit(body["url"]).path,
        "size": templates.format_bytes(body["sizeBytes"]),
        "thumbnail": thumbnails.build_path(body["id"]) if body["kind"] == "image" else None,
    }


async def show_thumbnail(call: RequestContext) -> HandlerResponse:
    """GET /library/{id}/thumbnail/{edge}."""
    row = await call.service.read(lambda: library.find(call.scope, None, call.path_value("media_id")))
    return await respond_thumbnail(call, row)


async def respond_thumbnail(call: RequestContext, row: MediaRow) -> HandlerResponse:
    """Return the thumbnail of the size that the path names, or redirect to a drawing."""
    edge = thumbnails.parse_edge(call.path_value("edge"))
    if edge is None:
        raise ApiError("not_found", "There is nothing at this address.")
    headers = THUMBNAIL_HEADERS | {"ETag": thumbnails.build_tag(row, edge)}
    if has_matching_tag(call.request.headers.get("if-none-match", ""), headers["ETag"]):
        return HandlerResponse(b"", 304, headers)
    threads = call.service.executors.immediate.of(ShareKey(owner=row["organization"]))
    found = await asyncio.get_running_loop().run_in_executor(threads, thumbnails.load, call.service, row, edge)
    if found is None:
        return redirect(NO_PICTURE_PATH)
    return HandlerResponse(found, 200, headers, "image/webp")


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

"""Media: the files that posts are made with, and letting go of one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.media import library
from socialpub.domain.people.desk import Desk
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.media import MediaBody, MediaQuery
from socialpub.web.http import Call, Reply
from socialpub.web.pages import html
from socialpub.web.pages.inside import show, tell

MEDIA, FILES = "/media", 24


async def listing(call: Call) -> Reply:
    """GET /media."""
    cursor = call.request.args.get("cursor") or ""

    def read(desk: Desk) -> dict[str, Any]:
        query = issues.parse_object(MediaQuery, {"limit": FILES, **({"cursor": cursor} if cursor else {})})
        page = library.page(call.service, desk.scope, query)
        older = f"{MEDIA}?{urlencode({'cursor': page['nextCursor']})}" if page["nextCursor"] else None
        return {"files": [told(body) for body in page["data"]], "older": older}

    return await show(call, "media/list.html", read, is_later=bool(cursor))


def told(body: MediaBody) -> dict[str, Any]:
    """A file with its address on this server, under whatever name that is open, and its size in words."""
    return dict(body) | {"path": urlsplit(body["url"]).path, "size": html.sized(body["sizeBytes"])}


async def ask_delete(call: Call) -> Reply:
    """GET /library/{id}/delete: what will happen."""
    id = call.path_value("media_id")

    def read(desk: Desk) -> dict[str, Any]:
        return {"file": told(library.body(call.service, library.find(call.scope, None, id)))}

    return await show(call, "media/delete.html", read)


async def delete(call: Call) -> Reply:
    """POST /library/{id}/delete."""
    try:
        await act.do(call.who, library.delete, call.path_value("media_id"))
    except ApiError as error:
        if error.rule != "media.in_use":
            raise
        return tell(call, MEDIA, f"{error.message} {error.remediation or ''}".strip(), good=False)
    return tell(call, MEDIA, "File deleted.")

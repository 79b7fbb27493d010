"""The media library: the stored files, one of them, uploading, thumbnails, and deleting."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.identity import dashboard_session
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media import library, platform_refusals, thumbnails
from socialpub.domain.media.files import THUMBNAIL_EDGES, IncomingFile
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.media import MediaBody, MediaChange, MediaFields, MediaQuery
from socialpub.store.rows import MediaRow
from socialpub.web.dashboard.parts.layout import (
    explain,
    keep_form,
    redirect,
    redirect_with_flash,
    require_form_error,
    show,
)
from socialpub.web.dashboard.parts.upload_forms import receive_upload
from socialpub.web.html import templates
from socialpub.web.html.time_format import pluralize
from socialpub.web.http import forms
from socialpub.web.http.file_response import has_matching_tag
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.multipart import MediaFilesForm

MEDIA_PATH, PAGE_SIZE = "/media", 24
IN_USE_TEXT = (
    "Not saved: a post that is not published yet uses this file. Change the description in the post, or save this one "
    "when the post is published."
)
KINDS = tuple(library.EXTENSIONS)  # content types of files
FILES_MAX, WORDS_MAX = 20, 200  # files in one form; characters of a search
LARGE_EDGE = THUMBNAIL_EDGES[-1]
NO_PICTURE_PATH = "/static/picture.svg"
THUMBNAIL_HEADERS = {
    "Cache-Control": "private, max-age=86400",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def list_media(call: RequestContext) -> HandlerResponse:
    """GET /media."""
    return await _show_list(call)


async def _show_list(call: RequestContext) -> HandlerResponse:
    """Show a page of files, and the form for new ones."""
    cursor, words = call.request.args.get("cursor") or "", (call.request.args.get("q") or "")[:WORDS_MAX]

    def read(session: DashboardSession) -> dict[str, Any]:
        query = validation.parse_object(MediaQuery, {"limit": PAGE_SIZE, **({"cursor": cursor} if cursor else {})})
        page = library.load_page(call.service, session.scope, query, words)
        wanted = ({"q": words} if words else {}) | {"cursor": page["nextCursor"]}
        older = f"{MEDIA_PATH}?{urlencode(wanted)}" if page["nextCursor"] else None
        return {"files": [to_view(body) for body in page["data"]], "older": older}

    return await show(
        call,
        "media/list.html",
        read,
        is_later=bool(cursor),
        words=words,
        kinds=KINDS,
        searched_max=library.SEARCHED_MAX,
        files_max=FILES_MAX,
        problem=explain(call.form_error),
    )


def to_view(body: MediaBody) -> dict[str, Any]:
    """Return a file for a template, with its path and thumbnail here, and its size in words."""
    return dict(body) | {
        "path": urlsplit(body["url"]).path,
        "size": templates.format_bytes(body["sizeBytes"]),
        "thumbnail": thumbnails.build_path(body["id"]) if body["kind"] == "image" else None,
    }


async def read(call: RequestContext) -> HandlerResponse:
    """GET /library/{id}: a file, who needs it, and which platforms refuse it."""
    return await _show_file(call)


async def _show_file(call: RequestContext) -> HandlerResponse:
    """Show a file, and the form for its description."""
    id, error = call.path_value("media_id"), call.form_error

    def read(session: DashboardSession) -> dict[str, Any]:
        row = library.find(call.scope, None, id)
        post, draft = library.find_uses(id)
        return {
            "file": to_view(library.to_body(call.service, row)) | {"large": thumbnails.build_path(id, LARGE_EDGE)},
            "post": post,
            "draft": draft,
            "refusals": platform_refusals.find_refusals(call.service, row),
        }

    problem = IN_USE_TEXT if error and error.rule == "media.in_use" else explain(error)
    return await show(call, "media/file.html", read, problem=problem)


async def describe(call: RequestContext) -> HandlerResponse:
    """POST /library/{id}/describe: `altText`."""
    id, form = call.path_value("media_id"), forms.parse(call)
    try:
        change = validation.parse_object(MediaChange, {"altText": form.get("altText", "")})
        await actions.perform(call.actor, library.describe, id, change)
    except ApiError as error:
        return await _show_file(keep_form(call, require_form_error(error), form))
    return redirect_with_flash(call, f"/library/{id}", "Description saved.")


# --- Uploading -------------------------------------------------------------------------------------------------------


async def receive(call: RequestContext) -> MediaFilesForm:
    """Read the form with its files."""
    return await receive_upload(call, MediaFilesForm, FILES_MAX)


async def upload(call: RequestContext) -> HandlerResponse:
    """POST /media: store the files; those that are stored already are not stored twice.

    Of a form that is refused as a whole, no file is stored, and the page says why.
    """
    sent: MediaFilesForm = call.received
    if sent.error is not None:
        return await _show_list(keep_form(call, sent.error))
    try:
        forms.check_csrf(call, sent.fields, call.scope.csrf)
        refusals = list(sent.refusals)
        for name, file in sent.files:
            if error := await _store(call, file):
                refusals.append((name, error))
        stored = len(sent.files) + len(sent.refusals) - len(refusals)
    finally:
        sent.close()
    words = f"{pluralize(stored, 'file')} stored."
    if not refusals:
        return redirect_with_flash(call, MEDIA_PATH, words)
    refused = [{"address": "", "words": name or "A file", "reason": explain(error)} for name, error in refusals]
    words = f"{words} {len(refused)}" if stored else pluralize(len(refused), "file")
    title = "Not all files were stored" if stored else "No file was stored"
    shown: dict[str, Any] = {"title": title, "home": (MEDIA_PATH, "Media"), "back": MEDIA_PATH}
    return await show(call, "refused.html", status=200 if stored else 400, refused=refused, words=words, **shown)


async def _store(call: RequestContext, file: IncomingFile) -> ApiError | None:
    """Store one file for the chosen profile, or return why it is refused."""

    def read() -> tuple[bool, MediaFields]:
        session = dashboard_session.load_current(call.scope)
        profile = {"profileId": session.profile["id"]} if session.profile else {}
        query = validation.parse_object(MediaQuery, {"limit": 1, "sha256": file.sha256, **profile})
        is_known = bool(library.load_page(call.service, call.scope, query)["data"])
        return is_known, validation.parse_object(MediaFields, profile)

    is_known, fields = await call.service.read(read)
    if is_known:
        return None
    try:
        await library.upload(call.actor, file, fields)
    except ApiError as error:
        if error.code in ("unauthenticated", "internal_error"):
            raise
        return error
    return None


# --- Thumbnails ------------------------------------------------------------------------------------------------------


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
    share = ShareKey(owner=row["organization"])
    found = await call.service.executors.immediate.run(share, thumbnails.load, call.service, row, edge)
    if found is None:
        return redirect(NO_PICTURE_PATH)
    return HandlerResponse(found, 200, headers, "image/webp")


# --- Deleting --------------------------------------------------------------------------------------------------------


async def confirm_delete_unused(call: RequestContext) -> HandlerResponse:
    """GET /media/unused: how many files of the chosen profile nothing needs."""

    def read(session: DashboardSession) -> dict[str, Any]:
        found = library.count_unused(call.service, session.scope, session.scope.profile)
        return {"count": found.files, "size": templates.format_bytes(found.size_bytes)}

    return await show(call, "media/unused.html", read, most=library.UNUSED_MAX)


async def delete_unused(call: RequestContext) -> HandlerResponse:
    """POST /media/unused: of `profile`, or of all."""
    profile = forms.parse(call).get("profile") or None
    deleted = int(str((await actions.perform(call.actor, library.delete_all_unused, profile))["count"]))
    more = " There may be more." if deleted == library.UNUSED_MAX else ""
    return redirect_with_flash(call, MEDIA_PATH, f"{pluralize(deleted, 'file')} deleted.{more}")


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
        return redirect_with_flash(call, MEDIA_PATH, explain(error), good=False)
    return redirect_with_flash(call, MEDIA_PATH, "File deleted.")

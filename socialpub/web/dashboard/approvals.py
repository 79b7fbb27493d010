"""The page behind an approval link: one draft as it would be published, and two buttons."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.media import library
from socialpub.domain.posts import approval_links, drafts
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.drafts import NOTE_MAX, ReturnRequest
from socialpub.store.rows import MediaRow, PostDraftRow
from socialpub.web.dashboard import media
from socialpub.web.dashboard.parts import draft_view
from socialpub.web.dashboard.parts.layout import explain, redirect
from socialpub.web.html.templates import render_page
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext

COOKIE = "socialpub_approval"
COOKIE_SECONDS = 24 * 3600
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; media-src 'self'; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'self'"
    ),
    "X-Robots-Tag": "noindex, nofollow",
}
CHANGED_TEXT = "The post was changed after you opened this page. Please look at it again: this is how it is now."


async def show_link(call: RequestContext, problem: str = "", note: str = "", status: int = 200) -> HandlerResponse:
    """GET /approve/{token}.

    The draft's title, its author and the organization's name are not shown.
    """
    service = call.service

    def read() -> tuple[PostDraftRow, dict[str, Any]]:
        row = approval_links.find_draft(service, call.path_value("token"))
        return row, draft_view.load(service, row)

    row, view = await service.read(read)
    token = forms.find_or_make_token(call, COOKIE)
    cookie = forms.build_cookie(service, COOKIE, token, COOKIE_SECONDS)
    returned = row["status"] == "draft" and call.request.args.get("done") == "returned"
    page = render_page(
        "drafts/approve.html",
        status,
        (cookie,),
        csrf_token=token,
        library=f"{call.request.path}/library",
        view=view,
        is_approved=row["status"] == "approved",
        said=problem or ("The post was returned. Thank you." if returned else ""),
        is_bad=bool(problem),
        note=note,
        note_max=NOTE_MAX,
        ends_at=approval_links.find_end(row, service.now_ms),
        now_ms=service.now_ms,
    )
    return page._replace(headers=HEADERS)


async def show_thumbnail(call: RequestContext) -> HandlerResponse:
    """GET /approve/{token}/library/{id}/thumbnail/{edge}: of a file of that draft only."""
    media_id = call.path_value("media_id")

    def read() -> MediaRow:
        row = approval_links.find_draft(call.service, call.path_value("token"))
        if media_id not in draft_view.list_media(draft_view.load(call.service, row)):
            raise ApiError("not_found", "There is nothing at this address.")
        return library.find(drafts.get_scope(row), None, media_id)

    return await media.respond_thumbnail(call, await call.service.read(read))


async def decide(call: RequestContext) -> HandlerResponse:
    """POST /approve/{token}: `decision` (`approve`, `return`), `note`, and `seen`, a digest."""
    form = forms.parse_verified(call, request_headers.read_cookie(call.service, call.request, COOKIE))
    token, note = call.path_value("token"), form.get("note", "")
    row = await call.service.read(lambda: approval_links.find_draft(call.service, token))
    who = call.actor.within(row["organization"])
    try:
        if form.get("decision") == "approve":
            await actions.perform(who, approval_links.approve, token, form.get("seen", ""))
            return redirect(call.request.path)
        if form.get("decision") != "return":
            return await show_link(call, "Choose one of the two buttons.", note, 400)
        request = validation.parse_object(ReturnRequest, {"note": note})
        await actions.perform(who, approval_links.send_back, token, request.note)
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        problem = CHANGED_TEXT if error.rule == "draft.changed" else explain(error)
        return await show_link(call, problem, note, error.status)
    return redirect(f"{call.request.path}?done=returned")

"""Drafts: the list, and one draft with its decisions, publication and approval link."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from socialpub.base import json_codec
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import ActionFunction
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import approval_links, drafts
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.drafts import NOTE_MAX, DraftsQuery, ReturnRequest
from socialpub.web.api import drafts as drafts_api
from socialpub.web.dashboard.parts import draft_view, error_texts
from socialpub.web.dashboard.parts.layout import explain, redirect_with_flash, show
from socialpub.web.dashboard.parts.publish_outcome import redirect_to_posts
from socialpub.web.html.time_format import pluralize
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

DRAFTS_PATH, PAGE_SIZE = "/drafts", 25
WAIT_SECONDS = 10.0
VIEWS = {
    "": ("Open", ["draft", "proposed", "approved"]),
    "proposed": ("Awaiting approval", ["proposed"]),
    "used": ("Post created", ["published"]),
}
"""The views of the list: their labels, and the states of their drafts."""
PICK, PICKED_MAX = "pick.", 100  # of the drafts that one form deletes


async def list_drafts(call: RequestContext) -> HandlerResponse:
    """GET /drafts: those of a view, `show`, that are open if it names none."""
    cursor, chosen = call.request.args.get("cursor"), call.request.args.get("show")
    view, cursor = chosen if chosen in VIEWS else "", cursor or ""

    def read(session: DashboardSession) -> dict[str, Any]:
        asked = {"limit": PAGE_SIZE, "status": VIEWS[view][1], "cursor": cursor}
        page = drafts.load_page(call.service, session.scope, validation.parse_object(DraftsQuery, asked))
        return {
            "drafts": page["data"],
            "older": _list_address(view, page["nextCursor"]) if page["nextCursor"] else None,
        }

    return await show(
        call,
        "drafts/list.html",
        read,
        views=[(_list_address(name), words) for name, (words, _) in VIEWS.items()],
        here=_list_address(view),
        is_later=bool(cursor),
        page=_list_address(view, cursor),
    )


def _list_address(view: str, cursor: str = "") -> str:
    """Return the address of a page of the list."""
    query = urlencode({name: value for name, value in (("show", view), ("cursor", cursor)) if value})
    return f"{DRAFTS_PATH}?{query}" if query else DRAFTS_PATH


async def read(call: RequestContext) -> HandlerResponse:
    """GET /drafts/{id}."""
    return await _page(call, "drafts/draft.html")


async def confirm_delete(call: RequestContext) -> HandlerResponse:
    """GET /drafts/{id}/delete: the effects."""
    return await _page(call, "drafts/delete.html")


async def _page(call: RequestContext, template: str) -> HandlerResponse:
    id_, service = call.path_value("draft_id"), call.service
    body = await service.read(lambda: drafts.load_body(call.scope, id_))
    problems = (await drafts.refresh(service, call.scope, body))["problems"]

    def read_draft(_: DashboardSession) -> dict[str, Any]:
        row = drafts.find(call.scope, id_)
        return {
            "draft": drafts.load_body(call.scope, id_),
            "view": draft_view.load(service, row),
            "link_ends_at": approval_links.find_end(row, service.now_ms),
        }

    return await show(
        call,
        template,
        read_draft,
        problems=[error_texts.find_words(each.get("rule")) or each["message"] for each in problems],
        may_approve=drafts.can_approve(service, call.scope),
        needs_approval=service.runtime.settings.publishing.approval,
        note_max=NOTE_MAX,
    )


async def propose(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/propose."""
    id_ = call.path_value("draft_id")
    try:
        await actions.respond(await drafts_api.build_proposal(call.actor, id_))
    except ApiError as error:
        return _refuse(call, error)
    return redirect_with_flash(call, _path(call), "Draft proposed.")


async def approve(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/approve: `seen` is the digest of what the page showed."""
    return await _act(call, "Draft approved.", drafts.approve, forms.parse(call).get("seen", ""))


async def send_back(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/return: `note`."""
    try:
        request = validation.parse_object(ReturnRequest, {"note": forms.parse(call).get("note", "")})
    except ApiError as error:
        return _refuse(call, error)
    return await _act(call, "Draft returned.", drafts.send_back, request.note)


async def revoke_link(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/unlink."""
    return await _act(call, "The approval link no longer works.", approval_links.revoke)


async def delete(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/delete."""
    await actions.perform(call.actor, drafts.delete, call.path_value("draft_id"))
    return redirect_with_flash(call, DRAFTS_PATH, "Draft deleted.")


async def delete_several(call: RequestContext) -> HandlerResponse:
    """POST /drafts/bulk: delete each draft `pick.{id}`, in its own transaction."""
    form = forms.parse(call)
    picked = [name.removeprefix(PICK) for name in form if name.startswith(PICK)]
    page = forms.to_local_path(form.get("page"))
    if not 0 < len(picked) <= PICKED_MAX:
        return redirect_with_flash(call, page, f"Choose 1 to {PICKED_MAX} drafts.", good=False)
    deleted = 0
    for draft in picked:
        try:
            await actions.perform(call.actor, drafts.delete, draft)
            deleted += 1
        except ApiError as error:
            if error.code != "not_found":
                raise  # a draft that is gone already is none to delete
    return redirect_with_flash(call, page, f"{pluralize(deleted, 'draft')} deleted.")


async def create_link(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/link: the next page shows it once."""
    try:
        link = await actions.perform(call.actor, approval_links.create, call.path_value("draft_id"))
    except ApiError as error:
        return _refuse(call, error)
    words = "Anyone who has this link can approve or return the draft, for 7 days."
    return redirect_with_flash(call, _path(call), words, secret=str(link["url"]))


async def publish(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/publish: `seen` is the digest of what the page showed, if any."""
    draft, seen = call.path_value("draft_id"), forms.parse(call).get("seen", "")

    def check() -> None:
        if seen:
            drafts.check_seen(call.actor, draft, seen)

    wait = min(WAIT_SECONDS, call.service.runtime.settings.publishing.immediate_wait)
    try:
        answer = await drafts_api.publish_draft(call, draft, wait, check)
    except ApiError as error:
        return _refuse(call, error)
    return redirect_to_posts(call, json_codec.loads(answer.body))


async def _act(call: RequestContext, words: str, action: ActionFunction[...], *args: Any) -> HandlerResponse:
    try:
        await actions.perform(call.actor, action, call.path_value("draft_id"), *args)
    except ApiError as error:
        return _refuse(call, error)
    return redirect_with_flash(call, _path(call), words)


def _refuse(call: RequestContext, error: ApiError) -> HandlerResponse:
    """Redirect to the draft with the reason. Raises errors of authority."""
    if error.code in ("unauthenticated", "unauthorized", "not_found") and error.rule is None:
        raise error
    return redirect_with_flash(call, _path(call), explain(error), good=False)


def _path(call: RequestContext) -> str:
    return f"{DRAFTS_PATH}/{call.path_value('draft_id')}"

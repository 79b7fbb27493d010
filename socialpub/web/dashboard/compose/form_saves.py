"""Handlers that save the form: as a draft, or to the draft or queued post that it changes."""

from __future__ import annotations

import json
from typing import Any, cast

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions, idempotency
from socialpub.domain.access.preconditions import compute_tag, require_tag
from socialpub.domain.accounts import accounts
from socialpub.domain.posts import batch_log, drafts, edits, post_log
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.drafts import DraftBody, DraftRequest
from socialpub.domain.schemas.posts import BatchEditRequest, PostEditRequest
from socialpub.store.rows import DraftStatus
from socialpub.web.api import drafts as drafts_api
from socialpub.web.dashboard.compose.form_data import Form
from socialpub.web.dashboard.compose.form_findings import explain_refusal
from socialpub.web.dashboard.compose.form_page import make_key, render
from socialpub.web.dashboard.compose.form_request import build_request, read_rows
from socialpub.web.dashboard.parts import edited_content
from socialpub.web.dashboard.parts.layout import redirect_with_flash
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

DRAFTS_PATH = "/drafts"


async def save_draft(call: RequestContext) -> HandlerResponse:
    """POST /drafts: save the form as a draft, or to the `draft` that it was opened from."""
    given = forms.parse(call)
    if given.get("do") == "autosave":
        return await _autosave(call, given)
    try:
        saved = await save(call, given)
    except ApiError as error:
        return await render(call, given, explain_refusal(error, given, "saved"))
    has_lost_approval = given.get("was") == "approved" and saved["status"] == "draft"
    was = "It had been approved; the change ended the approval." if has_lost_approval else ""
    return redirect_with_flash(call, f"/drafts/{saved['id']}", f"Draft saved. {was}".strip())


class AutosavedDraft(TypedDict):
    """Saved draft, for the script of the composer. `seen`: its ETag."""

    id: str
    seen: str
    status: DraftStatus


async def _autosave(call: RequestContext, given: Form) -> HandlerResponse:
    """Save the form for its script, once for `save_key`; return the draft's id, ETag and state."""
    fingerprint = idempotency.start_fingerprint("")
    fingerprint.update(call.body)
    key = make_key(call, given.get("save_key", ""))
    call.key = idempotency.parse_key(call.scope, "POST", DRAFTS_PATH, key, fingerprint.hexdigest())

    stored = await actions.respond_once(call.service, call.key, lambda: _build_save(call, given))
    saved: DraftBody = json.loads(stored.body)
    state: AutosavedDraft = {"id": saved["id"], "seen": compute_tag(drafts.encode(saved)), "status": saved["status"]}
    return HandlerResponse(state)


async def save(call: RequestContext, given: Form) -> DraftBody:
    """Save the form as a draft. Raises 412 `http.if_match` if it was changed elsewhere."""
    return cast(DraftBody, await actions.perform_bound(await _build_save(call, given)))


async def _build_save(call: RequestContext, given: Form) -> actions.BoundAction:
    """Return the action that saves the form: to its draft, or as a new one."""
    found = await read_rows(call, given)
    content = await build_request(call, given, found)
    request = validation.parse_object(DraftRequest, content)
    checked = await drafts_api.check_content(call.actor, request, {})
    if found.item is None:
        return actions.bind(call.actor, drafts.create, None, checked)
    draft = found.item.id
    if given.get("do") == "autosave":
        action = actions.bind(call.actor, drafts.autosave, draft, checked)
    else:
        action = actions.bind(call.actor, drafts.change, draft, None, checked)
    seen = given.get("replace") or given.get("seen", "")
    return require_tag(action, (seen,), lambda: drafts.encode(drafts.load_body(call.scope, draft)))


async def edit_post(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/edit: change the content and the time of a queued post."""
    given, post = forms.parse(call) | {"post": call.path_value("post_id")}, call.path_value("post_id")
    try:
        changed = await _edit(call, given, post)
    except ApiError as error:
        if error.code in ("unauthorized", "not_found"):
            raise
        return await render(call, given, explain_refusal(error, given, "saved"))
    changes = {0: "Nothing was changed.", 1: "Post changed."}
    return redirect_with_flash(call, f"/posts/{post}", changes.get(changed, f"{changed} posts changed."))


async def _edit(call: RequestContext, given: Form, post: str) -> int:
    """Change the post, and with `all` those that share its content; return how many."""
    found = await read_rows(call, given)
    assert found.item is not None, "the form names it"
    row = await call.service.read(lambda: accounts.find(call.scope, str(found.item and found.item.account)))
    body = edited_content.to_edit(given, found.item, row, found.media, call.service.now_ms)
    if not body:
        return 0
    if body.keys() != {"scheduledAt"} and not drafts.can_publish_directly(call.service, call.scope):
        remedy = "Cancel the post, and propose a draft with the new content."
        raise rule_error("draft.approval", "You can change only the time of a scheduled post.", remediation=remedy)
    with await call.enter_checking():
        if given.get("all"):
            action = await _prepare_for_all(call, found.item.content["batchId"], body)
        else:
            action = await edits.prepare_post(call.actor, post, validation.parse_object(PostEditRequest, body), {})
    seen = given.get("replace") or given.get("seen", "")
    await actions.perform_bound(require_tag(action, (seen,), lambda: post_log.load_detail(call.scope, post)))
    return 1 + found.item.sharing if given.get("all") else 1


async def _prepare_for_all(call: RequestContext, batch: str, body: dict[str, Any]) -> actions.BoundAction:
    """Check the edit of all queued posts of a batch and return the action."""
    if "options" in body:
        remedy = "Save them for this account alone first, then change the text for all."
        raise ApiError("validation_failed", "Options belong to one account.", remediation=remedy)
    return await batch_log.prepare_edit(call.actor, batch, validation.parse_object(BatchEditRequest, body), {})

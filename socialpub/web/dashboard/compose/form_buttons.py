"""POST handlers of the form: publish or check it, and save a group of accounts."""

from __future__ import annotations

import json
from dataclasses import replace

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions, idempotency
from socialpub.domain.access.preconditions import compute_tag
from socialpub.domain.accounts import account_groups
from socialpub.domain.posts import drafts
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.web.api import drafts as drafts_api
from socialpub.web.api import posts as posts_api
from socialpub.web.dashboard.compose.form_checks import check, load_boards, write_command
from socialpub.web.dashboard.compose.form_data import COMPOSE_PATH, Form
from socialpub.web.dashboard.compose.form_findings import NO_FINDINGS, FormFindings, explain_refusal
from socialpub.web.dashboard.compose.form_page import make_key, render
from socialpub.web.dashboard.compose.form_request import build_request
from socialpub.web.dashboard.compose.form_saves import save
from socialpub.web.dashboard.parts import compose_form
from socialpub.web.dashboard.parts.compose_form import FieldMessage
from socialpub.web.dashboard.parts.layout import redirect_with_flash, require_form_error
from socialpub.web.dashboard.parts.publish_outcome import redirect_to_posts
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

WAIT_SECONDS = 10.0
_UNSENT = ("csrf_token", "page", "do", "key", "file", "new-alt", "seen", "was", "save_key", "group", "group_name")
"""Fields that say nothing of the post."""


async def submit(call: RequestContext) -> HandlerResponse:
    """POST /compose: `do=send` publishes or schedules, `do=check` and `do=live` validate."""
    given = forms.parse(call)
    if given.get("do") == "send":
        return await _send(call, given)
    if given.get("boards"):
        return await render(call, given, await load_boards(call, given))
    if given.get("do") == "request":
        return await render(call, given, await write_command(call, given))
    return await render(call, given, await check(call, given) if given.get("do") in ("check", "live") else NO_FINDINGS)


async def save_group(call: RequestContext) -> HandlerResponse:
    """POST /compose/groups: save the chosen accounts as `group_name`, or delete `ended_group`."""
    given = forms.parse(call)
    ended = given.pop("ended_group", "")
    chosen = [] if ended else compose_form.list_accounts(given)
    try:
        if not (ended or chosen):
            raise ApiError("validation_failed", "Choose the accounts of the group first.")
        await actions.perform(call.actor, account_groups.save, ended or given.get("group_name", "").strip(), chosen)
    except ApiError as error:
        wrong = {"accounts": [FieldMessage(require_form_error(error).message)]}
        return await render(call, given, FormFindings(wrong, status=error.status))
    return await render(call, given | {"group_name": ""})


async def _send(call: RequestContext, given: Form) -> HandlerResponse:
    """Publish the form. Raises ApiError `unauthorized` for a role that only drafts."""
    call.scope = replace(call.scope, needs=actions.PUBLISHER_ROLES)
    actions.authorize(call.scope)
    if not drafts.can_publish_directly(call.service, call.scope):
        return await render(call, given, explain_refusal(rule_error("draft.approval"), given))
    fingerprint = idempotency.start_fingerprint("")
    # An empty field is as good as an absent one, except a description, which replaces the stored one of the file.
    sent = [pair for pair in given.items() if pair[0] not in _UNSENT and (pair[1] or pair[0].startswith("alt."))]
    fingerprint.update(json.dumps(sorted(sent)).encode())
    call.key = idempotency.parse_key(
        call.scope, "POST", COMPOSE_PATH, make_key(call, given.get("key", "")), fingerprint.hexdigest()
    )

    async def ask() -> BatchRequest:
        return validation.parse_object(BatchRequest, await build_request(call, given))

    wait = min(WAIT_SECONDS, call.service.runtime.settings.publishing.immediate_wait)
    try:
        if given.get("draft"):
            return await _send_draft(call, given, wait)
        answer = await posts_api.publish_keyed(call, ask, wait)
    except ApiError as error:
        refused = explain_refusal(error, given)
        shown = await check(call, given | {"do": "live"})
        return await render(call, given, replace(refused, previews=shown.previews))
    return redirect_to_posts(call, json.loads(answer.body))


async def _send_draft(call: RequestContext, given: Form, wait: float) -> HandlerResponse:
    """Save the form to its draft and publish that; once published, lead to its posts.

    The form gets the ETag of the saved draft: if the draft is not published, the form is shown again.
    """
    key, call.key = call.key, None
    try:
        await call.service.read(lambda: drafts.find_open(call.scope, given["draft"]))
        saved = await save(call, given)
        given["seen"] = compute_tag(drafts.encode(saved))
        call.key = key
        answer = await drafts_api.publish_draft(call, saved["id"], wait)
    except ApiError as error:
        batch = error.platform_response if error.rule == "draft.status" else None
        if not isinstance(batch, dict) or "batchId" not in batch:
            raise
        return redirect_with_flash(call, f"/posts?batchId={batch['batchId']}", "This draft was published already.")
    return redirect_to_posts(call, json.loads(answer.body))

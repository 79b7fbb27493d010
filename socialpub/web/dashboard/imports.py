"""Import of posts from a spreadsheet: upload, preview of every row, and undo."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from urllib.parse import urlencode

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import drafts, sheet_import
from socialpub.domain.posts.sheet_import import SheetRow
from socialpub.web.dashboard.parts.layout import UndoForm, explain, keep_form, redirect_with_flash, show
from socialpub.web.html.time_format import pluralize
from socialpub.web.http import forms, request_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.multipart import parse_small_form

IMPORT_PATH = "/import"
FORM_BYTES = 16 * 1024  # beside the file
UPLOAD_MAX = sheet_import.FILE_MAX + FORM_BYTES
CONFIRM_MAX = 2 * sheet_import.FILE_MAX  # the file in base64, urlencoded
TEXT_SHOWN_MAX = 200  # characters
_NAME = re.compile(f"[0-9a-f]{{{sheet_import.NAME_LENGTH}}}")


async def show_form(call: RequestContext) -> HandlerResponse:
    """GET /import."""
    return await _page(call)


async def receive(call: RequestContext) -> tuple[dict[str, str], bytes] | ApiError:
    """Read the form with its file, or return that it is too large.

    Raises ApiError `unauthorized` before that.
    """
    actions.authorize(call.scope)
    forms.check_origin(call)
    try:
        body = await request_body.read_body(call.request, UPLOAD_MAX)
    except ApiError as error:
        if error.rule != "http.body_size":
            raise
        request_body.limit_unread_body(call.request)
        message = f"The file is larger than {sheet_import.FILE_MAX // 1024} KiB. Split it."
        return ApiError(error.code, message, remediation="", status=error.status)
    return parse_small_form(call.request.headers.get("content-type", ""), body)


async def check(call: RequestContext) -> HandlerResponse:
    """POST /import/check: the file's rows, and what is wrong with them. Nothing is written."""
    if isinstance(call.received, ApiError):
        return await _refuse(call, call.received)
    fields, raw = call.received
    forms.check_csrf(call, fields, call.scope.csrf)
    return await _preview(call, raw)


async def _preview(call: RequestContext, raw: bytes, problem: str = "") -> HandlerResponse:
    try:
        _require_direct(call)
        with await call.enter_checking():
            rows = await sheet_import.check(call.actor, raw)
    except ApiError as error:
        return await _refuse(call, error)
    name = sheet_import.name_file(raw)
    added = len(await call.service.read(lambda: sheet_import.list_added(call.scope, name)))
    content = base64.b64encode(raw).decode()
    return await _page(call, rows, problem=problem, name=name, added=added, content=content)


async def confirm(call: RequestContext) -> HandlerResponse:
    """POST /import: schedule the posts of the good rows of `file` (base64)."""
    try:
        raw = base64.b64decode(forms.parse(call).get("file", ""), validate=True)
    except (binascii.Error, ValueError):
        return await _refuse(call, ApiError("validation_failed", "Choose the file again.", remediation=""))
    try:
        _require_direct(call)
        result = await sheet_import.add(call.actor, raw)
    except ApiError as error:
        return await _refuse(call, error)
    wrong = sum(row.state == "wrong" for row in result.rows)
    if not result.added:
        return await _preview(call, raw, "No post was scheduled. See the rows.")
    name = sheet_import.name_file(raw)
    words = f"{pluralize(result.added, 'post')} scheduled."
    if wrong:
        words += f" {pluralize(wrong, 'row')} left out."
    where = "/posts?" + urlencode({"externalIdPrefix": sheet_import.build_prefix(name), "order": "scheduledAt"})
    return redirect_with_flash(call, where, words, undo=UndoForm("/import/undo", {"name": name}))


async def undo(call: RequestContext) -> HandlerResponse:
    """POST /import/undo: cancel what the file `name` has scheduled."""
    name = forms.parse(call).get("name", "")
    if not _NAME.fullmatch(name):
        return await _refuse(call, ApiError("validation_failed", "Choose the file again.", remediation=""))
    canceled, kept = await sheet_import.undo(call.actor, name)
    words = f"{pluralize(canceled, 'post')} canceled."
    if kept:
        words += f" {pluralize(kept, 'post')} could not be canceled any more."
    return redirect_with_flash(call, IMPORT_PATH, words, good=not kept)


def _require_direct(call: RequestContext) -> None:
    """Raise ApiError `draft.approval` for a user who may only publish approved drafts."""
    if not drafts.can_publish_directly(call.service, call.scope):
        raise rule_error("draft.approval")


async def _refuse(call: RequestContext, error: ApiError) -> HandlerResponse:
    """Show the form with the reason. Raises errors of authority and of the server."""
    if error.status >= 500 or error.code in ("unauthenticated", "unauthorized", "rate_limited"):
        raise error
    return await _page(keep_form(call, error), problem=explain(error))


async def _page(call: RequestContext, rows: list[SheetRow] | None = None, **values: Any) -> HandlerResponse:
    def read(_: DashboardSession) -> dict[str, Any]:
        return {"rows": [_to_view(row) for row in rows or ()]}

    states = [row.state for row in rows or ()]
    shown: dict[str, Any] = {"name": "", "added": 0, "content": ""} | values
    return await show(
        call,
        "posts/import.html",
        read,
        path=IMPORT_PATH,
        counts={state: states.count(state) for state in ("new", "there", "wrong")},
        rows_max=sheet_import.ROWS_MAX,
        file_max=sheet_import.FILE_MAX // 1024,
        may_import=drafts.can_publish_directly(call.service, call.scope),
        **shown,
    )


def _to_view(row: SheetRow) -> dict[str, Any]:
    """Return a row for the template."""
    view: dict[str, Any] = {name: getattr(row, name) for name in ("line", "state", "problems", "warnings")}
    view["files"] = 0
    if row.post is None:
        return view
    account = row.post.account
    return view | {
        "platform": account["platform"],
        "label": platforms.platform(account["platform"]).label,
        "who": account["display_name"] or account["platform_account_id"],
        "at": row.post.request.scheduled_at,
        "text": row.post.text[:TEXT_SHOWN_MAX],
        "files": len(row.post.request.media or ()),
    }

"""The page of the composer: an empty form, or one that changes or copies a post."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import account_groups
from socialpub.domain.identity import dashboard_session
from socialpub.domain.posts import drafts, post_log
from socialpub.domain.schemas.posts import PIECES_MAX, PostsQuery
from socialpub.web.dashboard import media
from socialpub.web.dashboard.compose.form_data import COMPOSE_PATH, Form, load
from socialpub.web.dashboard.compose.form_findings import NO_FINDINGS, FormFindings
from socialpub.web.dashboard.compose.form_views import count_texts, view_account, view_file, view_pieces
from socialpub.web.dashboard.parts import compose_form, edited_content, edited_items
from socialpub.web.dashboard.parts.compose_form import FieldMessage, FieldMessages
from socialpub.web.dashboard.parts.edited_content import EditedItem
from socialpub.web.dashboard.parts.layout import redirect_with_flash, show
from socialpub.web.html import time_format
from socialpub.web.http.handler import HandlerResponse, RequestContext

HOUR_MS = 3_600_000
LOST_DRAFT = FieldMessage("This draft was deleted after you opened it. Save your text as a new draft, or publish it.")
_KEY = re.compile(r"[0-9a-f]{32}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = re.compile(r"\d\d:\d\d", re.ASCII)


async def show_form(call: RequestContext) -> HandlerResponse:
    """GET /compose: an empty form, one that changes `draft` or `post`, or a copy of `from`.

    `day` and `clock` preset the time.
    """
    arguments = call.request.args
    named = {name: arguments.get(name) or "" for name in ("draft", "post")}
    if any(named.values()):
        return await _show_item(call, named)
    day, post = arguments.get("day") or "", arguments.get("from")
    if post:
        given, left = await call.service.read(lambda: _copy_post(call, post))
        return await render(call, given, FormFindings(left))
    clock = call.request.args.get("clock") or ""
    preset = {"when": "later", "day": day} | ({"clock": clock} if _CLOCK.fullmatch(clock) else {})
    return await render(call, preset if _DAY.fullmatch(day) else {})


async def _show_item(call: RequestContext, named: Form) -> HandlerResponse:
    """Show the form of a draft or queued post, or if it is closed, its own page."""

    def read() -> tuple[EditedItem, bool, Form, FieldMessages]:
        session = dashboard_session.load_current(call.scope)
        item = edited_items.load(call.scope, named)
        if item is None:
            raise ApiError("unauthenticated")
        fields, notes = edited_items.fill_form(item, session.zone)
        return item, edited_items.is_open(call.service, item, call.scope), fields, notes

    item, is_open, fields, notes = await call.service.read(read)
    if not is_open:
        return redirect_with_flash(call, edited_items.find_page(item), edited_items.explain_closed(item), good=False)
    kept = {} if call.request.args.get("kept") else fields
    return await render(call, kept, FormFindings(warned=notes))


def _copy_post(call: RequestContext, post: str) -> tuple[Form, FieldMessages]:
    """Return the form that copies a post with its whole thread, and what is not copied."""
    shown = json.loads(post_log.load_detail(call.scope, post))
    if shown["threadOf"]:
        return _copy_post(call, shown["threadOf"])
    form, problems = compose_form.from_post(shown, json.loads(post_log.find(call.scope, post)["options"]))
    if shown["threadPosition"] is None:
        return form, problems
    thread = edited_content.write_copied_thread(shown["mediaRefs"], _list_later_pieces(call, shown))
    note = [] if thread else [FieldMessage("Its thread has a file twice, so only its first post is copied.")]
    return form | thread, {**problems, compose_form.TOP: note}


def _list_later_pieces(call: RequestContext, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return text and files of the pieces of a thread after its first post."""
    query = {"batchId": first["batchId"], "accountId": first["accountId"], "limit": PIECES_MAX + 1}
    found = json.loads(post_log.load_page(call.service, call.scope, PostsQuery.model_validate(query)))["data"]
    pieces = [each for each in found if each["threadOf"] == first["id"]]
    pieces.sort(key=lambda each: int(each["threadPosition"]))
    return [{"text": each["text"], "media": each["mediaRefs"]} for each in pieces]


async def render(call: RequestContext, given: Form, findings: FormFindings = NO_FINDINGS) -> HandlerResponse:
    """Return the page with this form, and what was found about it."""
    data = await call.service.read(lambda: load(call, given))
    counts = await count_texts(call, data)
    if data.has_lost_draft:
        findings = replace(findings, wrong={**findings.wrong, compose_form.TOP: [LOST_DRAFT]}, status=404)
    return await show(
        call,
        "compose/form.html",
        status=findings.status,
        path=COMPOSE_PATH,
        item=data.item,
        item_page=edited_items.find_page(data.item) if data.item else "",
        conflict=findings.conflict,
        command=findings.command,
        previews=findings.previews,
        slots=data.slots,
        folds=compose_form.list_folds(data.form),
        warned=findings.warned,
        needs_approval=not drafts.can_publish_directly(call.service, call.scope),
        form=defaultdict(str, data.form),
        key=make_key(call, "" if findings.is_sent else data.form.get("key", "")),
        accounts=[view_account(call, data, row, counts.get(row["id"]), findings) for row in data.accounts],
        hidden=data.hidden,
        groups=data.groups,
        group_name_max=account_groups.GROUPS.name_max,
        files=[view_file(call, name, row, data.form) for name, row in data.chosen.items()],
        pieces=await view_pieces(call, data),
        pieces_max=PIECES_MAX,
        library_files=data.library_files,
        kinds=media.KINDS,
        wrong=findings.wrong,
        words=findings.words,
        is_bad=any(findings.wrong.values()),
        due=time_format.to_fields(_next_hour(call.service.now_ms), data.session.zone),
        today=time_format.to_fields(call.service.now_ms, data.session.zone)["day"],
    )


def _next_hour(now_ms: int) -> int:
    return (now_ms // HOUR_MS + 2) * HOUR_MS


def make_key(call: RequestContext, given: str) -> str:
    """Return the form's Idempotency-Key, or a new one."""
    return given if _KEY.fullmatch(given) else call.service.runtime.entropy(16).hex()

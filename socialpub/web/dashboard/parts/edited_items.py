"""Drafts and queued posts that the composer changes: loading, and their pages."""

from __future__ import annotations

from collections.abc import Mapping

from socialpub.base import json_codec
from socialpub.domain import post_states
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.preconditions import compute_tag
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import batch_log, drafts, edits, post_log
from socialpub.web.dashboard.parts import edited_content
from socialpub.web.dashboard.parts.compose_form import FieldMessages
from socialpub.web.dashboard.parts.edited_content import EditedItem


def load(scope: Scope, named: Mapping[str, str]) -> EditedItem | None:
    """Load the item that a form or address names as `draft` or `post`; None without one.

    Raises ApiError `not_found`.
    """
    if draft := named.get("draft"):
        return _load_draft(scope, draft)
    post = named.get("post")
    return _load_post(scope, post) if post else None


def _load_draft(scope: Scope, draft: str) -> EditedItem:
    body = drafts.load_body(scope, draft)
    return EditedItem("draft", draft, compute_tag(drafts.encode(body)), body["status"], body["content"])


def _load_post(scope: Scope, post: str) -> EditedItem:
    shown = post_log.load_detail(scope, post)
    content = json_codec.loads(shown)
    row = post_log.find(scope, post)
    is_waiting = post_states.is_waiting_piece(row)
    sharing = 0 if is_waiting else batch_log.count_sharing(scope, row)
    account, status = content["accountId"], content["status"]
    return EditedItem(
        "post", post, compute_tag(shown), status, content, account, is_waiting=is_waiting, sharing=sharing
    )


def fill_form(item: EditedItem, zone: str) -> tuple[dict[str, str], FieldMessages]:
    """Return the fields of the form for an item, and notes on what it keeps but does not show."""
    if item.kind == "post" and item.status != "queued":
        return {}, {}
    fields, notes = (
        edited_content.read_draft(item.content, zone) if item.kind == "draft" else edited_content.read_post(item, zone)
    )
    return {name: value for name, value in fields.items() if value}, notes


def is_open(service: AppContext, item: EditedItem, scope: Scope) -> bool:
    """Return whether the item can still be changed."""
    if item.kind == "draft":
        return item.status != "published"
    return edits.is_editable(service, post_log.find(scope, item.id))


def find_page(item: EditedItem) -> str:
    """Return the address of the item's own page."""
    return f"/{item.kind}s/{item.id}"


def explain_closed(item: EditedItem) -> str:
    """Return why the item cannot be changed."""
    if item.kind == "draft":
        return "This draft was published. You can copy its posts to a new one."
    return "Only a scheduled post that is not due yet can be changed."

"""A form of the composer as a request of the API."""

from __future__ import annotations

from typing import Any, NamedTuple

from socialpub.domain.accounts import accounts
from socialpub.domain.media import library
from socialpub.store.rows import AccountRow, MediaRow
from socialpub.web.dashboard.compose.form_data import Form
from socialpub.web.dashboard.parts import compose_form, edited_content, edited_items
from socialpub.web.dashboard.parts.edited_content import EditedItem
from socialpub.web.http.handler import RequestContext


class FormRows(NamedTuple):
    """Rows that a form names."""

    accounts: dict[str, AccountRow]
    media: dict[str, MediaRow]
    item: EditedItem | None


async def read_rows(call: RequestContext, given: Form) -> FormRows:
    """Read what the form names. Raises ApiError `not_found` for an unknown draft or post."""

    def read() -> FormRows:
        named = set(compose_form.list_accounts(given))
        rows = {row["id"]: row for row in accounts.list_rows(call.scope) if row["id"] in named}
        held = library.load_all(call.scope, set(compose_form.list_media(given)))
        return FormRows(rows, held, edited_items.load(call.scope, given))

    return await call.service.read(read)


async def build_request(call: RequestContext, given: Form, found: FormRows | None = None) -> dict[str, Any]:
    """Return the form as the body of a publish request, with what its draft keeps."""
    rows = found or await read_rows(call, given)
    before = rows.item.content.get("scheduledAt") if rows.item else None
    request = compose_form.to_request(given, rows.accounts, rows.media, call.service.now_ms, before)
    if rows.item is None:
        return request
    return edited_content.merge(request, rows.item.content) if rows.item.kind == "draft" else request

"""Rows and fields that a page of the composer shows, read in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import account_groups, accounts
from socialpub.domain.identity import dashboard_session
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media import library
from socialpub.domain.posts import slots
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.media import MediaQuery
from socialpub.store.rows import AccountRow, MediaRow
from socialpub.web.dashboard import media
from socialpub.web.dashboard.parts import compose_form, edited_items, thread_pieces
from socialpub.web.dashboard.parts.edited_content import EditedItem
from socialpub.web.http.handler import RequestContext

COMPOSE_PATH = "/compose"
BODY_MAX = 512 * 1024
ACCOUNTS_SHOWN_MAX = 100
FIELDS_MAX = 2500
"""The most accounts on a page, and the most fields of its form: each account has several."""
RECENT_FILES_MAX = 12
Form = dict[str, str]


@dataclass(frozen=True)
class ComposeData:
    """The rows and fields that a page of the form shows."""

    session: DashboardSession
    form: Form
    accounts: list[AccountRow]
    hidden: int  # accounts left out of the page
    chosen: dict[str, MediaRow | None]  # by name in the form; None for a file elsewhere
    library_files: list[dict[str, Any]]
    item: EditedItem | None  # what the form changes; None: a new post
    slots: list[dict[str, Any]]  # next free slot of each profile of the accounts
    groups: dict[str, list[str]]  # ids of the accounts of each group that are on the page
    customized: set[str]  # ids of accounts whose own fields the form has, whether they are chosen or not
    has_lost_draft: bool  # the draft of the form was deleted; the form is now that of a new post


def load(call: RequestContext, given: Form) -> ComposeData:
    """Load the data of the page. Call it in a read transaction."""
    session = dashboard_session.load_current(call.scope)
    groups = account_groups.load(call.scope.organization)
    typed = _start_form(call, given, groups)
    item, has_lost_draft = _load_item(call, typed)
    if has_lost_draft:
        typed = {name: value for name, value in typed.items() if name not in ("draft", "seen", "was")}
    named = set(compose_form.list_accounts(typed))
    rows = [row for row in accounts.list_rows(call.scope) if row["id"] in named or _is_in_profile(session, row)]
    if item is not None and item.account:
        rows = [row for row in rows if row["id"] == item.account]
    rows.sort(key=lambda row: row["id"] not in named)
    shown = sorted(rows[:ACCOUNTS_SHOWN_MAX], key=lambda row: (row["platform"], row["created_at"], row["id"]))
    if item is None and call.route.method == "GET" and not any(name.startswith("to.") for name in typed):
        typed |= _preselect(shown)
    if item is not None:
        typed = {"seen": item.tag, **typed, item.kind: item.id}
    typed = thread_pieces.arrange(typed, compose_form.list_media(typed))
    ids = compose_form.list_media({name: value for name, value in typed.items() if name.startswith("media.")})
    held = library.load_all(call.scope, set(ids))
    query = validation.parse_object(MediaQuery, {"limit": RECENT_FILES_MAX})
    listed = library.load_page(call.service, session.scope, query)["data"]
    return ComposeData(
        session,
        typed,
        shown,
        len(rows) - len(shown),
        {each: held.get(each) for each in ids if each in held or compose_form.parse_link(each)},
        [media.to_view(body) for body in listed if body["id"] not in ids],
        item,
        [] if item is not None and item.account else _load_slots(call, shown),
        _list_groups(groups, shown),
        {name.partition(".")[0] for name in typed} | {typed.get("customize", ""), typed.get("boards", "")},
        has_lost_draft,
    )


def _load_item(call: RequestContext, typed: Form) -> tuple[EditedItem | None, bool]:
    """Load what the form or the address names, and whether the form names a deleted draft.

    Raises ApiError `not_found` for anything else that does not exist.
    """
    named = {name: typed.get(name) or call.request.args.get(name) or "" for name in ("draft", "post")}
    try:
        return edited_items.load(call.scope, named), False
    except ApiError as error:
        if error.code != "not_found" or not typed.get("draft"):
            raise
        return None, True


def _start_form(call: RequestContext, given: Form, groups: Mapping[str, Sequence[str]]) -> Form:
    """Return the form as given, or as kept at sign-in.

    Where a `group` was pressed, its accounts alone are chosen.
    """
    form = given
    if not form and call.request.args.get("kept"):
        form = dashboard_session.load_saved_form(call.scope, COMPOSE_PATH)
    if not (group := groups.get(form.get("group", ""))):
        return form
    others = {name: value for name, value in form.items() if not name.startswith("to.")}
    return others | {f"to.{id}": "yes" for id in group}


def _list_groups(groups: Mapping[str, Sequence[str]], rows: Sequence[AccountRow]) -> dict[str, list[str]]:
    """Return the groups with accounts among these, by name, with those."""
    shown = {row["id"] for row in rows}
    found = {name: [id for id in ids if id in shown] for name, ids in sorted(groups.items())}
    return {name: ids for name, ids in found.items() if ids}


def _load_slots(call: RequestContext, rows: Sequence[AccountRow]) -> list[dict[str, Any]]:
    """Load the next free slot of each profile that has slots."""
    profiles = dict.fromkeys(row["profile"] for row in rows)
    bodies = [slots.load_body(call.service, replace(call.scope, profile=profile)) for profile in profiles]
    return [dict(body) for body in bodies if body["weekly"]]


def _is_in_profile(session: DashboardSession, row: AccountRow) -> bool:
    return session.scope.profile in (None, row["profile"])


def _preselect(rows: Sequence[AccountRow]) -> Form:
    """Return a new form's preselected accounts: the only one, if there is one."""
    return {f"to.{rows[0]['id']}": "yes"} if len(rows) == 1 and rows[0]["status"] != "revoked" else {}

"""Accounts: their status, connecting again, disconnecting, and boards."""

from __future__ import annotations

import json
from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.accounts import accounts, apps, boards, connect
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import post_log
from socialpub.domain.schemas.accounts import AccountBody
from socialpub.domain.schemas.posts import PostsQuery
from socialpub.platforms.contract import Board
from socialpub.store.rows import AccountRow
from socialpub.web.api.accounts import fetch_boards
from socialpub.web.dashboard.parts.layout import keep_form, redirect_with_flash, require_proof, show
from socialpub.web.dashboard.posts import to_view
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

FAILURES_SHOWN = 5


async def list_accounts(call: RequestContext) -> HandlerResponse:
    """GET /accounts."""

    def read(session: DashboardSession) -> dict[str, Any]:
        rows = accounts.list_bodies(session.scope)
        rows.sort(key=_rank)
        return {"accounts": rows, "sets_up": apps.may_manage(call.scope)}

    return await show(
        call,
        "accounts/list.html",
        read,
        platforms=platforms.PLATFORMS,
        ready=[name for name in platforms.PLATFORMS if connect.is_ready(call.service, name)],
    )


def _rank(row: AccountBody) -> int:
    """Return the place of an account in the list: those that cannot publish come first."""
    return {"revoked": 0, "expiring": 1, "active": 1 if "attention" in row else 2}[row["status"]]


async def read(call: RequestContext) -> HandlerResponse:
    """GET /accounts/{id}: status, recent posts and problems."""

    def found(_: DashboardSession) -> dict[str, Any]:
        row = accounts.find(call.scope, call.path_value("account_id"))
        return {
            "account": accounts.to_body(row),
            "standing": accounts.load_detail(call.service, row),
            "waiting": accounts.count_queued(call.service, call.scope, row["id"]),
            "has_boards": boards.has_boards(row["platform"]),
            "board": boards.find_default_name(row),
            "last": _posts(call, row["id"], ["published"], 1),
            "failures": _posts(call, row["id"], ["failed", "rejected"], FAILURES_SHOWN),
        }

    ready = [name for name in platforms.PLATFORMS if connect.is_ready(call.service, name)]
    return await show(call, "accounts/account.html", found, platforms=platforms.PLATFORMS, ready=ready)


def _posts(call: RequestContext, account: str, states: list[str], most: int) -> list[dict[str, Any]]:
    """Return the account's newest posts in these states."""
    query = PostsQuery.model_validate({"accountId": account, "status": states, "limit": most})
    posts = json.loads(post_log.load_page(call.service, call.scope, query))["data"]
    return [to_view(post, call.service.now_ms) for post in posts]


async def confirm_disconnect(call: RequestContext) -> HandlerResponse:
    """GET /accounts/{id}/disconnect: the effects, and a choice for its queued posts."""

    def read(_: DashboardSession) -> dict[str, Any]:
        account = accounts.get_body(call.scope, call.path_value("account_id"))
        return {"account": account, "waiting": accounts.count_queued(call.service, call.scope, account["id"])}

    return await show(call, "accounts/disconnect.html", read, platforms=platforms.PLATFORMS)


async def disconnect(call: RequestContext) -> HandlerResponse:
    """POST /accounts/{id}/disconnect: `posts=cancel` cancels the queued posts."""
    form = forms.parse(call)
    cancel = form.get("posts") == "cancel"
    try:
        await require_proof(call, form)
        await actions.perform(call.actor, connect.disconnect, call.path_value("account_id"), keep=not cancel)
    except ApiError as error:
        if error.rule != "session.proof" and error.code != "rate_limited":
            raise
        return await confirm_disconnect(keep_form(call, error, form))
    outcome = "Its scheduled posts are canceled." if cancel else "Its posts stay scheduled until you reconnect it."
    return redirect_with_flash(call, "/accounts", f"Account disconnected. {outcome}")


# --- Boards ------------------------------------------------------------------------------------------------------


async def show_boards(call: RequestContext) -> HandlerResponse:
    """GET /accounts/{id}/board: the platform's current boards, to choose one from."""
    row = await _row(call)
    try:
        found = await fetch_boards(call, row)
    except ApiError as error:
        if error.rule == "account.platform":
            raise
        return await _boards_page(keep_form(call, error), row, ())
    return await _boards_page(call, row, found)


async def _row(call: RequestContext) -> AccountRow:
    return await call.service.read(lambda: accounts.find(call.scope, call.path_value("account_id")))


async def _boards_page(call: RequestContext, row: AccountRow, found: tuple[Board, ...]) -> HandlerResponse:
    return await show(
        call,
        "accounts/board.html",
        account=accounts.to_body(row),
        boards=[board for board in found if board.pinnable],
        chosen=boards.to_body(row, found)["defaultBoardId"] or "",
        platforms=platforms.PLATFORMS,
    )


async def choose_board(call: RequestContext) -> HandlerResponse:
    """POST /accounts/{id}/board: `board`."""
    row = await _row(call)
    found: tuple[Board, ...] = ()
    try:
        found = await fetch_boards(call, row)
        board = boards.find_board(found, forms.parse(call).get("board", ""))
    except ApiError as error:
        if error.rule == "account.platform":
            raise
        return await _boards_page(keep_form(call, error), row, found)
    await actions.perform(call.actor, boards.set_default, row["id"], board)
    return redirect_with_flash(
        call, f"/accounts/{row['id']}", f"Posts that do not name a board now go to “{board.name}”."
    )

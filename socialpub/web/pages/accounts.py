"""The accounts of an organization: their state and its reason, connecting them again, disconnecting them."""

from __future__ import annotations

from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.accounts import accounts, apps, connect
from socialpub.domain.people.desk import Desk
from socialpub.web import forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages.inside import prove, show, tell


async def listing(call: Call) -> Reply:
    """GET /accounts."""
    return await show(
        call,
        "accounts/list.html",
        lambda desk: {"accounts": accounts.list_bodies(desk.scope), "sets_up": apps.may_manage(call.scope)},
        platforms=platforms.PLATFORMS,
        ready=[name for name in platforms.PLATFORMS if connect.is_ready(call.service, name)],
    )


async def ask_disconnect(call: Call) -> Reply:
    """GET /accounts/{id}/disconnect: what will happen, and the choice of what becomes of the posts that wait."""
    return await _ask(call)


async def _ask(call: Call, problem: str = "", status: int = 200) -> Reply:
    def read(_: Desk) -> dict[str, Any]:
        account = accounts.get_body(call.scope, call.path_value("account_id"))
        return {"account": account, "waiting": accounts.waiting(call.service, call.scope, account["id"])}

    return await show(
        call, "accounts/disconnect.html", read, status=status, problem=problem, platforms=platforms.PLATFORMS
    )


async def disconnect(call: Call) -> Reply:
    """POST /accounts/{id}/disconnect: `posts` is `cancel` to cancel those that wait, else they are kept."""
    form = forms.fields(call)
    cancel = form.get("posts") == "cancel"
    try:
        await prove(call, form)
        await act.do(call.who, connect.disconnect, call.path_value("account_id"), keep=not cancel)
    except ApiError as error:
        if error.rule != "session.proof" and error.code != "rate_limited":
            raise
        return await _ask(call, error.message, error.status)
    kept = "Posts that waited for it are canceled." if cancel else "Its posts wait until it is connected again."
    return tell(call, "/accounts", f"The account is disconnected. {kept}")

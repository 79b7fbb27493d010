"""The members of the organization: who they are, inviting them, what each may do, and removing them."""

from __future__ import annotations

import asyncio
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.notifications import invitations
from socialpub.domain.people import desk as desks
from socialpub.domain.people import members
from socialpub.domain.people.desk import Desk
from socialpub.web import forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages.inside import prove, said, see, show, tell

MEMBERS = "/settings/members"
ROLES = {
    "owner": "Owner: full access, including members",
    "admin": "Admin: also manages accounts, keys, profiles and webhooks",
    "member": "Member: views and writes posts",
}


async def listing(call: Call) -> Reply:
    """GET /settings/members."""
    return await _listing(call)


async def _listing(call: Call, form: dict[str, str] | None = None, problem: str = "", status: int = 200) -> Reply:
    def read(_: Desk) -> dict[str, Any]:
        return {
            "members": members.listed(call.scope),
            "invitations": members.invitations(call.scope, call.service.now_ms),
            **({"filled": form} if form else {}),
        }

    roles = list(reversed(ROLES.items()))
    mails = invitations.share_of(call.service, call.scope.organization) is not None
    shown: dict[str, Any] = {"roles": roles, "me": call.scope.user, "mails": mails}
    return await show(call, "settings/members.html", read, status=status, problem=problem, **shown)


async def invite(call: Call) -> Reply:
    """POST /settings/members: the page that is seen next shows the link, once."""
    form = forms.fields(call)
    try:
        await prove(call, form)
        made = await act.do(call.who, members.invite, form.get("email", ""), form.get("role", ""))
    except ApiError as error:
        return await _listing(call, form, said(error), error.status)
    link = f"{call.service.base_url}/invited/{made['token']}"
    words = await _mailed(call, str(made["email"]), link)
    return tell(call, MEMBERS, f"{words} It works once, within a week, for anyone who has it.", secret=link)


async def _mailed(call: Call, to: str, link: str) -> str:
    """What is left to do with the link: nothing, once a mail server has taken it."""
    service, scope = call.service, call.scope
    share = invitations.share_of(service, scope.organization)
    if share is None:
        return f"Send this link to {to}."
    found = await service.read(lambda: desks.of(scope))
    by, house = (found.email, found.organization) if found else ("A member", "an organization")
    sending = service.executors.delivering.of(share)
    wrong = await asyncio.get_running_loop().run_in_executor(sending, invitations.send, service, to, by, house, link)
    return f"The link was mailed to {to}." if wrong is None else f"The e-mail failed: {wrong} Send the link to {to}."


async def withdraw(call: Call) -> Reply:
    """POST /settings/invitations/{id}/withdraw."""
    await act.do(call.who, members.withdraw, call.path_value("invitation_id"))
    return tell(call, MEMBERS, "Invitation withdrawn. Its link no longer works.")


async def read(call: Call) -> Reply:
    """GET /settings/members/{id}: their role, and removing them."""
    return await _read(call)


async def _read(call: Call, problem: str = "", status: int = 200) -> Reply:
    member = call.path_value("member_id")

    def look(_: Desk) -> dict[str, Any]:
        return {"member": members.one(call.scope, member), "last": members.is_last_owner(call.scope, member)}

    roles, mine = list(ROLES.items()), member == call.scope.user
    return await show(call, "settings/member.html", look, status=status, problem=problem, roles=roles, mine=mine)


async def change_role(call: Call) -> Reply:
    """POST /settings/members/{id}."""
    form = forms.fields(call)
    try:
        await prove(call, form)
        made = await act.do(call.who, members.change_role, call.path_value("member_id"), form.get("role", ""))
    except ApiError as error:
        return await _read(call, said(error), error.status)
    if call.path_value("member_id") == call.scope.user:
        return see("/settings")  # where whatever they are now may look
    return tell(call, MEMBERS, f"{made['email']} now has the role {made['role']}.")


async def remove(call: Call) -> Reply:
    """POST /settings/members/{id}/remove."""
    try:
        await prove(call, forms.fields(call))
        made = await act.do(call.who, members.remove, call.path_value("member_id"))
    except ApiError as error:
        return await _read(call, said(error), error.status)
    return tell(call, MEMBERS, f"{made['email']} is no longer a member and was signed out everywhere.")

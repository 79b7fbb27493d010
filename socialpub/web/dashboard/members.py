"""Members of the organization: list, invite, change roles and remove."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.delivery.notifications import invitations
from socialpub.domain.identity import dashboard_session, members
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.web.dashboard.parts.layout import (
    keep_form,
    redirect,
    redirect_signed_out,
    redirect_with_flash,
    require_form_error,
    require_proof,
    show,
)
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext

MEMBERS_PATH = "/settings/members"
ROLES = {
    "owner": "Owner: everything, including members",
    "admin": "Admin: also accounts, keys and webhooks",
    "member": "Member: writes and publishes posts",
    "author": "Author: writes drafts others publish",
}


async def list_members(call: RequestContext) -> HandlerResponse:
    """GET /settings/members."""

    def read(_: DashboardSession) -> dict[str, Any]:
        return {
            "members": members.list_members(call.scope),
            "invitations": members.list_invitations(call.scope, call.service.now_ms),
        }

    roles = list(reversed(ROLES.items()))
    mails = invitations.get_share_key(call.service, call.scope.organization) is not None
    shown: dict[str, Any] = {"roles": roles, "me": call.scope.user, "mails": mails}
    return await show(call, "settings/members.html", read, **shown)


async def invite(call: RequestContext) -> HandlerResponse:
    """POST /settings/members: the next page shows the invitation link once."""
    form = forms.parse(call)
    try:
        await require_proof(call, form)
        made = await actions.perform(call.actor, members.invite, form.get("email", ""), form.get("role", ""))
    except ApiError as error:
        return await list_members(keep_form(call, require_form_error(error), form))
    link = f"{call.service.base_url}/invited/{made['token']}"
    words = await _mail_link(call, str(made["email"]), link)
    return redirect_with_flash(
        call, MEMBERS_PATH, f"{words} It works once, within a week, for anyone who has it.", secret=link
    )


async def _mail_link(call: RequestContext, to: str, link: str) -> str:
    """Send the link by e-mail if possible. Return what is left for the user to do."""
    service, scope = call.service, call.scope
    share = invitations.get_share_key(service, scope.organization)
    if share is None:
        return f"Send this link to {to}."
    found = await service.read(lambda: dashboard_session.load(scope))
    inviter, organization_name = (found.email, found.organization) if found else ("A member", "an organization")
    failure = await service.executors.delivering.run(
        share, invitations.send, service, to, inviter, organization_name, link
    )
    return (
        f"The link was mailed to {to}." if failure is None else f"The e-mail failed: {failure} Send the link to {to}."
    )


async def withdraw(call: RequestContext) -> HandlerResponse:
    """POST /settings/invitations/{id}/withdraw."""
    await actions.perform(call.actor, members.withdraw_invitation, call.path_value("invitation_id"))
    return redirect_with_flash(call, MEMBERS_PATH, "Invitation withdrawn. Its link no longer works.")


async def read(call: RequestContext) -> HandlerResponse:
    """GET /settings/members/{id}: the role, and removing the member."""
    member = call.path_value("member_id")

    def read_member(_: DashboardSession) -> dict[str, Any]:
        return {"member": members.get_member(call.scope, member), "last": members.is_last_owner(call.scope, member)}

    roles, mine = list(ROLES.items()), member == call.scope.user
    return await show(call, "settings/member.html", read_member, roles=roles, mine=mine)


async def change_role(call: RequestContext) -> HandlerResponse:
    """POST /settings/members/{id}."""
    form = forms.parse(call)
    try:
        await require_proof(call, form)
        made = await actions.perform(
            call.actor, members.change_role, call.path_value("member_id"), form.get("role", "")
        )
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error), form))
    if call.path_value("member_id") == call.scope.user:
        return redirect("/settings")  # every role may open this page
    return redirect_with_flash(call, MEMBERS_PATH, f"{made['email']} now has the role {made['role']}.")


async def remove(call: RequestContext) -> HandlerResponse:
    """POST /settings/members/{id}/remove."""
    try:
        await require_proof(call, forms.parse(call))
        made = await actions.perform(call.actor, members.remove, call.path_value("member_id"))
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error)))
    words = f"{made['email']} is no longer a member and was signed out everywhere."
    if call.path_value("member_id") == call.scope.user:
        return redirect_signed_out(call, words, request_headers.SESSION_COOKIE, request_headers.DEVICE_COOKIE)
    return redirect_with_flash(call, MEMBERS_PATH, words)

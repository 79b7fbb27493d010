"""The organization: its name, and deleting it on a page that first says what that ends."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain import act, organizations
from socialpub.domain.people import profiles
from socialpub.domain.people.desk import Desk
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.common import ORGANIZATION_MAX
from socialpub.domain.shapes.profiles import OrganizationRequest
from socialpub.web import edge, forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages.inside import prove, said, show, tell, tell_signed_out

ORGANIZATION = "/settings/organization"


async def read(call: Call) -> Reply:
    """GET /settings/organization."""
    return await show(call, "settings/organization.html", problem="", most=ORGANIZATION_MAX)


async def rename(call: Call) -> Reply:
    """POST /settings/organization: `name`."""
    form = forms.fields(call)
    try:
        request = issues.parse_object(OrganizationRequest, {"name": form.get("name", "")})
        await act.do(call.who, profiles.rename_organization, request)
    except ApiError as error:
        words = f"The name must have 1 to {ORGANIZATION_MAX} characters."
        problem = words if error.rule == "name" else said(error)
        shown: dict[str, Any] = {"problem": problem, "filled": form, "most": ORGANIZATION_MAX}
        return await show(call, "settings/organization.html", status=error.status, **shown)
    return tell(call, ORGANIZATION, "Organization renamed.")


async def ask_delete(call: Call) -> Reply:
    """GET /settings/organization/delete: what that ends."""
    return await _ask_delete(call)


async def _ask_delete(call: Call, problem: str = "", status: int = 200) -> Reply:
    def look(_: Desk) -> dict[str, Any]:
        planned = organizations.plan(call.service, call.scope.organization)
        return {"plan": planned, "lines": organizations.lines(planned["ends"])}

    return await show(call, "settings/organization_delete.html", look, status=status, problem=problem)


async def delete(call: Call) -> Reply:
    """POST /settings/organization/delete: `confirm`, the name of the organization."""
    form = forms.fields(call)
    try:
        await prove(call, form)
        deleted = await act.do(call.who, organizations.delete, form.get("confirm", ""))
    except ApiError as error:
        return await _ask_delete(call, said(error), error.status)
    text = f"The organization {deleted['name']} was deleted, and you are signed out."
    return tell_signed_out(call, text, edge.SESSION_COOKIE, edge.DEVICE_COOKIE)

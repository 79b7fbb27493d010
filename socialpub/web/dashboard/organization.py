"""The organization: its name, and deleting it."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain import organization_deletion
from socialpub.domain.access import actions
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import ORGANIZATION_MAX
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.web.dashboard.parts.layout import (
    keep_form,
    redirect_signed_out,
    redirect_with_flash,
    require_form_error,
    require_proof,
    show,
)
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext

ORGANIZATION_PATH = "/settings/organization"


async def read(call: RequestContext) -> HandlerResponse:
    """GET /settings/organization."""
    return await show(call, "settings/organization.html", most=ORGANIZATION_MAX)


async def rename(call: RequestContext) -> HandlerResponse:
    """POST /settings/organization: `name`."""
    form = forms.parse(call)
    try:
        request = validation.parse_object(OrganizationRequest, {"name": form.get("name", "")})
        await actions.perform(call.actor, profiles.rename_organization, request)
    except ApiError as error:
        if require_form_error(error).rule == "name":
            error.message = f"The name must have 1 to {ORGANIZATION_MAX} characters."
        return await read(keep_form(call, error, form))
    return redirect_with_flash(call, ORGANIZATION_PATH, "Organization renamed.")


async def confirm_delete(call: RequestContext) -> HandlerResponse:
    """GET /settings/organization/delete: the effects."""

    def read(_: DashboardSession) -> dict[str, Any]:
        planned = organization_deletion.plan_deletion(call.service, call.scope.organization)
        return {"plan": planned, "lines": organization_deletion.format_lines(planned["ends"])}

    return await show(call, "settings/organization_delete.html", read)


async def delete(call: RequestContext) -> HandlerResponse:
    """POST /settings/organization/delete: `confirm`, the name of the organization."""
    form = forms.parse(call)
    try:
        await require_proof(call, form)
        deleted = await actions.perform(call.actor, organization_deletion.delete, form.get("confirm", ""))
    except ApiError as error:
        return await confirm_delete(keep_form(call, require_form_error(error), form))
    text = f"The organization {deleted['name']} was deleted, and you are signed out."
    return redirect_signed_out(call, text, request_headers.SESSION_COOKIE, request_headers.DEVICE_COOKIE)

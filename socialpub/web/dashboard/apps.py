"""Platform apps: the ids and secrets of this server's registrations at the platforms.

A secret is write-only: typed in, sealed, used, and never shown again.
"""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.accounts import apps, connect
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.apps import ID_MAX, SECRET_MAX, AppRequest
from socialpub.platforms.contract import Platform
from socialpub.web.dashboard.parts.layout import keep_form, redirect_with_flash, require_form_error, require_proof, show
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

APPS_PATH = "/settings/apps"


async def list_apps(call: RequestContext) -> HandlerResponse:
    """GET /settings/apps."""

    def read(_: DashboardSession) -> dict[str, Any]:
        mine = apps.may_manage(call.scope)
        return {"mine": mine, "apps": apps.list_apps(call.service) if mine else []}

    return await show(call, "apps/list.html", read, sites=call.service.sites)


def _platform(call: RequestContext) -> Platform:
    return apps.get_platform(call.path_value("platform"))


async def show_form(call: RequestContext) -> HandlerResponse:
    """GET /settings/apps/{platform}: instructions for the platform's console, and the form."""
    platform = _platform(call)

    def read(_: DashboardSession) -> dict[str, Any]:
        apps.check_may_manage(call.scope)
        return {
            "app": apps.get_app(call.service, platform),
            "connected": apps.count_accounts(call.scope, platform),
        }

    return await show(
        call,
        "apps/app.html",
        read,
        platform=platform,
        remedy=call.form_error.remediation if call.form_error else "",
        redirect_uri=connect.build_redirect_uri(call.service, platform),
        site=call.service.sites[platform.name],
        id_max=ID_MAX,
        secret_max=SECRET_MAX,
    )


async def save(call: RequestContext) -> HandlerResponse:
    """POST /settings/apps/{platform}: used from now on, unless the platform rejects it."""
    platform, given = _platform(call), forms.parse(call)
    typed = {"client_id": given.get("client_id", "").strip()}
    try:
        await call.service.read(lambda: apps.check_changeable(call.actor, platform.name))
        await require_proof(call, given)
        app = validation.parse_object(
            AppRequest, {"clientId": typed["client_id"], "clientSecret": given.get("client_secret", "").strip()}
        )
        checked = await apps.check_app(call.service, call.scope, platform, app)
        await actions.perform(call.actor, apps.save, platform.name, app, is_known=checked.is_known)
    except ApiError as error:
        error.message = _explain_error(platform, require_form_error(error))
        return await show_form(keep_form(call, error, typed))
    return redirect_with_flash(call, f"{APPS_PATH}/{platform.name}", f"App saved. {checked.message}")


def _explain_error(platform: Platform, error: ApiError) -> str:
    console = platform.console
    assert console is not None, "an app is registered there"
    if error.rule == "clientId":
        return f"{console.id_name} must have 1 to {ID_MAX} characters and no spaces."
    if error.rule == "clientSecret":
        return f"{console.secret_name} must have 1 to {SECRET_MAX} characters and no spaces."
    return error.message


async def check(call: RequestContext) -> HandlerResponse:
    """POST /settings/apps/{platform}/check: verify the app, or that of the settings."""
    platform = _platform(call)
    await call.service.read(lambda: apps.check_may_manage(call.scope))
    app = await call.service.read(lambda: apps.get_app(call.service, platform))
    if not app.is_usable:
        raise ApiError("not_found", f"No {platform.label} app is set up.")
    try:
        checked = await apps.check_app(call.service, call.scope, platform)
    except ApiError as error:
        if error.code != "platform_not_enabled":
            raise
        return redirect_with_flash(call, f"{APPS_PATH}/{platform.name}", error.message, good=False)
    if checked.is_known and not app.in_settings:
        await actions.perform(call.actor, apps.mark_confirmed, platform.name, app.client_id)
    return redirect_with_flash(call, f"{APPS_PATH}/{platform.name}", checked.message, good=checked.is_known)


async def confirm_remove(call: RequestContext) -> HandlerResponse:
    """GET /settings/apps/{platform}/remove: the effects."""
    platform = _platform(call)

    def read(_: DashboardSession) -> dict[str, Any]:
        apps.check_may_manage(call.scope)
        app = apps.get_app(call.service, platform)
        if app.entered_at is None:
            raise ApiError("not_found", "No app was entered for this platform.")
        return {"app": app, "connected": apps.count_accounts(call.scope, platform)}

    return await show(call, "apps/remove.html", read, platform=platform)


async def remove(call: RequestContext) -> HandlerResponse:
    """POST /settings/apps/{platform}/remove."""
    platform = _platform(call)
    try:
        await call.service.read(lambda: apps.check_changeable(call.actor, platform.name))
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, apps.remove, platform.name)
    except ApiError as error:
        if error.rule != "session.proof" and error.code != "rate_limited":
            raise
        return await confirm_remove(keep_form(call, error))
    return redirect_with_flash(call, APPS_PATH, f"{platform.label} app removed.")

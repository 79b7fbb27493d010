"""Settings: the user's own, the organization's profiles, and its API keys."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from socialpub.base import key_scopes
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.base.time_zones import list_zones
from socialpub.domain import organization_deletion
from socialpub.domain.access import actions, authentication
from socialpub.domain.identity import api_keys, dashboard_session, sessions, totp, users
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import slots
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.profiles import ProfileRequest
from socialpub.domain.schemas.slots import Day, SlotsRequest
from socialpub.web.dashboard.parts import key_form, user_agents
from socialpub.web.dashboard.parts.layout import (
    keep_form,
    redirect,
    redirect_with_flash,
    require_form_error,
    require_password,
    require_proof,
    show,
)
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

OWN_PATH, KEYS_PATH, PROFILES_PATH = "/settings", "/settings/keys", "/settings/profiles"
WEEKDAYS: dict[str, str] = dict(zip(get_args(Day), calendar.day_name, strict=True))
"""The fields of the form of slots, and their labels."""

# --- The user ----------------------------------------------------------------------------------------------------


async def choose_profile(call: RequestContext) -> HandlerResponse:
    """POST /profile: return to the open page in this profile."""
    form = forms.parse(call)
    await actions.perform(call.actor, dashboard_session.select_profile, form.get("profile") or None)
    return redirect(forms.to_local_path(form.get("page")))


async def show_own(call: RequestContext) -> HandlerResponse:
    """GET /settings."""

    def read(_: DashboardSession) -> dict[str, Any]:
        return {
            "totp": totp.is_enabled(call.scope),
            "sessions": [(each, user_agents.describe(each.agent)) for each in sessions.list_sessions(call.actor)],
        }

    zones = [("", "Time zone of my browser"), *((name, name) for name in list_zones())]
    least = users.PASSWORD_MIN
    return await show(call, "settings/you.html", read, zones=zones, least=least)


async def choose_zone(call: RequestContext) -> HandlerResponse:
    """POST /settings/zone."""
    await actions.perform(call.actor, dashboard_session.set_zone, forms.parse(call).get("zone") or None)
    return redirect_with_flash(call, OWN_PATH, "Time zone saved.")


async def change_password(call: RequestContext) -> HandlerResponse:
    """POST /settings/password: `password` (the current one) and `new_password`."""
    form = forms.parse(call)
    try:
        await require_password(call, form)
        hash_ = await users.hash_password_in_pool(form.get("new_password", ""))
        await actions.perform(call.actor, users.change_password, hash_)
    except ApiError as error:
        return await show_own(keep_form(call, _require_form_error(error)))
    return redirect_with_flash(call, OWN_PATH, "Password changed. Every other session is signed out.")


async def end_session(call: RequestContext) -> HandlerResponse:
    """POST /settings/sessions/end: `session`, its name."""
    try:
        await actions.perform(call.actor, sessions.end_one, forms.parse(call).get("session", ""))
    except ApiError as error:
        return redirect_with_flash(call, OWN_PATH, _require_form_error(error).message, good=False)
    return redirect_with_flash(call, OWN_PATH, "Session signed out.")


# --- API keys ----------------------------------------------------------------------------------------------------


async def list_keys(call: RequestContext) -> HandlerResponse:
    """GET /settings/keys."""

    def read(_: DashboardSession) -> dict[str, Any]:
        now = str(format_iso(call.service.now_ms))
        return {
            "keys": [
                (key, key_scopes.describe(key["scopes"]), bool(key["expiresAt"] and key["expiresAt"] <= now))
                for key in api_keys.list_bodies(call.scope.organization)
            ],
            **key_form.read_accounts(call.scope),
        }

    return await show(
        call,
        "settings/keys.html",
        read,
        prefixes=authentication.list_key_prefixes(call.service),
        base_url=call.service.base_url,
        presets=[(preset.name, preset.label) for preset in key_scopes.KEY_PRESETS.values()],
        scopes=[(f"scope.{scope.name}", scope) for scope in key_scopes.KEY_SCOPES.values()],
        lifetimes=[("", "Never"), *key_form.list_lifetimes()],
    )


async def mint_key(call: RequestContext) -> HandlerResponse:
    """POST /settings/keys: the next page shows the key once."""
    form = forms.parse(call)
    preset = key_scopes.KEY_PRESETS.get(form.get("preset", ""))
    ticked = [name for name in key_scopes.ALL_SCOPES if form.get(f"scope.{name}")]
    given = key_form.parse_limits(call, form) | {
        "name": form.get("name", ""),
        "prefix": form.get("prefix"),
        "scopes": ticked or (preset and preset.scopes and [*preset.scopes]),
    }
    try:
        await require_proof(call, form)
        request = validation.parse_object(KeyRequest, {name: value for name, value in given.items() if value})
        minted = await actions.perform(call.actor, api_keys.create, request)
    except ApiError as error:
        return await list_keys(keep_form(call, _require_form_error(error, "A key"), form))
    return redirect_with_flash(call, KEYS_PATH, f"Your new API key “{minted['name']}”", secret=str(minted["key"]))


async def confirm_revoke(call: RequestContext) -> HandlerResponse:
    """GET /settings/keys/{id}/revoke: the effects."""
    key = call.path_value("key_id")
    return await show(call, "settings/revoke.html", lambda _: {"key": api_keys.get_body(call.scope, key)})


async def revoke_key(call: RequestContext) -> HandlerResponse:
    """POST /settings/keys/{id}/revoke."""
    try:
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, api_keys.revoke, call.path_value("key_id"))
    except ApiError as error:
        return await confirm_revoke(keep_form(call, _require_form_error(error)))
    return redirect_with_flash(call, KEYS_PATH, "Key revoked. It no longer works.")


# --- Profiles ----------------------------------------------------------------------------------------------------


async def list_profiles(call: RequestContext) -> HandlerResponse:
    """GET /settings/profiles."""
    return await show(call, "settings/profiles.html")


async def create_profile(call: RequestContext) -> HandlerResponse:
    """POST /settings/profiles."""
    form = forms.parse(call)
    try:
        request = validation.parse_object(ProfileRequest, {"name": form.get("name", "")})
        made = await actions.perform(call.actor, profiles.create, request)
    except ApiError as error:
        return await list_profiles(keep_form(call, _require_form_error(error, "A profile"), form))
    return redirect_with_flash(call, PROFILES_PATH, f"Profile “{made['name']}” created.")


async def edit_profile(call: RequestContext) -> HandlerResponse:
    """GET /settings/profiles/{id}: its name, its slots, and deleting it."""
    profile = call.path_value("profile_id")
    return await show(
        call,
        "settings/profile.html",
        lambda _: {
            "profile": profiles.get_body(call.scope, profile),
            "holds": profiles.count_usage(call.scope, profile),
            "slots": slots.load_body(call.service, replace(call.scope, profile=profile)),
        },
        zones=[(name, name) for name in list_zones()],
        weekdays=WEEKDAYS,
    )


async def rename_profile(call: RequestContext) -> HandlerResponse:
    """POST /settings/profiles/{id}."""
    form = forms.parse(call)
    try:
        request = validation.parse_object(ProfileRequest, {"name": form.get("name", "")})
        await actions.perform(call.actor, profiles.rename, call.path_value("profile_id"), request)
    except ApiError as error:
        return await edit_profile(keep_form(call, _require_form_error(error, "A profile"), form))
    return redirect_with_flash(call, PROFILES_PATH, "Profile renamed.")


def _explain_slots(error: ApiError, days: Sequence[str]) -> str:
    """Return what is wrong with a form of slots; `days`: the name of each slot's day."""
    issues = error.platform_response if isinstance(error.platform_response, list) else [{"path": []}]
    match issues[0]["path"]:
        case ["weekly", int(place), *_]:
            return f"{days[place]}: write times of 24 hours, such as 09:30, with commas between them."
        case ["weekly"]:
            return f"{issues[0]['message']}."
    return error.message


async def define_slots(call: RequestContext) -> HandlerResponse:
    """POST /settings/profiles/{id}/slots: the times of each day, such as `mon=9:30, 17:00`."""
    form, profile = forms.parse(call), call.path_value("profile_id")
    weekly = [
        {"day": day, "time": f"0{time}" if time[1:2] == ":" else time}
        for day in WEEKDAYS
        for time in form.get(day, "").replace(",", " ").split()
    ]
    try:
        fields = {"profileId": profile, "zone": form.get("zone", ""), "weekly": weekly}
        await actions.perform(call.actor, slots.define, validation.parse_object(SlotsRequest, fields))
    except ApiError as error:
        error.message = _explain_slots(require_form_error(error), [WEEKDAYS[slot["day"]] for slot in weekly])
        return await edit_profile(keep_form(call, error, form))
    return redirect_with_flash(call, f"{PROFILES_PATH}/{profile}", "Slots saved. Queued posts keep their times.")


async def delete_profile(call: RequestContext) -> HandlerResponse:
    """POST /settings/profiles/{id}/delete."""
    try:
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, organization_deletion.delete_profile, call.path_value("profile_id"))
    except ApiError as error:
        return await edit_profile(keep_form(call, _require_form_error(error)))
    return redirect_with_flash(call, PROFILES_PATH, "Profile deleted. Its keys are revoked.")


def _require_form_error(error: ApiError, what: str = "") -> ApiError:
    """Return an error in the form's input, also of something not found; raise any other."""
    if error.rule == "name":
        error.message = f"{what} needs a name of 1 to 100 characters."
    return error if error.code == "not_found" else require_form_error(error)

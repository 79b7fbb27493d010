"""The settings: how somebody has the dashboard set up and signs in, the organization's profiles, and its API keys."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.people import desk, keys, profiles, sessions, tenancy, totp, users
from socialpub.domain.people.desk import Desk
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.keys import KeyRequest
from socialpub.domain.shapes.profiles import ProfileRequest
from socialpub.web import forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages import agents
from socialpub.web.pages.inside import give, prove, see, show, tell

YOU, KEYS, PROFILES = "/settings", "/settings/keys", "/settings/profiles"

# --- You ---------------------------------------------------------------------------------------------------------


async def choose_profile(call: Call) -> Reply:
    """POST /profile: back to the page that was open, in this profile."""
    form = forms.fields(call)
    await act.do(call.who, desk.choose_profile, form.get("profile") or None)
    return see(forms.local_path(form.get("page")))


async def you(call: Call) -> Reply:
    """GET /settings."""
    return await _you(call)


async def _you(call: Call, problem: str = "", status: int = 200) -> Reply:
    def read(_: Desk) -> dict[str, Any]:
        return {
            "totp": totp.is_on(call.scope),
            "sessions": [(each, agents.words(each.agent)) for each in sessions.listed(call.who)],
        }

    zones = [("", "Time zone of my browser"), *((name, name) for name in desk.zones())]
    least = users.PASSWORD_MIN
    return await show(call, "settings/you.html", read, status=status, problem=problem, zones=zones, least=least)


async def choose_zone(call: Call) -> Reply:
    """POST /settings/zone."""
    await act.do(call.who, desk.choose_zone, forms.fields(call).get("zone") or None)
    return tell(call, YOU, "Time zone saved.")


async def change_password(call: Call) -> Reply:
    """POST /settings/password: `password`, which counts now, and `new_password`."""
    form = forms.fields(call)
    try:
        await give(call, form)
        hash_ = await users.hashed_aside(form.get("new_password", ""))
        await act.do(call.who, users.change_password, hash_)
    except ApiError as error:
        return await _you(call, _shown(error), error.status)
    return tell(call, YOU, "Password changed. Every other session is signed out.")


async def end_session(call: Call) -> Reply:
    """POST /settings/sessions/end: `session`, its name."""
    try:
        await act.do(call.who, sessions.end_one, forms.fields(call).get("session", ""))
    except ApiError as error:
        return tell(call, YOU, _shown(error), good=False)
    return tell(call, YOU, "Session signed out.")


# --- API keys ----------------------------------------------------------------------------------------------------


async def list_keys(call: Call) -> Reply:
    """GET /settings/keys."""
    return await _keys(call)


async def _keys(call: Call, form: dict[str, str] | None = None, problem: str = "", status: int = 200) -> Reply:
    def read(_: Desk) -> dict[str, Any]:
        return {"keys": keys.listed(call.scope.organization), **({"filled": form} if form else {})}

    prefixes = tenancy.key_prefixes(call.service)
    return await show(call, "settings/keys.html", read, status=status, problem=problem, prefixes=prefixes)


async def mint_key(call: Call) -> Reply:
    """POST /settings/keys: the page that is seen next shows the key, once."""
    form = forms.fields(call)
    given = {"name": form.get("name", ""), "prefix": form.get("prefix"), "profileId": form.get("profile")}
    try:
        await prove(call, form)
        request = issues.parse_object(KeyRequest, {name: value for name, value in given.items() if value})
        minted = await act.do(call.who, keys.mint, request)
    except ApiError as error:
        return await _keys(call, form, _shown(error, "A key"), error.status)
    return tell(call, KEYS, f"Your new API key “{minted['name']}”", secret=str(minted["key"]))


async def ask_revoke(call: Call) -> Reply:
    """GET /settings/keys/{id}/revoke: what will happen."""
    return await _revoke(call)


async def _revoke(call: Call, problem: str = "", status: int = 200) -> Reply:
    key = call.path_value("key_id")
    return await show(
        call, "settings/revoke.html", lambda _: {"key": keys.one(call.scope, key)}, status=status, problem=problem
    )


async def revoke_key(call: Call) -> Reply:
    """POST /settings/keys/{id}/revoke."""
    try:
        await prove(call, forms.fields(call))
        await act.do(call.who, keys.revoke, call.path_value("key_id"))
    except ApiError as error:
        return await _revoke(call, _shown(error), error.status)
    return tell(call, KEYS, "Key revoked. It no longer works.")


# --- Profiles ----------------------------------------------------------------------------------------------------


async def list_profiles(call: Call) -> Reply:
    """GET /settings/profiles."""
    return await show(call, "settings/profiles.html", problem="")


async def create_profile(call: Call) -> Reply:
    """POST /settings/profiles."""
    form = forms.fields(call)
    try:
        request = issues.parse_object(ProfileRequest, {"name": form.get("name", "")})
        made = await act.do(call.who, profiles.create, request)
    except ApiError as error:
        problem = _shown(error, "A profile")
        return await show(call, "settings/profiles.html", status=error.status, problem=problem, filled=form)
    return tell(call, PROFILES, f"Profile “{made['name']}” created.")


async def ask_profile(call: Call) -> Reply:
    """GET /settings/profiles/{id}: its name, and deleting it."""
    return await _profile(call)


async def _profile(call: Call, problem: str = "", status: int = 200) -> Reply:
    profile = call.path_value("profile_id")
    return await show(
        call,
        "settings/profile.html",
        lambda _: {"profile": profiles.one(call.scope, profile), "holds": profiles.holds(call.scope, profile)},
        status=status,
        problem=problem,
    )


async def rename_profile(call: Call) -> Reply:
    """POST /settings/profiles/{id}."""
    try:
        request = issues.parse_object(ProfileRequest, {"name": forms.fields(call).get("name", "")})
        await act.do(call.who, profiles.rename, call.path_value("profile_id"), request)
    except ApiError as error:
        return await _profile(call, _shown(error, "A profile"), error.status)
    return tell(call, PROFILES, "Profile renamed.")


async def delete_profile(call: Call) -> Reply:
    """POST /settings/profiles/{id}/delete."""
    try:
        await prove(call, forms.fields(call))
        await act.do(call.who, profiles.delete, call.path_value("profile_id"))
    except ApiError as error:
        return await _profile(call, _shown(error), error.status)
    return tell(call, PROFILES, "Profile deleted. Its keys are revoked.")


def _shown(error: ApiError, what: str = "") -> str:
    """What was wrong, for the page again; what is no matter of the form is raised on."""
    if error.code == "unauthenticated" or (error.code == "unauthorized" and error.rule != "session.proof"):
        raise error
    return f"{what} needs a name of 1 to 100 characters." if error.rule == "name" else error.message

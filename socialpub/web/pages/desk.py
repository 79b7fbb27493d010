"""How somebody has the dashboard set up: the profile that they are in, and their time zone."""

from __future__ import annotations

from socialpub.domain import act
from socialpub.domain.people import desk
from socialpub.web import forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages import inside


async def choose_profile(call: Call) -> Reply:
    """POST /profile: back to the page that was open, in this profile."""
    form = forms.fields(call)
    await act.do(call.who, desk.choose_profile, form.get("profile") or None)
    return inside.see(forms.local_path(form.get("page")))


async def settings(call: Call) -> Reply:
    """GET /settings."""
    zones = [("", "that of my browser"), *((name, name) for name in desk.zones())]
    return await inside.show(call, "people/settings.html", zones=zones)


async def choose_zone(call: Call) -> Reply:
    """POST /settings/zone."""
    await act.do(call.who, desk.choose_zone, forms.fields(call).get("zone") or None)
    return inside.tell(call, "/settings", "Times are shown in this time zone from now on.")

"""Two-factor authentication: setup with an app, turning off, new recovery codes."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from markupsafe import Markup

from socialpub.base.errors import ApiError
from socialpub.base.security.crypto import SealError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import ActionBody
from socialpub.domain.identity import totp
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.web.dashboard.parts.layout import keep_form, redirect_with_flash, require_form_error, require_proof, show
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

TOTP_PATH = "/settings/totp"


async def read(call: RequestContext, secret: str | None = None) -> HandlerResponse:
    """GET /settings/totp: a new secret to set up, or the actions if it is on."""
    new = secret or totp.generate_secret(call.service)

    def read_state(session: DashboardSession) -> dict[str, Any]:
        if totp.is_enabled(call.scope):
            return {"on": True, "left": totp.count_codes(call.scope)}
        sealed = call.service.runtime.vault.seal(new.encode(), _seal_context(call))
        return {
            "on": False,
            "secret": new,
            "sealed": sealed,
            "picture": render_qr_code(totp.build_uri(new, session.email)),
        }

    return await show(call, "settings/totp.html", read_state)


async def turn_on(call: RequestContext) -> HandlerResponse:
    """POST /settings/totp: `code`, and the page's sealed `secret`."""
    form = forms.parse(call)
    secret = _open_secret(call, form.get("secret", ""))
    try:
        await require_proof(call, form)
        made = await actions.perform(
            call.actor, totp.turn_on, secret or totp.generate_secret(call.service), form.get("code", "")
        )
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error)), secret)
    words = "Two-factor authentication is on. Keep these recovery codes: each signs you in once, without the app."
    return _redirect_done(call, words, made)


async def renew_codes(call: RequestContext) -> HandlerResponse:
    """POST /settings/totp/codes."""
    try:
        await require_proof(call, forms.parse(call))
        made = await actions.perform(call.actor, totp.renew_codes)
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error)))
    return _redirect_done(call, "Your new recovery codes. The old codes no longer work.", made)


async def turn_off(call: RequestContext) -> HandlerResponse:
    """POST /settings/totp/off."""
    try:
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, totp.turn_off)
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error)))
    return redirect_with_flash(
        call, "/settings", "Two-factor authentication is off. You sign in with your password only."
    )


def _redirect_done(call: RequestContext, words: str, made: ActionBody) -> HandlerResponse:
    codes = made["codes"]
    assert isinstance(codes, list)
    return redirect_with_flash(call, TOTP_PATH, words, secret="\n".join(codes))


def render_qr_code(uri: str) -> Markup:
    """Return a QR code as SVG. It is always dark on light, which cameras need."""
    import segno  # large and rarely needed

    out = BytesIO()
    code = segno.make(uri, error="m", micro=False)
    code.save(out, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=4, dark="#000", light="#fff")
    return Markup(out.getvalue().decode())


def _seal_context(call: RequestContext) -> tuple[str, str, str]:
    """Return the context that binds a new secret to this session's page."""
    return ("totp", "form", call.scope.session or "")


def _open_secret(call: RequestContext, sealed: str) -> str | None:
    try:
        return call.service.runtime.vault.open(sealed, _seal_context(call)).decode()
    except SealError:
        return None

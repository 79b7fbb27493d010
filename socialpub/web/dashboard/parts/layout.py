"""Pages of the dashboard, within its frame: the way around, who is signed in, in which profile and time zone.

`show` reads what a page needs together with the frame; `redirect` ends a form, and may leave a word for the page that
is seen next. The pieces that pages are made of are macros: `templates/ui.html`, which says how to use them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from peewee import PeeweeException

from socialpub.base.errors import ApiError
from socialpub.base.security.crypto import SealError
from socialpub.domain.access import actions, authentication
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import dashboard_session, sessions, signin
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.web.html import templates
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route, ServerRequest

FLASH_COOKIE = "socialpub_notice"
PROOF_VERB = "password"  # what the row of an act says of a password that was given once more
FLASH_SECONDS = 60
SIGNED_OUT_SCOPE = Scope("")  # whose notice the sign-in page shows
NAVIGATION = (
    ("Overview", "/"),
    ("Posts", "/posts"),
    ("Calendar", "/calendar"),
    ("Compose", "/compose"),
    ("Accounts", "/accounts"),
    ("Media", "/media"),
    ("Webhooks", "/webhooks"),
    ("Settings", "/settings"),
)
"""The way around. What has no page yet, or none for somebody of this role, is left out."""


@dataclass(frozen=True)
class FlashMessage:
    """A word for the page that is seen after a form; `secret` is shown there this once."""

    text: str
    secret: str = ""
    good: bool = True


# --- A page ------------------------------------------------------------------------------------------------------


async def show(
    call: RequestContext,
    template: str,
    read: Callable[[DashboardSession], Mapping[str, Any]] = lambda desk: {},
    *,
    status: int = 200,
    **values: Any,
) -> HandlerResponse:
    """A page of somebody who is signed in. `read` runs in the same reader as the frame's own questions.

    Lists are read in `dashboard_session.scope`, which is narrowed to the profile that the person is in; one thing that
    an address names is read in `call.scope`, so that a link leads to it from everywhere.
    """

    found, shown = await call.service.read(lambda: _read_all(call, read))
    cookie = request_headers.read_cookie(call.service, call.request, FLASH_COOKIE)
    frame = build_context(call.service, call.request.app.ctx.pages, call.scope, call.request.path, found)
    notice = _open_flash(call.service, call.scope, cookie) if cookie else None
    gone = (forms.build_cookie(call.service, FLASH_COOKIE, "", 0, path="/"),) if cookie else ()
    if shown["filled"] and call.route.method == "GET":  # else it is a form that is shown again because it was wrong
        notice = FlashMessage("Your session had ended, so the form was not sent. Its contents are filled in again.")
    return templates.render_page(template, status, gone, **frame | {"notice": notice} | dict(shown) | values)


async def show_fragment(
    call: RequestContext, template: str, read: Callable[[DashboardSession], Mapping[str, Any]]
) -> HandlerResponse:
    """A piece of such a page, which its script asks for again; a route that is `light` gives it an ETag."""
    found, shown = await call.service.read(lambda: _read_all(call, read))
    frame = build_context(call.service, call.request.app.ctx.pages, call.scope, "/", found)
    return templates.render_page(template, **frame | dict(shown))


def _read_all(
    call: RequestContext, read: Callable[[DashboardSession], Mapping[str, Any]]
) -> tuple[DashboardSession, Mapping[str, Any]]:
    """Who looks, and what they see: read in one go."""
    found = dashboard_session.load(call.scope)
    if found is None:
        raise ApiError("unauthenticated")
    filled = dashboard_session.load_saved_form(call.scope, call.request.path) if call.request.args.get("kept") else {}
    return found, {"filled": filled, **read(found)}


def build_context(
    service: AppContext, pages: Mapping[str, Route], scope: Scope, path: str, found: DashboardSession | None
) -> dict[str, Any]:
    """What every template of the dashboard is given."""
    return {
        "desk": found,
        "nav": _nav(pages, scope) if found else [],
        "path": path,
        "zone": found.zone if found else dashboard_session.UTC,
        "now_ms": service.now_ms,
        "csrf_token": scope.csrf,
        "manages": actions.can_manage(scope),
        "owns": actions.can_manage_members(scope),
        "needs_proof": found is not None and not signin.is_fresh(found.proved_at, service.now_ms),
    }


async def build_error_context(service: AppContext, request: ServerRequest) -> dict[str, Any]:
    """The same around an error, of whatever address; nothing where nobody is signed in, or cannot be asked for."""
    cookie = request_headers.read_cookie(service, request)
    if cookie is None:
        return {}
    try:
        scope = request.ctx.scope or await authentication.authenticate_session(service, cookie)
        found = (
            await service.read_inline(lambda: dashboard_session.load(scope), to_identify=True)
            if scope.session
            else None
        )
    except (ApiError, PeeweeException, sqlite3.Error, OSError):
        return {}
    return build_context(service, request.app.ctx.pages, scope, request.path, found)


def _nav(pages: Mapping[str, Route], scope: Scope) -> list[tuple[str, str]]:
    return [
        (name, address)
        for name, address in NAVIGATION
        if address in pages and actions.has_role(scope, pages[address].roles)
    ]


# --- Proof -------------------------------------------------------------------------------------------------------


async def require_proof(call: RequestContext, form: Mapping[str, str]) -> None:
    """Whoever destroys something or makes a secret has given their password lately, or does so in this form.

    ApiError `session.proof`, `rate_limited`: show the page again, which has a field for it (`ui.proof`).
    """
    if await signin.reauthenticate_if_stale(
        call.actor, call.engine.throttle, form.get("password", ""), *_client_and_device(call)
    ):
        await _record_proof(call)


async def require_password(call: RequestContext, form: Mapping[str, str]) -> None:
    """The same, be it that they gave it a moment ago: for what only they may do, and nobody who finds their screen."""
    await signin.reauthenticate(call.actor, call.engine.throttle, form.get("password", ""), *_client_and_device(call))
    await _record_proof(call)


async def _record_proof(call: RequestContext) -> None:
    """Its row says what was done, and not what for: that has its own, once it is done."""
    await actions.perform(
        call.actor._replace(act=call.audit_context._replace(verb=PROOF_VERB)), sessions.record_password_check
    )


def _client_and_device(call: RequestContext) -> tuple[str, str | None]:
    """Where a password is given: the caller's address, and the device where it is known."""
    device = request_headers.read_cookie(call.service, call.request, request_headers.DEVICE_COOKIE)
    return request_headers.find_client(call.service, call.request), device


def explain_form_error(error: ApiError) -> str:
    """What was wrong with a form, for its page again; what is no matter of the form is raised on."""
    if error.code in ("unauthenticated", "not_found") or (
        error.code == "unauthorized" and error.rule != "session.proof"
    ):
        raise error
    return error.message


# --- After a form ------------------------------------------------------------------------------------------------


def redirect(address: str, *cookies: str) -> HandlerResponse:
    """Go and look there (303), which ends a form's submission: reloading what is seen then does nothing twice."""
    return HandlerResponse("", 303, {"Location": address}, "text/plain", cookies)


def redirect_with_flash(
    call: RequestContext, address: str, text: str, *, secret: str = "", good: bool = True
) -> HandlerResponse:
    """The same, and the page that is seen there says so. `secret` is shown on it once: the browser alone carries it
    there, sealed, and the page that shows it takes it away.
    """
    return redirect(address, _flash_cookie(call.service, call.scope, FlashMessage(text, secret, good)))


def redirect_signed_out(call: RequestContext, text: str, *cookies: str) -> HandlerResponse:
    """The session is over, and these cookies with it: the sign-in page says so (`read_signed_out_flash`)."""
    gone = (forms.build_cookie(call.service, cookie, "", 0, path="/") for cookie in cookies)
    return redirect("/login", *gone, _flash_cookie(call.service, SIGNED_OUT_SCOPE, FlashMessage(text)))


def read_signed_out_flash(call: RequestContext) -> tuple[FlashMessage | None, tuple[str, ...]]:
    """What the sign-in page is to say to a browser whose session has just ended, and the cookie that takes it away."""
    cookie = request_headers.read_cookie(call.service, call.request, FLASH_COOKIE)
    notice = _open_flash(call.service, SIGNED_OUT_SCOPE, cookie) if cookie else None
    gone = (forms.build_cookie(call.service, FLASH_COOKIE, "", 0, path="/"),) if notice else ()
    return notice, gone


def _flash_cookie(service: AppContext, scope: Scope, notice: FlashMessage) -> str:
    told = json.dumps(asdict(notice) | {"until": service.now_ms + FLASH_SECONDS * 1000})
    sealed = service.runtime.vault.seal(told.encode(), _seal_context(scope))
    return forms.build_cookie(service, FLASH_COOKIE, sealed, FLASH_SECONDS, path="/")


def _seal_context(scope: Scope) -> tuple[str, str, str]:
    return ("notice", "cookie", scope.session or "")


def _open_flash(service: AppContext, scope: Scope, cookie: str) -> FlashMessage | None:
    """The notice in a cookie that this server has sealed for this session a moment ago."""
    try:
        told = json.loads(service.runtime.vault.open(cookie, _seal_context(scope)))
    except SealError:
        return None
    if told.pop("until") < service.now_ms:
        return None
    return FlashMessage(**told)

"""The dashboard's layout: navigation, flash messages, redirects and password checks.

`show` reads a page's data together with the layout's; `redirect` ends a form. The macros of pages are in
`templates/ui.html`, which says how to use them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from peewee import PeeweeException

from socialpub.base.errors import ApiError
from socialpub.base.security.crypto import SealError
from socialpub.domain.access import actions, authentication
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import dashboard_session, sessions, signin
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.web.dashboard.parts import error_texts
from socialpub.web.html import templates
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route, ServerRequest

FLASH_COOKIE = "socialpub_notice"
PROOF_VERB = "password"  # of the audit row of a password check
FLASH_SECONDS = 60
FLASH_TEXT_MAX = 600  # characters; a browser drops a cookie of more than 4096 bytes
SIGNED_OUT_SCOPE = Scope("")  # of messages on the sign-in page
NAVIGATION = (
    ("Compose", "/compose"),
    ("Overview", "/"),
    ("Drafts", "/drafts"),
    ("Posts", "/posts"),
    ("Calendar", "/calendar"),
    ("Accounts", "/accounts"),
    ("Media", "/media"),
    ("Webhooks", "/webhooks"),
    ("Settings", "/settings"),
)
"""The navigation. Pages that the user's role may not open are left out."""


class UndoForm(NamedTuple):
    """The form that undoes what a message tells: where it is sent, and its fields."""

    address: str
    fields: Mapping[str, str | int]


@dataclass(frozen=True)
class FlashMessage:
    """A message shown on the next page, once, with `secret` and the button of `undo`."""

    text: str
    secret: str = ""
    good: bool = True
    undo: UndoForm | None = None


# --- A page ------------------------------------------------------------------------------------------------------


async def show(
    call: RequestContext,
    template: str,
    read: Callable[[DashboardSession], Mapping[str, Any]] = lambda session: {},
    *,
    status: int = 200,
    **values: Any,
) -> HandlerResponse:
    """Return a page for the signed-in user.

    `read` runs in the same read transaction as the layout. A page with the form of a refused request (`keep_form`) has
    the error's status, and its message as `problem`.

    Lists are read in `dashboard_session.scope`, which is limited to the chosen profile; an object in the path is read
    in `call.scope`, so that links to it work in every profile.
    """

    session, values_read = await call.service.read(lambda: _read_all(call, read))
    cookie = request_headers.read_cookie(call.service, call.request, FLASH_COOKIE)
    frame = build_context(call.service, call.request.app.ctx.pages, call.scope, _find_page(call), session)
    notice = _open_flash(call.service, call.scope, cookie) if cookie else None
    delete_cookie = (forms.delete_cookie(call.service, FLASH_COOKIE),) if cookie else ()
    if values_read["filled"] and call.route.method == "GET":  # a POST shows a form with errors
        notice = FlashMessage(
            "Your session had ended, so the form was not sent. Send it again: what you typed is there."
        )
    error, call.form_error = call.form_error, None  # its traceback refers to the call: kept there, both would stay
    frame |= {"notice": notice, "problem": error.message if error else "", "is_paused": call.engine.paused is not None}
    frame |= values_read
    frame |= {"filled": call.filled} if call.filled else {}
    return templates.render_page(template, error.status if error else status, delete_cookie, **frame | values)


def keep_form(call: RequestContext, error: ApiError, filled: Mapping[str, str] | None = None) -> RequestContext:
    """Return the call for a page that shows its form again, with the error and what was typed."""
    call.form_error, call.filled = error, filled or {}
    return call


def _find_page(call: RequestContext) -> str:
    """Return the path of the page that is shown.

    After a form whose address has no page, it is that of the form's page.
    """
    if call.route.path in call.request.app.ctx.pages:
        return call.request.path
    return forms.to_local_path(forms.parse(call).get("page")).partition("?")[0]


def _read_all(
    call: RequestContext, read: Callable[[DashboardSession], Mapping[str, Any]]
) -> tuple[DashboardSession, Mapping[str, Any]]:
    """Read the session, the saved form and the page's data."""
    found = dashboard_session.load_current(call.scope)
    filled = dashboard_session.load_saved_form(call.scope, call.request.path) if call.request.args.get("kept") else {}
    return found, {"filled": filled, **read(found)}


def build_context(
    service: AppContext, pages: Mapping[str, Route], scope: Scope, path: str, found: DashboardSession | None
) -> dict[str, Any]:
    """Return the variables that every template of the dashboard gets.

    `path`: of a page that can be loaded.
    """
    return {
        "session": found,
        "nav": _nav(pages, scope) if found else [],
        "path": path,
        "zone": found.zone if found else dashboard_session.UTC,
        "now_ms": service.now_ms,
        "csrf_token": scope.csrf,
        "manages": actions.can_manage(scope),
        "publishes": actions.can_publish(scope),
        "owns": actions.can_manage_members(scope),
        "needs_proof": found is not None and not signin.is_fresh(found.proved_at, service.now_ms),
    }


async def build_error_context(service: AppContext, request: ServerRequest) -> dict[str, Any]:
    """Return the layout's variables for an error page; none if the user is unknown."""
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
    path = request.path if request.method == "GET" else "/"
    return build_context(service, request.app.ctx.pages, scope, path, found)


def _nav(pages: Mapping[str, Route], scope: Scope) -> list[tuple[str, str]]:
    return [
        (name, address)
        for name, address in NAVIGATION
        if address in pages and actions.has_role(scope, pages[address].roles)
    ]


# --- Password checks ---------------------------------------------------------------------------------------------


async def require_proof(call: RequestContext, form: Mapping[str, str]) -> None:
    """Require a recent password check, or the password in this form.

    For destructive actions, and those that create a secret. Raises ApiError `session.proof` or `rate_limited`: show the
    form again, which has a field for it (`ui.proof`).
    """
    if await signin.reauthenticate_if_stale(
        call.actor, call.engine.throttle, form.get("password", ""), *_client_and_device(call)
    ):
        await _record_proof(call)


async def require_password(call: RequestContext, form: Mapping[str, str]) -> None:
    """Require the password in this form, even after a recent check."""
    await signin.reauthenticate(call.actor, call.engine.throttle, form.get("password", ""), *_client_and_device(call))
    await _record_proof(call)


async def _record_proof(call: RequestContext) -> None:
    """Record the password check in the audit log. The action itself gets its own row."""
    await actions.perform(
        call.actor._replace(audit=call.audit_context._replace(verb=PROOF_VERB)), sessions.record_password_check
    )


def _client_and_device(call: RequestContext) -> tuple[str, str | None]:
    """Return the client's address, and the device cookie if the browser has one."""
    device = request_headers.read_cookie(call.service, call.request, request_headers.DEVICE_COOKIE)
    return call.request.client, device


def require_form_error(error: ApiError) -> ApiError:
    """Return an error in the form's input; raise any other error."""
    if error.code in ("unauthenticated", "not_found") or (
        error.code == "unauthorized" and error.rule != "session.proof"
    ):
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame: each would keep the other in memory
    return error


def explain(error: ApiError | None) -> str:
    """Return an error's message and remediation in words for people; "" without an error."""
    if error is None:
        return ""
    return error_texts.find_words(error.rule) or f"{error.message} {error_texts.to_remedy(error.remediation)}".strip()


# --- After a form ------------------------------------------------------------------------------------------------


def redirect(address: str, *cookies: str) -> HandlerResponse:
    """Return a 303 after a form: reloading the next page does not send the form again."""
    return HandlerResponse("", 303, {"Location": address}, "text/plain", cookies)


def redirect_with_flash(
    call: RequestContext, address: str, text: str, *, secret: str = "", good: bool = True, undo: UndoForm | None = None
) -> HandlerResponse:
    """Redirect to a page that shows a message.

    `secret` is shown once: the browser carries it in a sealed cookie, which the page deletes.
    """
    return redirect(address, _flash_cookie(call.service, call.scope, FlashMessage(text, secret, good, undo)))


def redirect_signed_out(
    call: RequestContext, text: str, *cookies: str, address: str = "/login", good: bool = True
) -> HandlerResponse:
    """Redirect to the sign-in page with a message, and delete the session's cookies."""
    delete_cookies = (forms.delete_cookie(call.service, cookie) for cookie in cookies)
    notice = FlashMessage(text, good=good)
    return redirect(address, *delete_cookies, _flash_cookie(call.service, SIGNED_OUT_SCOPE, notice))


def read_signed_out_flash(call: RequestContext) -> tuple[FlashMessage | None, tuple[str, ...]]:
    """Return the sign-in page's message, if there is one, and the cookie that deletes it."""
    cookie = request_headers.read_cookie(call.service, call.request, FLASH_COOKIE)
    notice = _open_flash(call.service, SIGNED_OUT_SCOPE, cookie) if cookie else None
    delete_cookie = (forms.delete_cookie(call.service, FLASH_COOKIE),) if notice else ()
    return notice, delete_cookie


def _flash_cookie(service: AppContext, scope: Scope, notice: FlashMessage) -> str:
    text = notice.text if len(notice.text) <= FLASH_TEXT_MAX else f"{notice.text[: FLASH_TEXT_MAX - 1]}…"
    shown = asdict(notice) | {"text": text, "until": service.now_ms + FLASH_SECONDS * 1000}
    message = json.dumps(shown, ensure_ascii=False)
    sealed = service.runtime.vault.seal(message.encode(), _seal_context(scope))
    return forms.build_cookie(service, FLASH_COOKIE, sealed, FLASH_SECONDS)


def _seal_context(scope: Scope) -> tuple[str, str, str]:
    return ("notice", "cookie", scope.session or "")


def _open_flash(service: AppContext, scope: Scope, cookie: str) -> FlashMessage | None:
    """Return the message of a flash cookie if it is this session's and has not expired."""
    try:
        message = json.loads(service.runtime.vault.open(cookie, _seal_context(scope)))
    except SealError:
        return None
    if message.pop("until") < service.now_ms:
        return None
    undo = message.pop("undo", None)
    return FlashMessage(**message, undo=UndoForm(*undo) if undo else None)

"""Sign-in, sign-out, first setup, invitations, and return after an expired session."""

from __future__ import annotations

import json
from urllib.parse import quote

from socialpub.base.errors import ApiError
from socialpub.base.security.crypto import SealError
from socialpub.domain.access import actions, authentication
from socialpub.domain.access.actor import ActionFunction
from socialpub.domain.identity import dashboard_session, members, sessions, signin, users
from socialpub.domain.identity.sessions import BrowserState, NewSession
from socialpub.domain.identity.signin import PendingSecondFactor
from socialpub.domain.organizations import profiles
from socialpub.web.dashboard.parts.layout import read_signed_out_flash, redirect, redirect_signed_out
from socialpub.web.html.templates import render_page
from socialpub.web.http import forms, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext

LOGIN_COOKIE = "socialpub_form"
CODE_SECONDS = 300  # between the password and the code
UNSENT_TEXT = "Your session has ended, so nothing was sent or changed. Sign in and do it again."
TOO_LARGE_TEXT = (
    "Your session has ended, so nothing was sent or changed. The form is too large to be filled in again: to keep what "
    "you wrote, go back in your browser and copy it before you sign in."
)
LOGIN_SECONDS = 24 * 3600  # lifetime of a sign-in page's token


# --- Signing in --------------------------------------------------------------------------------------------------


async def show_login(call: RequestContext) -> HandlerResponse:
    """GET /login."""
    return _login_page(call, forms.to_local_path(call.request.args.get("next")))


def _login_page(
    call: RequestContext, after: str, email: str = "", error: ApiError | None = None, saved_form: str = ""
) -> HandlerResponse:
    token, cookies = _find_form_token(call)
    status, problem = (error.status, error.message) if error else (200, "")
    notice, gone = read_signed_out_flash(call)
    values = {"csrf_token": token, "after": after, "email": email, "problem": problem, "kept": saved_form}
    shown = render_page("people/login.html", status, (*cookies, *gone), **values, notice=notice)
    return _add_retry_after(shown, error)


def _find_form_token(call: RequestContext) -> tuple[str, tuple[str, ...]]:
    token = forms.find_or_make_token(call, LOGIN_COOKIE)
    return token, (forms.build_cookie(call.service, LOGIN_COOKIE, token, LOGIN_SECONDS),)


def _parse_verified(call: RequestContext) -> dict[str, str]:
    """Return the form of a page without a session. Raises ApiError `csrf`."""
    return forms.parse_verified(call, request_headers.read_cookie(call.service, call.request, LOGIN_COOKIE))


def _add_retry_after(page: HandlerResponse, error: ApiError | None) -> HandlerResponse:
    if error is None or error.retry_after is None:
        return page
    return page._replace(headers={"Retry-After": str(error.retry_after)})


async def login(call: RequestContext) -> HandlerResponse:
    """POST /login: `email`, `password`."""
    form = _parse_verified(call)
    if form.get("half"):
        return await _second_step(call, form)
    after = forms.to_local_path(form.get("next"))
    email = form.get("email", "")
    try:
        signed_in = await _sign_in(call, email, form)
    except ApiError as error:
        if error.code not in ("unauthenticated", "rate_limited"):
            raise
        call.request.ctx.error = error  # for the access log
        return _login_page(call, after, email, error, forms.read_saved(form.get("kept", "")) or "")
    if isinstance(signed_in, PendingSecondFactor):
        return await _finish(call, form, signed_in) if form.get("code") else _code_page(call, form, signed_in)
    return _start_session(call, signed_in, after)


def _start_session(call: RequestContext, signed_in: NewSession, after: str) -> HandlerResponse:
    call.request.ctx.scope = authentication.Scope("", user=signed_in.user)  # for the access log
    given = (
        (request_headers.SESSION_COOKIE, signed_in.cookie, sessions.COOKIE_MS),
        (request_headers.DEVICE_COOKIE, signed_in.device, sessions.DEVICE_MS),
    )
    return redirect(after, *(forms.build_cookie(call.service, name, value, ms // 1000) for name, value, ms in given))


async def _sign_in(call: RequestContext, email: str, form: dict[str, str]) -> NewSession | PendingSecondFactor:
    device = request_headers.read_cookie(call.service, call.request, request_headers.DEVICE_COOKIE)
    password, browser = form.get("password", ""), _browser(call, form)
    return await signin.start(
        call.service, call.engine.throttle, email, password, call.request.client, device, call.audit_context, browser
    )


async def _second_step(call: RequestContext, form: dict[str, str]) -> HandlerResponse:
    """Check the code of a user who has just given the password."""
    half = _open_proof(call, form)
    if half is None:
        after = forms.to_local_path(form.get("next"))
        error = ApiError("unauthenticated", "This took too long. Sign in again.")
        return _login_page(call, after, error=error, saved_form=forms.read_saved(form.get("kept", "")) or "")
    return await _finish(call, form, half)


async def _finish(call: RequestContext, form: dict[str, str], half: PendingSecondFactor) -> HandlerResponse:
    device = request_headers.read_cookie(call.service, call.request, request_headers.DEVICE_COOKIE)
    code, browser = form.get("code", ""), _browser(call, form)
    try:
        signed_in = await signin.finish(
            call.service, call.engine.throttle, half, code, device, call.audit_context, browser
        )
    except ApiError as error:
        if error.code not in ("unauthenticated", "rate_limited"):
            raise
        return _code_page(call, form, half, error)
    return _start_session(call, signed_in, forms.to_local_path(form.get("next")))


def _code_page(
    call: RequestContext, form: dict[str, str], half: PendingSecondFactor, error: ApiError | None = None
) -> HandlerResponse:
    """Return the page that asks for the code, with the sealed proof of the password."""
    token, cookies = _find_form_token(call)
    until = call.service.now_ms + CODE_SECONDS * 1000
    proof = json.dumps({"user": half.user, "password": half.password, "until": until})
    values = {
        "csrf_token": token,
        "after": forms.to_local_path(form.get("next")),
        "kept": forms.read_saved(form.get("kept", "")) or "",
        "half": form.get("half") or call.service.runtime.vault.seal(proof.encode(), _seal_context(token)),
        "problem": error.message if error else "",
    }
    shown = render_page("people/code.html", error.status if error else 200, cookies, **values)
    return _add_retry_after(shown, error)


def _open_proof(call: RequestContext, form: dict[str, str]) -> PendingSecondFactor | None:
    """Return the page's proof if it is this browser's and has not expired."""
    try:
        proof = json.loads(call.service.runtime.vault.open(form["half"], _seal_context(form.get("csrf_token", ""))))
    except SealError:
        return None
    return PendingSecondFactor(proof["user"], proof["password"]) if proof["until"] > call.service.now_ms else None


def _seal_context(token: str) -> tuple[str, str, str]:
    return ("login", "half", token)


def _browser(call: RequestContext, form: dict[str, str]) -> BrowserState:
    agent = call.request.headers.get("user-agent", "")
    zone, kept = dashboard_session.find_zone(form.get("zone")), forms.read_saved(form.get("kept", ""))
    return BrowserState(zone, kept, call.request.client_line, agent)


async def logout(call: RequestContext) -> HandlerResponse:
    """POST /logout: end the session."""
    return await _sign_out(call, sessions.sign_out, request_headers.SESSION_COOKIE)


async def logout_everywhere(call: RequestContext) -> HandlerResponse:
    """POST /logout/everywhere: end all the user's sessions and forget their browsers."""
    return await _sign_out(
        call, sessions.sign_out_everywhere, request_headers.SESSION_COOKIE, request_headers.DEVICE_COOKIE
    )


async def _sign_out(call: RequestContext, leave: ActionFunction[[]], *cookies: str) -> HandlerResponse:
    try:
        await actions.perform(call.actor, leave)
    except ApiError as error:
        if error.code != "unauthenticated":  # the session has ended already
            raise
    return redirect("/login", *(forms.delete_cookie(call.service, cookie) for cookie in cookies))


# --- Setup -------------------------------------------------------------------------------------------------------


async def show_setup(call: RequestContext) -> HandlerResponse:
    """GET /setup/{token}: the one-time link from the console."""
    if not users.is_setup_token(call.service, call.path_value("token")):
        raise users.build_setup_error()
    organizations = await call.service.read(profiles.list_organizations)
    return _setup_page(call, {"organization": organizations[0]["name"]} if len(organizations) == 1 else None)


def _setup_page(
    call: RequestContext, values: dict[str, str] | None = None, problem: str = "", status: int = 200
) -> HandlerResponse:
    token, cookies = _find_form_token(call)
    shown = {"organization": "", "email": ""} | (values or {})
    return render_page(
        "people/setup.html", status, cookies, csrf_token=token, problem=problem, least=users.PASSWORD_MIN, **shown
    )


async def setup(call: RequestContext) -> HandlerResponse:
    """POST /setup/{token}: `organization`, `email`, `password`."""
    form = _parse_verified(call)
    organization, email = form.get("organization", ""), form.get("email", "")
    try:
        signed_in = await users.set_up_owner(
            call.actor,
            call.path_value("token"),
            organization,
            email,
            form.get("password", ""),
            _browser(call, form),
        )
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        return _setup_page(call, {"organization": organization, "email": email}, error.message, error.status)
    return _start_session(call, signed_in, "/")


# --- Invitations -------------------------------------------------------------------------------------------------


async def show_invitation(call: RequestContext, problem: str = "", status: int = 200) -> HandlerResponse:
    """GET /invited/{token}: the organization and the inviting member."""
    token = call.path_value("token")
    invited = await call.service.read(lambda: members.load_invitation(call.service, token))
    form_token, cookies = _find_form_token(call)
    return render_page(
        "people/invited.html",
        status,
        cookies,
        csrf_token=form_token,
        problem=problem,
        least=users.PASSWORD_MIN,
        invited=invited,
    )


async def accept_invitation(call: RequestContext) -> HandlerResponse:
    """POST /invited/{token}: `password`."""
    form = _parse_verified(call)
    browser = _browser(call, form)
    try:
        signed_in = await members.accept_invitation(
            call.actor, call.path_value("token"), form.get("password", ""), browser
        )
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        return await show_invitation(call, error.message, error.status)
    return _start_session(call, signed_in, "/")


# --- After an expired session ------------------------------------------------------------------------------------


def redirect_to_sign_in(method: str, path: str, query: str) -> HandlerResponse:
    """Redirect a browser without a session to the sign-in page, and back afterwards.

    The query is included: it may hold a platform's authorization code.
    """
    after = path + (f"?{query}" if query else "")
    return redirect("/login" if after == "/" or method not in ("GET", "HEAD") else f"/login?next={quote(after)}")


def save_form_and_sign_in(call: RequestContext) -> HandlerResponse:
    """Return the sign-in page; the sent form is filled in again afterwards. No action runs.

    Of a form without typed fields, or one that is too large to be kept, it only says that nothing was sent.
    """
    if not request_headers.is_same_origin(call.service, call.request):
        return redirect("/login")
    saved_form = forms.serialize(call)
    if saved_form is None:
        return refuse_form_and_sign_in(call)
    after = forms.to_local_path(forms.parse(call).get("page"))
    if not saved_form:
        return _redirect_unsent(call, after, UNSENT_TEXT)
    return _login_page(call, f"{after.partition('?')[0]}?kept=1", saved_form=saved_form)


def refuse_form_and_sign_in(call: RequestContext) -> HandlerResponse:
    """Redirect to the sign-in page, which says that the form was too large to be kept."""
    if not request_headers.is_same_origin(call.service, call.request):
        return redirect("/login")
    return _redirect_unsent(call, forms.to_local_path(forms.parse(call).get("page")), TOO_LARGE_TEXT)


def _redirect_unsent(call: RequestContext, after: str, words: str) -> HandlerResponse:
    address = redirect_to_sign_in("GET", after, "").headers["Location"]
    return redirect_signed_out(call, words, address=address, good=False)

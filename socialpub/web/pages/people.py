"""Pages for people: first set-up, signing in and out, and back from a session that has ended."""

from __future__ import annotations

import json
from urllib.parse import quote

from socialpub.base.crypto import SealError
from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.people import desk, members, profiles, sessions, signin, tenancy, users
from socialpub.domain.people.actor import Verb
from socialpub.domain.people.sessions import Browser, SignedIn
from socialpub.domain.people.signin import Half
from socialpub.web import edge, forms
from socialpub.web.http import Call, Reply
from socialpub.web.pages.html import page
from socialpub.web.pages.inside import see, signed_out_notice

LOGIN_COOKIE = "socialpub_form"
CODE_SECONDS = 300  # for whoever has given their password to find the code
LOGIN_SECONDS = 24 * 3600  # a sign-in page may be open for so long


# --- Signing in --------------------------------------------------------------------------------------------------


async def login_form(call: Call) -> Reply:
    """GET /login."""
    return _login_page(call, forms.local_path(call.request.args.get("next")))


def _login_page(call: Call, after: str, email: str = "", error: ApiError | None = None, kept: str = "") -> Reply:
    token, cookies = _form_token(call)
    status, problem = (error.status, error.message) if error else (200, "")
    notice, gone = signed_out_notice(call)
    values = {"csrf_token": token, "after": after, "email": email, "problem": problem, "kept": kept}
    shown = page("people/login.html", status, (*cookies, *gone), **values, notice=notice)
    if error is None or error.retry_after is None:
        return shown
    return shown._replace(headers={"Retry-After": str(error.retry_after)})


def _form_token(call: Call) -> tuple[str, tuple[str, ...]]:
    token = forms.token_of(call, LOGIN_COOKIE)
    return token, (forms.set_cookie(call.service, LOGIN_COOKIE, token, LOGIN_SECONDS, path="/"),)


async def login(call: Call) -> Reply:
    """POST /login: `email`, `password`."""
    form = forms.checked(call, edge.cookie_of(call.service, call.request, LOGIN_COOKIE))
    if form.get("half"):
        return await _second_step(call, form)
    after = forms.local_path(form.get("next"))
    email = form.get("email", "")
    try:
        signed_in = await _sign_in(call, email, form)
    except ApiError as error:
        if error.code not in ("unauthenticated", "rate_limited"):
            raise
        call.request.ctx.error = error  # for the log
        return _login_page(call, after, email, error, forms.was_kept(form.get("kept", "")) or "")
    if isinstance(signed_in, Half):
        return await _finish(call, form, signed_in) if form.get("code") else _code_page(call, form, signed_in)
    return _in(call, signed_in, after)


def _in(call: Call, signed_in: SignedIn, after: str) -> Reply:
    call.request.ctx.scope = tenancy.Scope("", user=signed_in.user)  # for the log
    return see(after, *_cookies(call, signed_in))


async def _sign_in(call: Call, email: str, form: dict[str, str]) -> SignedIn | Half:
    address = edge.caller(call.service, call.request)
    device = edge.cookie_of(call.service, call.request, edge.DEVICE_COOKIE)
    password, here = form.get("password", ""), _browser(call, form)
    return await signin.sign_in(call.service, call.engine.throttle, email, password, address, device, call.act, here)


async def _second_step(call: Call, form: dict[str, str]) -> Reply:
    """The code of somebody who has just given their password."""
    half = _opened(call, form)
    if half is None:
        after = forms.local_path(form.get("next"))
        error = ApiError("unauthenticated", "This took too long. Sign in again.")
        return _login_page(call, after, error=error, kept=forms.was_kept(form.get("kept", "")) or "")
    return await _finish(call, form, half)


async def _finish(call: Call, form: dict[str, str], half: Half) -> Reply:
    device = edge.cookie_of(call.service, call.request, edge.DEVICE_COOKIE)
    code, here = form.get("code", ""), _browser(call, form)
    try:
        signed_in = await signin.finish(call.service, call.engine.throttle, half, code, device, call.act, here)
    except ApiError as error:
        if error.code not in ("unauthenticated", "rate_limited"):
            raise
        return _code_page(call, form, half, error)
    return _in(call, signed_in, forms.local_path(form.get("next")))


def _code_page(call: Call, form: dict[str, str], half: Half, error: ApiError | None = None) -> Reply:
    """The page that asks for the code. It carries what was proved, sealed, for a few minutes."""
    token, cookies = _form_token(call)
    until = call.service.now_ms + CODE_SECONDS * 1000
    told = json.dumps({"user": half.user, "password": half.password, "until": until})
    values = {
        "csrf_token": token,
        "after": forms.local_path(form.get("next")),
        "kept": forms.was_kept(form.get("kept", "")) or "",
        "half": form.get("half") or call.service.runtime.vault.seal(told.encode(), _place(token)),
        "problem": error.message if error else "",
    }
    shown = page("people/code.html", error.status if error else 200, cookies, **values)
    if error is None or error.retry_after is None:
        return shown
    return shown._replace(headers={"Retry-After": str(error.retry_after)})


def _opened(call: Call, form: dict[str, str]) -> Half | None:
    """What such a page has carried, of this browser and not too long ago."""
    try:
        told = json.loads(call.service.runtime.vault.open(form["half"], _place(form.get("csrf_token", ""))))
    except SealError:
        return None
    return Half(told["user"], told["password"]) if told["until"] > call.service.now_ms else None


def _place(token: str) -> tuple[str, str, str]:
    return ("login", "half", token)


def _browser(call: Call, form: dict[str, str]) -> Browser:
    agent = call.request.headers.get("user-agent", "")
    where = ascii(edge.caller(call.service, call.request))[1:-1]
    return Browser(desk.known_zone(form.get("zone")), forms.was_kept(form.get("kept", "")), where, agent)


async def logout(call: Call) -> Reply:
    """POST /logout: the session ends on the server."""
    return await _left(call, sessions.leave, edge.SESSION_COOKIE)


async def logout_everywhere(call: Call) -> Reply:
    """POST /logout/everywhere: every session of the person ends, and no browser is known any more."""
    return await _left(call, sessions.leave_everywhere, edge.SESSION_COOKIE, edge.DEVICE_COOKIE)


async def _left(call: Call, leave: Verb[[]], *cookies: str) -> Reply:
    try:
        await act.do(call.who, leave)
    except ApiError as error:
        if error.code != "unauthenticated":  # it ended meanwhile, as was asked for
            raise
    return see("/login", *(forms.set_cookie(call.service, cookie, "", 0, path="/") for cookie in cookies))


def _cookies(call: Call, signed_in: SignedIn) -> tuple[str, str]:
    given = (
        (edge.SESSION_COOKIE, signed_in.cookie, sessions.COOKIE_MS),
        (edge.DEVICE_COOKIE, signed_in.device, sessions.DEVICE_MS),
    )
    session, device = (forms.set_cookie(call.service, name, value, ms // 1000, path="/") for name, value, ms in given)
    return session, device


# --- First start -------------------------------------------------------------------------------------------------


async def setup_form(call: Call) -> Reply:
    """GET /setup/{token}: once, as the console said."""
    if not users.setup_is_open(call.service, call.path_value("token")):
        raise ApiError("not_found", "This setup link was used already, or is from an earlier start of the server.")
    there = await call.service.read(profiles.list_organizations)
    return _setup_page(call, {"organization": there[0]["name"]} if len(there) == 1 else None)


def _setup_page(call: Call, values: dict[str, str] | None = None, problem: str = "", status: int = 200) -> Reply:
    token, cookies = _form_token(call)
    shown = {"organization": "", "email": ""} | (values or {})
    return page(
        "people/setup.html", status, cookies, csrf_token=token, problem=problem, least=users.PASSWORD_MIN, **shown
    )


async def setup(call: Call) -> Reply:
    """POST /setup/{token}: `organization`, `email`, `password`."""
    form = forms.checked(call, edge.cookie_of(call.service, call.request, LOGIN_COOKIE))
    organization, email = form.get("organization", ""), form.get("email", "")
    try:
        signed_in = await users.set_up(
            call.who,
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
    call.request.ctx.scope = tenancy.Scope("", user=signed_in.user)  # for the log
    return see("/", *_cookies(call, signed_in))


# --- Invitations -------------------------------------------------------------------------------------------------


async def invited_form(call: Call) -> Reply:
    """GET /invited/{token}: who invites whom."""
    return await _invited_page(call)


async def _invited_page(call: Call, problem: str = "", status: int = 200) -> Reply:
    token = call.path_value("token")
    invited = await call.service.read(lambda: members.invited(call.service, token))
    form_token, cookies = _form_token(call)
    return page(
        "people/invited.html",
        status,
        cookies,
        csrf_token=form_token,
        problem=problem,
        least=users.PASSWORD_MIN,
        invited=invited,
    )


async def join(call: Call) -> Reply:
    """POST /invited/{token}: `password`."""
    form = forms.checked(call, edge.cookie_of(call.service, call.request, LOGIN_COOKIE))
    here = _browser(call, form)
    try:
        signed_in = await members.accept(call.who, call.path_value("token"), form.get("password", ""), here)
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        return await _invited_page(call, error.message, error.status)
    call.request.ctx.scope = tenancy.Scope("", user=signed_in.user)  # for the log
    return see("/", *_cookies(call, signed_in))


# --- Back from a session that has ended ----------------------------------------------------------------------------


def sign_in_first(method: str, path: str, query: str) -> Reply:
    """Where a page that needs a session sends a browser without one; after signing in it comes back to what it asked.

    The query goes with it: a platform's answer is in there.
    """
    after = path + (f"?{query}" if query else "")
    return see("/login" if after == "/" or method not in ("GET", "HEAD") else f"/login?next={quote(after)}")


def sign_in_again(call: Call) -> Reply:
    """A form came without a session: it is kept while its sender signs in, and filled in again. Nothing is done."""
    after = (
        forms.local_path(forms.fields(call).get("page"))
        if edge.is_ours(call.request.headers, call.service.base_url)
        else "/"
    )
    kept = forms.kept(call)
    if not kept:
        return sign_in_first("GET", after, "")
    return _login_page(call, f"{after.partition('?')[0]}?kept=1", kept=kept)

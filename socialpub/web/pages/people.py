"""Pages for people: first set-up, signing in and out, and a start page with profiles, keys and accounts."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain import accounts, people, tenancy
from socialpub.domain.people import SignedIn
from socialpub.store.models import Organization, User
from socialpub.web import forms, http
from socialpub.web.http import Call, Reply
from socialpub.web.pages import html

LOGIN_COOKIE = "socialpub_form"


def page(template: str, status: int = 200, headers: dict[str, str] | None = None, **values: Any) -> Reply:
    return Reply(html.render(template, **values), status, headers or {}, "text/html; charset=utf-8")


def see(address: str, headers: dict[str, str] | None = None) -> Reply:
    """Go and look there (303), which ends a form's submission."""
    return Reply("", 303, {"Location": address} | (headers or {}), "text/plain")


# --- Signing in --------------------------------------------------------------------------------------------------


async def login_form(call: Call) -> Reply:
    """GET /login."""
    return _login_page(call, forms.local_path(call.request.args.get("next")))


def _login_page(call: Call, after: str, email: str = "", problem: str = "", status: int = 200) -> Reply:
    token = forms.fresh_token(call)
    headers = {"Set-Cookie": forms.set_cookie(call.service, LOGIN_COOKIE, token, 3600, path="/")}
    return page("people/login.html", status, headers, csrf_token=token, after=after, email=email, problem=problem)


async def login(call: Call) -> Reply:
    """POST /login: `email`, `password`."""
    form = forms.checked(call, call.request.cookies.get(forms.name_of(call.service, LOGIN_COOKIE)))
    after = forms.local_path(form.get("next"))
    email = form.get("email", "")
    try:
        address = http.client_address(call.service, call.request)
        signed_in = await people.sign_in(call.service, call.engine.throttle, email, form.get("password", ""), address)
    except ApiError as error:
        if error.code not in ("unauthenticated", "rate_limited"):
            raise
        return _login_page(call, after, email, error.message, error.status)
    return see(after, _session_cookie(call, signed_in))


async def logout(call: Call) -> Reply:
    """POST /logout: the session ends on the server."""
    cookie = http.session_cookie(call.service, call.request) or ""
    await call.service.write(lambda tx: people.sign_out(tx, cookie))
    gone = forms.set_cookie(call.service, http.SESSION_COOKIE, "", 0, path="/")
    return see("/login", {"Set-Cookie": gone})


def _session_cookie(call: Call, signed_in: SignedIn) -> dict[str, str]:
    seconds = people.SESSION_MS // 1000
    return {"Set-Cookie": forms.set_cookie(call.service, http.SESSION_COOKIE, signed_in.cookie, seconds, path="/")}


# --- First start -------------------------------------------------------------------------------------------------


async def setup_form(call: Call) -> Reply:
    """GET /setup/{token}: once, as the console said."""
    if not people.setup_is_open(call.service, call.path_value("token")):
        raise ApiError("not_found", "This set-up link was used, or is of an earlier start of the server.")
    return _setup_page(call)


def _setup_page(call: Call, values: dict[str, str] | None = None, problem: str = "", status: int = 200) -> Reply:
    token = forms.fresh_token(call)
    headers = {"Set-Cookie": forms.set_cookie(call.service, LOGIN_COOKIE, token, 3600, path="/")}
    shown = {"organization": "", "email": ""} | (values or {})
    return page(
        "people/setup.html", status, headers, csrf_token=token, problem=problem, least=people.PASSWORD_MIN, **shown
    )


async def setup(call: Call) -> Reply:
    """POST /setup/{token}: `organization`, `email`, `password`."""
    form = forms.checked(call, call.request.cookies.get(forms.name_of(call.service, LOGIN_COOKIE)))
    organization, email = form.get("organization", ""), form.get("email", "")
    try:
        signed_in = await people.set_up(
            call.service, call.path_value("token"), organization, email, form.get("password", "")
        )
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        return _setup_page(call, {"organization": organization, "email": email}, error.message, error.status)
    return see("/", _session_cookie(call, signed_in))


# --- The start page ----------------------------------------------------------------------------------------------


async def home(call: Call) -> Reply:
    """GET /: who is signed in, and what the organization has."""
    return await _home(call)


async def _home(call: Call, minted: dict[str, Any] | None = None, problem: str = "", status: int = 200) -> Reply:
    scope = call.scope
    manages = scope.role in ("owner", "admin")

    def read() -> dict[str, Any]:
        return {
            "organization": Organization.select(Organization.name)
            .where(Organization.id == scope.organization)
            .scalar(),
            "email": User.select(User.email).where(User.id == scope.user).scalar(),
            "profiles": tenancy.list_profiles(scope),
            "keys": tenancy.list_keys(scope.organization) if manages else [],
            "accounts": accounts.list_bodies(scope, None),
        }

    shown = await call.service.read(read)
    labels = {name: row.label for name, row in platforms.PLATFORMS.items()}
    return page(
        "people/home.html",
        status,
        csrf_token=scope.csrf,
        role=scope.role,
        manages=manages,
        minted=minted,
        problem=problem,
        labels=labels,
        prefixes=tenancy.key_prefixes(call.service),
        **shown,
    )


async def mint_key(call: Call) -> Reply:
    """POST /keys: the new key is on the page that answers, and never again."""
    people.require(call.scope.role, "owner", "admin")
    form = forms.fields(call)
    name = form.get("name", "").strip()
    if not 1 <= len(name) <= 100:
        return await _home(call, problem="A key needs a name of 1 to 100 characters.", status=400)
    label = tenancy.label_of(call.service, form.get("prefix") or None)
    profile = form.get("profile") or None
    minted = await call.service.write(
        lambda tx: tenancy.mint_key(call.service, tx, call.scope.organization, profile=profile, name=name, label=label)
    )
    return await _home(call, minted=minted)


async def revoke_key(call: Call) -> Reply:
    """POST /keys/{id}/revoke."""
    people.require(call.scope.role, "owner", "admin")
    key = call.path_value("key_id")
    await call.service.write(lambda tx: tenancy.revoke_key(call.service, tx, call.scope.organization, key))
    return see("/#keys")


async def create_profile(call: Call) -> Reply:
    """POST /profiles."""
    people.require(call.scope.role, "owner", "admin")
    name = forms.fields(call).get("name", "").strip()
    if not 1 <= len(name) <= 100:
        return await _home(call, problem="A profile needs a name of 1 to 100 characters.", status=400)
    try:
        await call.service.write(lambda tx: tenancy.create_profile(call.service, tx, call.scope.organization, name))
    except ApiError as error:
        return await _home(call, problem=error.message, status=error.status)
    return see("/#profiles")


def sign_in_first(method: str, path: str, query: str) -> Reply:
    """Where a page that needs a session sends a browser without one; after signing in it comes back to what it asked.

    The query goes with it: a platform's answer is in there. A form is not sent twice.
    """
    after = path + (f"?{query}" if query else "")
    return see("/login" if after == "/" or method not in ("GET", "HEAD") else f"/login?next={quote(after)}")

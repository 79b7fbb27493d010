"""Pages of the dashboard, within its frame: the way around, who is signed in, in which profile and time zone.

`show` reads what a page needs together with the frame; `see` ends a form, and may leave a word for the page that is
seen next. The pieces that pages are made of are macros: `templates/ui.html`, which says how to use them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from peewee import PeeweeException

from socialpub.base.crypto import SealError
from socialpub.base.errors import ApiError
from socialpub.domain import act
from socialpub.domain.core.service import Service
from socialpub.domain.people import desk, sessions, signin, tenancy
from socialpub.domain.people.desk import Desk
from socialpub.domain.people.tenancy import Scope
from socialpub.web import edge, forms
from socialpub.web.http import Arrival, Call, Reply, Route
from socialpub.web.pages import html

NOTICE_COOKIE = "socialpub_notice"
PROVED = "password"  # what the row of an act says of a password that was given once more
NOTICE_SECONDS = 60
NOBODY = Scope("")  # whose notice the sign-in page shows
NAV = (
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
class Notice:
    """A word for the page that is seen after a form; `secret` is shown there this once."""

    text: str
    secret: str = ""
    good: bool = True


# --- A page ------------------------------------------------------------------------------------------------------


async def show(
    call: Call,
    template: str,
    read: Callable[[Desk], Mapping[str, Any]] = lambda desk: {},
    *,
    status: int = 200,
    **values: Any,
) -> Reply:
    """A page of somebody who is signed in. `read` runs in the same reader as the frame's own questions.

    Lists are read in `desk.scope`, which is narrowed to the profile that the person is in; one thing that an address
    names is read in `call.scope`, so that a link leads to it from everywhere.
    """

    found, shown = await call.service.read(lambda: _seen(call, read))
    cookie = edge.cookie_of(call.service, call.request, NOTICE_COOKIE)
    frame = around(call.service, call.request.app.ctx.pages, call.scope, call.request.path, found)
    notice = _opened(call.service, call.scope, cookie) if cookie else None
    gone = (forms.set_cookie(call.service, NOTICE_COOKIE, "", 0, path="/"),) if cookie else ()
    if shown["filled"] and call.route.method == "GET":  # else it is a form that is shown again because it was wrong
        notice = Notice("Your session had ended, so the form was not sent. Its contents are filled in again.")
    return html.page(template, status, gone, **frame | {"notice": notice} | dict(shown) | values)


async def part(call: Call, template: str, read: Callable[[Desk], Mapping[str, Any]]) -> Reply:
    """A piece of such a page, which its script asks for again; a route that is `light` gives it an ETag."""
    found, shown = await call.service.read(lambda: _seen(call, read))
    frame = around(call.service, call.request.app.ctx.pages, call.scope, "/", found)
    return html.page(template, **frame | dict(shown))


def _seen(call: Call, read: Callable[[Desk], Mapping[str, Any]]) -> tuple[Desk, Mapping[str, Any]]:
    """Who looks, and what they see: read in one go."""
    found = desk.of(call.scope)
    if found is None:
        raise ApiError("unauthenticated")
    filled = desk.kept(call.scope, call.request.path) if call.request.args.get("kept") else {}
    return found, {"filled": filled, **read(found)}


def around(service: Service, pages: Mapping[str, Route], scope: Scope, path: str, found: Desk | None) -> dict[str, Any]:
    """What every template of the dashboard is given."""
    return {
        "desk": found,
        "nav": _nav(pages, scope) if found else [],
        "path": path,
        "zone": found.zone if found else desk.UTC,
        "now_ms": service.now_ms,
        "csrf_token": scope.csrf,
        "manages": act.manages(scope),
        "owns": act.owns(scope),
        "needs_proof": found is not None and not signin.is_fresh(found.proved_at, service.now_ms),
    }


async def around_error(service: Service, request: Arrival) -> dict[str, Any]:
    """The same around an error, of whatever address; nothing where nobody is signed in, or cannot be asked for."""
    cookie = edge.cookie_of(service, request)
    if cookie is None:
        return {}
    try:
        scope = request.ctx.scope or await tenancy.authenticate_session(service, cookie)
        found = await service.read_inline(lambda: desk.of(scope), to_identify=True) if scope.session else None
    except (ApiError, PeeweeException, sqlite3.Error, OSError):
        return {}
    return around(service, request.app.ctx.pages, scope, request.path, found)


def _nav(pages: Mapping[str, Route], scope: Scope) -> list[tuple[str, str]]:
    return [(name, address) for name, address in NAV if address in pages and act.may(scope, pages[address].needs)]


# --- Proof -------------------------------------------------------------------------------------------------------


async def prove(call: Call, form: Mapping[str, str]) -> None:
    """Whoever destroys something or makes a secret has given their password lately, or does so in this form.

    ApiError `session.proof`, `rate_limited`: show the page again, which has a field for it (`ui.proof`).
    """
    if await signin.prove(call.who, call.engine.throttle, form.get("password", ""), *_whence(call)):
        await _proved(call)


async def give(call: Call, form: Mapping[str, str]) -> None:
    """The same, be it that they gave it a moment ago: for what only they may do, and nobody who finds their screen."""
    await signin.give(call.who, call.engine.throttle, form.get("password", ""), *_whence(call))
    await _proved(call)


async def _proved(call: Call) -> None:
    """Its row says what was done, and not what for: that has its own, once it is done."""
    await act.do(call.who._replace(act=call.act._replace(verb=PROVED)), sessions.proved)


def _whence(call: Call) -> tuple[str, str | None]:
    """Where a password is given: the caller's address, and the device where it is known."""
    device = edge.cookie_of(call.service, call.request, edge.DEVICE_COOKIE)
    return edge.caller(call.service, call.request), device


def said(error: ApiError) -> str:
    """What was wrong with a form, for its page again; what is no matter of the form is raised on."""
    if error.code in ("unauthenticated", "not_found") or (
        error.code == "unauthorized" and error.rule != "session.proof"
    ):
        raise error
    return error.message


# --- After a form ------------------------------------------------------------------------------------------------


def see(address: str, *cookies: str) -> Reply:
    """Go and look there (303), which ends a form's submission: reloading what is seen then does nothing twice."""
    return Reply("", 303, {"Location": address}, "text/plain", cookies)


def tell(call: Call, address: str, text: str, *, secret: str = "", good: bool = True) -> Reply:
    """The same, and the page that is seen there says so. `secret` is shown on it once: the browser alone carries it
    there, sealed, and the page that shows it takes it away.
    """
    return see(address, _notice_cookie(call.service, call.scope, Notice(text, secret, good)))


def tell_signed_out(call: Call, text: str, *cookies: str) -> Reply:
    """The session is over, and these cookies with it: the sign-in page says so (`signed_out_notice`)."""
    gone = (forms.set_cookie(call.service, cookie, "", 0, path="/") for cookie in cookies)
    return see("/login", *gone, _notice_cookie(call.service, NOBODY, Notice(text)))


def signed_out_notice(call: Call) -> tuple[Notice | None, tuple[str, ...]]:
    """What the sign-in page is to say to a browser whose session has just ended, and the cookie that takes it away."""
    cookie = edge.cookie_of(call.service, call.request, NOTICE_COOKIE)
    notice = _opened(call.service, NOBODY, cookie) if cookie else None
    gone = (forms.set_cookie(call.service, NOTICE_COOKIE, "", 0, path="/"),) if notice else ()
    return notice, gone


def _notice_cookie(service: Service, scope: Scope, notice: Notice) -> str:
    told = json.dumps(asdict(notice) | {"until": service.now_ms + NOTICE_SECONDS * 1000})
    sealed = service.runtime.vault.seal(told.encode(), _place(scope))
    return forms.set_cookie(service, NOTICE_COOKIE, sealed, NOTICE_SECONDS, path="/")


def _place(scope: Scope) -> tuple[str, str, str]:
    return ("notice", "cookie", scope.session or "")


def _opened(service: Service, scope: Scope, cookie: str) -> Notice | None:
    """The notice in a cookie that this server has sealed for this session a moment ago."""
    try:
        told = json.loads(service.runtime.vault.open(cookie, _place(scope)))
    except SealError:
        return None
    if told.pop("until") < service.now_ms:
        return None
    return Notice(**told)

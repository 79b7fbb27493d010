"""Forms of pages: their fields, their cookies, and the proof that our own page sent them."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, quote_plus

from socialpub.base import json_codec
from socialpub.base.errors import rule_error
from socialpub.domain.context.app_context import AppContext
from socialpub.web.http import request_headers
from socialpub.web.http.handler import RequestContext, is_same_token

SAVED_FORM_MAX = 48 * 1024  # as a browser writes it, beside the other fields of the sign-in
_SECRET = re.compile(r"csrf_token|password|secret|token|code")
_TOKEN = re.compile(r"[0-9a-f]{64}")


def parse(call: RequestContext) -> dict[str, str]:
    """The fields of an urlencoded form; of a repeated one the last. ApiError `http.request` for too many."""
    text, most = call.body.decode("utf-8", "replace"), call.route.form_fields
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        remedy = "Send the form as this server's page has it."
        raise rule_error("http.request", f"The form has more than {most} fields.", remediation=remedy) from error
    return dict(pairs)


def parse_verified(call: RequestContext, token: str | None) -> dict[str, str]:
    """The fields of a form that carries `token` as its `csrf_token` and comes from our own origin; else rule `csrf`."""
    form = parse(call)
    check_csrf(call, form, token)
    return form


def check_csrf(call: RequestContext, form: dict[str, str], token: str | None) -> None:
    """ApiError `csrf` unless our own page has sent this form."""
    if not token or not _is_from_our_page(call, form, token):
        raise rule_error("csrf")


def _is_from_our_page(call: RequestContext, form: dict[str, str], token: str) -> bool:
    ours = request_headers.is_same_origin(call.request.headers, call.service.base_url)
    return ours and is_same_token(form.get("csrf_token", ""), token)


def serialize(call: RequestContext) -> str:
    """The form without what is secret in it, as JSON, to be filled in again after signing in; "" where it cannot be."""
    if not request_headers.is_same_origin(call.request.headers, call.service.base_url):
        return ""
    page = to_local_path(parse(call).get("page")).partition("?")[0]
    typed = {name: value for name, value in parse(call).items() if name != "page" and not _SECRET.search(name)}
    form = json.dumps({"page": page, "fields": typed}, ensure_ascii=False)
    return form if any(typed.values()) and _is_small_enough(form) else ""


def read_saved(form: str) -> str | None:
    """What a sign-in form brings back of that, where it is in order."""
    try:
        found = json_codec.loads(form) if form and _is_small_enough(form) else {}
    except ValueError:
        return None
    typed = found.get("fields") if isinstance(found, dict) else None
    in_order = isinstance(typed, dict) and all(isinstance(value, str) for value in typed.values())
    return json.dumps({"page": to_local_path(str(found.get("page"))), "fields": typed}) if in_order else None


def _is_small_enough(form: str) -> bool:
    """Whether it finds room in the form of a sign-in, as a browser writes it."""
    return len(form) <= SAVED_FORM_MAX and len(quote_plus(form)) <= SAVED_FORM_MAX


def find_or_make_token(call: RequestContext, cookie: str) -> str:
    """The token of a form that a browser without a session is shown: the one that it has already, else a new one.

    A page that is opened twice is the same form twice: the second does not make the first one worthless.
    """
    there = request_headers.read_cookie(call.service, call.request, cookie) or ""
    return there if _TOKEN.fullmatch(there) else call.service.runtime.entropy(32).hex()


def to_local_path(value: str | None) -> str:
    """Where to go after signing in: a path of this server, whatever was asked for."""
    if not value or not value.startswith("/") or value.startswith(("//", "/\\")) or any(ord(c) < 33 for c in value):
        return "/"
    return value


def build_cookie(service: AppContext, cookie: str, value: str, seconds: int, path: str) -> str:
    """A Set-Cookie header: for this host alone, out of reach of scripts, not sent from other sites' forms."""
    secure = "; Secure" if service.base_url.startswith("https:") else ""
    name = request_headers.cookie_name(service, cookie)
    return f"{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"

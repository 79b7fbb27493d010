"""Forms of pages: fields, cookies and CSRF checks."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, quote_plus

from socialpub.base import json_codec
from socialpub.base.errors import rule_error
from socialpub.domain.context.app_context import AppContext
from socialpub.web.http import request_headers
from socialpub.web.http.handler import RequestContext, is_same_token

SAVED_FORM_MAX = 48 * 1024  # bytes, urlencoded
_SECRET = re.compile(r"csrf_token|password|secret|token|code")
_TOKEN = re.compile(r"[0-9a-f]{64}")


def parse(call: RequestContext) -> dict[str, str]:
    """Return the fields of an urlencoded form, the last of each name.

    Raises `http.request` for too many fields.
    """
    text, fields_max = call.body.decode("utf-8", "replace"), call.route.form_fields
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=fields_max)
    except ValueError as error:
        remedy = "Reload the page and send its form."
        raise rule_error("http.request", f"The form has more than {fields_max} fields.", remediation=remedy) from error
    return dict(pairs)


def parse_verified(call: RequestContext, token: str | None) -> dict[str, str]:
    """Return the fields of a form.

    Raises `csrf` unless its `csrf_token` is `token` and it comes from our origin.
    """
    form = parse(call)
    check_csrf(call, form, token)
    return form


def check_csrf(call: RequestContext, form: dict[str, str], token: str | None) -> None:
    """Raise ApiError `csrf` unless a page of this server sent this form."""
    if not token or not is_same_token(form.get("csrf_token", ""), token):
        raise rule_error("csrf")
    check_origin(call)


def check_origin(call: RequestContext) -> None:
    """Raise ApiError `csrf` for a request of a foreign page, before its form is read."""
    if not request_headers.is_same_origin(call.service, call.request):
        raise rule_error("csrf")


def serialize(call: RequestContext) -> str | None:
    """Return the form as JSON without secrets, for after sign-in.

    "" if nothing was typed, None if it is too large.
    """
    given = parse(call)
    page = to_local_path(given.get("page")).partition("?")[0]
    typed = {name: value for name, value in given.items() if name != "page" and not _SECRET.search(name)}
    form = json.dumps({"page": page, "fields": typed}, ensure_ascii=False)
    if not any(typed.values()):
        return ""
    return form if _is_small_enough(form) else None


def read_saved(form: str) -> str | None:
    """Return a form that `serialize` made and the sign-in sent back, or None if invalid."""
    try:
        found = json_codec.loads(form) if form and _is_small_enough(form) else {}
    except ValueError:
        return None
    typed = found.get("fields") if isinstance(found, dict) else None
    is_valid = isinstance(typed, dict) and all(isinstance(value, str) for value in typed.values())
    return json.dumps({"page": to_local_path(str(found.get("page"))), "fields": typed}) if is_valid else None


def _is_small_enough(form: str) -> bool:
    """Return whether the saved form, as a browser encodes it, fits into the sign-in form."""
    return len(form) <= SAVED_FORM_MAX and len(quote_plus(form)) <= SAVED_FORM_MAX


def find_or_make_token(call: RequestContext, cookie: str) -> str:
    """Return the CSRF token for a form shown without a session: the cookie's, else a new one.

    So a page that is open twice has one token, and the second page does not invalidate the first.
    """
    token = request_headers.read_cookie(call.service, call.request, cookie) or ""
    return token if _TOKEN.fullmatch(token) else call.service.runtime.entropy(32).hex()


def to_local_path(value: str | None) -> str:
    """Return the path to open after sign-in: `value` if it is a path of this server, else `/`."""
    if not value or not value.startswith("/") or value.startswith(("//", "/\\")) or any(ord(c) < 33 for c in value):
        return "/"
    return value


def build_cookie(service: AppContext, cookie: str, value: str, seconds: int) -> str:
    """Return a Set-Cookie header: for this host, HttpOnly, SameSite=Lax, and Secure on https."""
    secure = "; Secure" if service.base_url.startswith("https:") else ""
    name = request_headers.cookie_name(service, cookie)
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def delete_cookie(service: AppContext, cookie: str) -> str:
    """Return the Set-Cookie header that deletes a cookie."""
    return build_cookie(service, cookie, "", 0)

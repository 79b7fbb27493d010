"""Forms of pages: their fields, their cookies, and the proof that our own page sent them."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from socialpub.base.errors import refuse
from socialpub.domain.service import Service
from socialpub.web.http import Call, same_token


def fields(call: Call) -> dict[str, str]:
    """The fields of an urlencoded form; of a repeated one the last."""
    text = call.body.decode("utf-8", "replace")
    return {
        name: value.replace("\0", "") for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=100)
    }


def checked(call: Call, token: str | None) -> dict[str, str]:
    """The fields of a form that carries `token` as its `csrf_token` and comes from our own origin; else rule `csrf`."""
    form = fields(call)
    if not token or not same_token(form.get("csrf_token", ""), token) or not _is_ours(call):
        raise refuse("csrf")
    return form


def _is_ours(call: Call) -> bool:
    """Fetch metadata and Origin agree that the request comes from a page of this server, where a browser says so."""
    headers = call.request.headers
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin == "null":
        # What browsers send for forms of pages with `Referrer-Policy: no-referrer`, such as ours.
        return "sec-fetch-site" in headers
    if origin is None:
        return True
    named = urlsplit(origin).netloc
    return named in (urlsplit(call.service.base_url).netloc, headers.get("host", ""))


def fresh_token(call: Call) -> str:
    return call.service.runtime.entropy(32).hex()


def local_path(value: str | None) -> str:
    """Where to go after signing in: a path of this server, whatever was asked for."""
    if not value or not value.startswith("/") or value.startswith(("//", "/\\")) or any(ord(c) < 33 for c in value):
        return "/"
    return value


def name_of(service: Service, cookie: str) -> str:
    """A cookie's name; `__Host-` where the server is reached by https."""
    return ("__Host-" if service.base_url.startswith("https:") else "") + cookie


def set_cookie(service: Service, cookie: str, value: str, seconds: int, path: str) -> str:
    """A Set-Cookie header: for this host alone, out of reach of scripts, not sent from other sites' forms."""
    secure = "; Secure" if service.base_url.startswith("https:") else ""
    name = name_of(service, cookie)
    return f"{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"

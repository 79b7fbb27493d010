"""Call data beside JSON: parameters, forms and credentials."""

from __future__ import annotations

import base64
from urllib.parse import parse_qsl, unquote

from socialpub.simulator.contract import Call


def fields(call: Call) -> dict[str, str]:
    """Return the parameters from query and form; of several values, the last."""
    found = {name: values[-1] for name, values in call.query.items() if values}
    return found | dict(_pairs(call))


def values_of(call: Call, name: str) -> list[str]:
    """Return every value of a form field."""
    return [value for key, value in _pairs(call) if key == name]


def bearer(call: Call) -> str:
    """Return the bearer token from header or parameters, "" if none. Meta's scheme is OAuth."""
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() in ("bearer", "oauth") else fields(call).get("access_token", "")


def basic(call: Call) -> tuple[str, str]:
    """Return name and password of HTTP Basic; two empty strings if missing."""
    scheme, _, encoded = call.headers.get("authorization", "").partition(" ")
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return (unquote(name), unquote(secret)) if scheme.lower() == "basic" else ("", "")


def _pairs(call: Call) -> list[tuple[str, str]]:
    if "x-www-form-urlencoded" not in call.headers.get("content-type", ""):
        return []
    return parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True)

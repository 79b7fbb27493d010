"""Responses of a fake platform whose fields are replaced on the way, behind a relay."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from tests.support.odd_responses import OddResponse, with_body

LONG = "9" * 300_000
UNUSABLE: dict[str, Any] = {
    "long": LONG,
    "empty": "",
    "controls": "12\x00\r\n3\u202e4",
    "surrogate": "12\ud800",
    "no text": {"a": [LONG]},
    "number": int("9" * 3_000),
}
"""What no id, token or address can be, and no name should be stored as."""

_AROUND = ("data", "items", "elements", "user", "results", "value")


def replace_fields(names: Container[str], value: Any) -> OddResponse:
    """Replace these fields of a response and of its rows; for `x-restli-id`, the header of that name."""
    header = value[:50_000] if isinstance(value, str) and value.isprintable() else "12 3"
    extra = (f"x-restli-id: {header}".encode(),) if "x-restli-id" in names else ()
    return OddResponse("changed", with_body(lambda body: _replace_body(body, names, value)), extra=extra)


def _replace_body(body: bytes, names: Container[str], value: Any) -> bytes:
    try:
        found = json.loads(body)
    except ValueError:
        return body
    return json.dumps(_replace(found, names, value)).encode()


def _replace(found: Any, names: Container[str], value: Any) -> Any:
    if isinstance(found, list):
        return [_replace(each, names, value) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        name: value if name in names else _replace(held, names, value) if name in _AROUND else held
        for name, held in found.items()
    }

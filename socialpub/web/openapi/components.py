"""Shared parts of the OpenAPI document: headers, parameters, errors, security schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from socialpub.domain.access.idempotency import KEY_LENGTH_MAX
from socialpub.web.http.handler import Route
from socialpub.web.http.prefer_header import WAIT_MAX
from socialpub.web.openapi.schemas import component_schemas

Json = dict[str, Any]
KEY_HEADER = "idempotencyKey"
PREFER_HEADER = "prefer"
IF_NONE_MATCH_HEADER = "known"
IF_MATCH_HEADERS = {"optional": "seen", "required": "seenRequired"}

RATE_HEADERS = ("windowLimit", "windowRemaining", "windowReset", "windowPolicy", "window")
OPTIONAL_RATE_HEADERS = tuple(f"{name}Maybe" for name in RATE_HEADERS)
RETRY_AFTER = (409, 429, 503)


def ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def headers_of(*names: str) -> Json:
    return {HEADERS[name][0]: ref("headers", name) for name in names}


_COUNT = {"type": "integer", "minimum": 0}
_RATE_WINDOW_HEADERS: dict[str, tuple[str, str, Json]] = {
    "windowLimit": ("RateLimit-Limit", "Requests that fit into a window of 60 s.", {"type": "integer", "minimum": 1}),
    "windowRemaining": ("RateLimit-Remaining", "Requests that are left in the window.", _COUNT),
    "windowReset": ("RateLimit-Reset", "Seconds until the oldest request leaves the window.", _COUNT),
    "windowPolicy": (
        "RateLimit-Policy",
        "The window, in the format of the newer draft.",
        {"type": "string", "examples": ['"default";q=120;w=60']},
    ),
    "window": (
        "RateLimit",
        "Your current usage, in the format of the newer draft.",
        {"type": "string", "examples": ['"default";r=119;t=60']},
    ),
}
_RATE_LIMIT_HEADER: tuple[str, str, Json] = (
    "X-RateLimit-Limit",
    "The limit of this route, per minute.",
    {"type": "integer", "minimum": 1},
)
# Component: (header, description, schema, always there).
HEADERS: dict[str, tuple[str, str, Json, bool]] = {
    "requestId": (
        "X-Request-Id",
        "The request id that the caller sent, if it is well-formed, else a new one.",
        {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
        True,
    ),
    "rateCeiling": (*_RATE_LIMIT_HEADER, True),
    "rateCeilingMaybe": (*_RATE_LIMIT_HEADER, False),
    **{name: (*row, True) for name, row in _RATE_WINDOW_HEADERS.items()},
    **{f"{name}Maybe": (*row, False) for name, row in _RATE_WINDOW_HEADERS.items()},
    "tag": (
        "ETag",
        "Identifies this response. Send it as `If-None-Match`: while the response is unchanged, you get 304.",
        {"type": "string", "examples": ['"5c1f0a9b3e7d2468"']},
        True,
    ),
    "replayed": (
        "Idempotency-Replayed",
        "Present if this is the stored response to an earlier request with the same Idempotency-Key.",
        {"type": "string", "const": "true"},
        False,
    ),
    "retryAfter": ("Retry-After", "Seconds to wait.", _COUNT, False),
    "location": (
        "Location",
        "The batch with the outcomes of its posts.",
        {"type": "string", "examples": ["/v1/batches/01999c41-7e30-7c68-a1f5-3b8d07e4c952"]},
        True,
    ),
    "applied": (
        "Preference-Applied",
        "The preference of the request that was applied, if any.",
        {"type": "string", "examples": ["respond-async", "wait=10"]},
        False,
    ),
}

# (Header, description, always there); `{prefix}` is the setting `webhooks.header_prefix`.
DELIVERY_HEADERS: tuple[tuple[str, str, bool], ...] = (
    (
        "{prefix}-Signature",
        "`sha256=` and the hex HMAC-SHA256 of the raw body, keyed with the endpoint's secret.",
        True,
    ),
    (
        "{prefix}-Signature-Previous",
        "The signature with the secret before the last `rotate-secret`, while both are valid.",
        False,
    ),
    ("{prefix}-Event", "The event's type.", True),
    ("{prefix}-Event-Id", "The event's id; the same in every delivery of the event.", True),
    ("{prefix}-Delivery-Id", "This attempt's id.", True),
    ("{prefix}-Request-Id", "The id of the request that caused the event, if one did.", False),
    ("webhook-id", "The event's id (Standard Webhooks).", True),
    ("webhook-timestamp", "Seconds since 1970 (Standard Webhooks).", True),
    (
        "webhook-signature",
        "`v1,` and the base64 signature (Standard Webhooks); two of them, separated by a space, while two secrets are "
        "valid.",
        True,
    ),
)


def components(routes: Sequence[Route], cookie: str) -> Json:
    """Return the components that operations and webhooks refer to."""
    key = _header_parameter(
        "Idempotency-Key",
        "Makes the write safe to repeat: the same key and body get the same response for 24 hours, and the work is "
        "done once. The same key with another body is rejected.",
        "3f8a1c1e-launch-post",
        minLength=1,
        maxLength=KEY_LENGTH_MAX,
        pattern="^[ -~]+$",
    )
    prefer = _header_parameter(
        "Prefer",
        f"How long to wait for what happens (RFC 7240): `wait=N`, 1 to {WAIT_MAX} seconds, or `respond-async` to not "
        "wait. Malformed or out-of-range values are ignored.",
        "wait=10",
    )
    known = _header_parameter(
        "If-None-Match",
        "The `ETag` of a response that you have: if nothing has changed, the response is 304.",
        '"5c1f0a9b3e7d2468"',
    )
    seen = _header_parameter(
        "If-Match",
        "The `ETag` of the resource as you have read it: if it has changed since, the response is 412, and nothing is "
        "written.",
        '"5c1f0a9b3e7d2468a0b1c2d3e4f50617"',
    )
    return {
        "schemas": component_schemas(routes),
        "parameters": {
            KEY_HEADER: key,
            PREFER_HEADER: prefer,
            IF_NONE_MATCH_HEADER: known,
            IF_MATCH_HEADERS["optional"]: seen,
            IF_MATCH_HEADERS["required"]: seen | {"required": True},
        },
        "headers": {name: _header(name) for name in HEADERS},
        "responses": {"Failure": _default_failure()},
        "securitySchemes": _security_schemes(cookie),
    }


def _header_parameter(name: str, description: str, example: str, **bounds: Any) -> Json:
    about = {"description": description, "schema": {"type": "string", **bounds}, "example": example}
    return {"name": name, "in": "header", "required": False, **about}


def _header(name: str) -> Json:
    _, description, schema, always = HEADERS[name]
    return {"description": description, "required": always, "schema": schema}


def delivery_headers(prefix: str) -> list[Json]:
    """Return the header parameters of a delivery.

    They are inline: openapi-generator takes references here for duplicates.
    """
    return [
        {
            "name": name.format(prefix=prefix),
            "in": "header",
            "required": always,
            "description": description,
            "schema": {"type": "string"},
        }
        for name, description, always in DELIVERY_HEADERS
    ]


def _default_failure() -> Json:
    return {
        "description": "Any other failure has the same body: 405 (rule `http.method`, with `Allow`), 408 "
        "(`http.timeout`), 413 (`http.body_size`), 415 (`http.content_encoding`), 421 (`http.host`), 500 "
        "(`internal_error`), 503 "
        "(`storage.unavailable`, `http.busy` or `http.deadline`, with `Retry-After`).",
        "headers": headers_of("requestId", "retryAfter"),
        "content": {"application/json": {"schema": ref("schemas", "ErrorEnvelope")}},
    }


def _security_schemes(cookie: str) -> Json:
    return {
        "apiKey": {"type": "http", "scheme": "bearer", "description": "An API key: `svc_live_…` or `svc_test_…`."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie,
            "description": "A signed-in browser; reads only.",
        },
        "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token", "description": "With the session cookie."},
    }

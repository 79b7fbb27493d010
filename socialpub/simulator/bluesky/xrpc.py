"""XRPC as the reference server implements it: methods, authentication, inputs and errors.

Source: @atproto/pds 0.5.35 (packages/xrpc-server, packages/pds/src/auth-verifier.ts) and its recorded responses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from socialpub.simulator.bluesky import schemas
from socialpub.simulator.bluesky.lexicon import Boolean, Integer, InvalidError
from socialpub.simulator.bluesky.tokens import Claims
from socialpub.simulator.contract import Call, FakeResponse, RefusedError

JSON_LIMIT = 1_000_000
CORS = {"access-control-allow-origin": "*"}
_PRIVATE = {**CORS, "cache-control": "private", "vary": "Authorization, Accept-Encoding"}
OPEN = {**CORS, "vary": "Accept-Encoding"}

NAMES: Mapping[int, tuple[str, str]] = {
    400: ("InvalidRequest", "Invalid Request"),
    401: ("AuthenticationRequired", "Authentication Required"),
    403: ("Forbidden", "Forbidden"),
    413: ("PayloadTooLarge", "request entity too large"),
    415: ("UnsupportedMediaType", "Unsupported Media Type"),
    429: ("RateLimitExceeded", "Rate Limit Exceeded"),
    500: ("InternalServerError", "Internal Server Error"),
    501: ("MethodNotImplemented", "Method Not Implemented"),
    502: ("UpstreamFailure", "Upstream service unreachable"),
    503: ("NotEnoughResources", "Not Enough Resources"),
    504: ("UpstreamTimeout", "Upstream Timeout"),
}
"""The reference server's error name and message for each status."""


def error(status: int, name: str | None = None, message: str | None = None) -> RefusedError:
    """Build the refusal with this status; name and message default to the server's own."""
    usual_name, usual_message = NAMES.get(status, ("Unknown", "Unknown Error"))
    body = {"error": name or usual_name, "message": usual_message if message is None else message}
    return RefusedError(FakeResponse(status, body, OPEN))


def not_found() -> FakeResponse:
    """Build the response to an unknown path."""
    page = '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Error</title>\n</head>\n'
    return FakeResponse(
        404, page + "<body>\n<pre>Not Found</pre>\n</body>\n</html>\n", CORS, "text/html; charset=utf-8"
    )


def invalid(message: str) -> RefusedError:
    return error(400, "InvalidRequest", message)


@dataclass(frozen=True)
class Request:
    """Authenticated and validated call."""

    call: Call
    params: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)
    claims: Claims | None = None

    @property
    def did(self) -> str:
        """DID of the caller; only for methods that require a token."""
        if self.claims is None:
            raise error(401, "AuthMissing")
        return self.claims.did


Auth = Literal["none", "optional", "access", "full", "refresh", "spent", "admin"]
"""`optional`: no token required, but the response is private. `access`: any access token; `full`: none made with an app
password; `spent`: also an expired refresh token.
"""


@dataclass(frozen=True)
class Method:
    """XRPC method.

    `handle` returns JSON, or None for an empty body; `takes_blob`: the input is bytes.
    """

    verb: Literal["GET", "POST"]
    nsid: str
    handle: Callable[[Request], Any]
    auth: Auth = "none"
    takes_blob: bool = False


def serve(
    method: Method,
    call: Call,
    authenticate: Callable[[Call, Auth], Claims | None],
    charge: Callable[[Request], Mapping[str, str]],
) -> FakeResponse:
    """Handle one call in the real server's order, from method lookup to the handler.

    `charge` counts the call and returns the rate-limit headers.
    """
    if call.method not in ("GET", "POST"):
        raise invalid("XRPC requests only supports GET and POST")
    if call.method != method.verb:
        raise invalid(f"Incorrect HTTP method ({call.method}) expected {method.verb}")
    params = _params(method.nsid, call)
    headers: Mapping[str, str] = {}
    try:
        request = Request(call, params, claims=authenticate(call, method.auth))
        request = replace(request, input=_input(method, call))
        headers = charge(request)
        answer = FakeResponse(200, method.handle(request), OPEN)
    except RefusedError as refused:
        answer = refused.answer
    answer = replace(answer, headers={**answer.headers, **headers})
    return answer if method.auth == "none" else private(answer)


def private(answer: FakeResponse) -> FakeResponse:
    """Mark a response as private, because the method read the caller's token."""
    headers = {**answer.headers, **_PRIVATE}
    if answer.body is None:
        headers["vary"] = "Authorization"  # nothing to compress
    return replace(answer, headers=headers)


def _params(nsid: str, call: Call) -> dict[str, Any]:
    schema = schemas.PARAMS.get(nsid)
    if schema is None:
        return {}
    given = {key: values[0] if len(values) == 1 else values for key, values in call.query.items() if any(values)}
    params = {key: _coerced(schema.properties.get(key), value) for key, value in given.items()}
    try:
        schema.check(params)
    except InvalidError as issue:
        raise invalid(f"Invalid {nsid} params: {issue.message}") from issue
    return params


def _coerced(schema: Any, text: Any) -> Any:
    if isinstance(schema, Integer) and isinstance(text, str) and text.lstrip("-").isdecimal():
        return int(text)
    if isinstance(schema, Boolean) and text in ("true", "false"):
        return text == "true"
    return text


def _input(method: Method, call: Call) -> dict[str, Any]:
    schema = schemas.INPUTS.get(method.nsid)
    if schema is None and not method.takes_blob:
        if call.body:
            raise invalid("A request body was provided when none was expected")
        return {}
    _require_body(call)
    if schema is None:
        return {}
    _require_json(call)
    value = _parsed(call.body) if call.body else {}
    try:
        schema.check(value)
    except InvalidError as issue:
        raise invalid(str(issue)) from issue
    return dict(value)


def _require_body(call: Call) -> None:
    if "content-length" not in call.headers and "transfer-encoding" not in call.headers:
        raise invalid("A request body is expected but none was provided")
    if "/" not in content_type(call):
        raise invalid("Request encoding (Content-Type) required but not provided")


def _require_json(call: Call) -> None:
    encoding = content_type(call)
    if encoding != "application/json":
        raise invalid(f"Wrong request encoding (Content-Type): {encoding}")
    if len(call.body) > JSON_LIMIT:
        raise error(413, "PayloadTooLargeError")


def content_type(call: Call) -> str:
    """Return the media type of the body without parameters, or ""."""
    return call.headers.get("content-type", "").partition(";")[0].strip()


def _parsed(body: bytes) -> Any:
    try:
        value = json.loads(body, parse_float=_whole, parse_constant=_no_constant)
    except ValueError as fault:
        raise error(400, "SyntaxError", str(fault)) from fault
    if not isinstance(value, dict | list):
        raise error(400, "SyntaxError", f"Unexpected token '{body[:1].decode()}', {body.decode()!r} is not valid JSON")
    return value


def _whole(text: str) -> int | float:
    """Parse a number like JavaScript, for which 1.0 is 1."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _no_constant(text: str) -> None:
    raise ValueError(f"Unexpected token '{text[0]}', {json.dumps(text)} is not valid JSON")

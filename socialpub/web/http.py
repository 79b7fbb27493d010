"""What handlers are given and what they give back: a Call, a Reply, and how bytes become both."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel
from sanic import HTTPResponse, Request
from sanic.exceptions import BadURL
from sanic.http import Http

from socialpub.base import crypto
from socialpub.base.errors import refuse
from socialpub.domain import issues, limits, schemas
from socialpub.domain.jobs import Engine
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.web.parts import FilePart

M = TypeVar("M", bound=BaseModel)
BODY_MAX = 8 * 1024 * 1024
BODY_SECONDS = 15.0
SESSION_COOKIE = "socialpub_session"
Guard = Literal["key", "read", "session", "page", "open"]
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_INDEXED = re.compile(r"(.+?)\[\d*\]")


@dataclass(frozen=True)
class Route:
    """One line of the route table: address, who may, which rate limit, and the shapes for OpenAPI.

    `guard`: "key" (a Bearer key only), "read" (key or session), "session" (session only, JSON),
    "page" (session only, a page or its form), "open" (anybody).
    `errors`: ids of service rules, and codes without a rule. A route without `answers` is a page, or tells of others.
    `before`: what a session-only operation tells everybody who is known, before it says who may.
    `receive`: reads the body in place of `read_body`, and what it answers is `Call.received`.
    """

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Reply]]
    guard: Guard = "open"
    limit: Literal["posts", "media", "writes", "reads"] = "reads"
    body: type[BaseModel] | None = None
    query: type[BaseModel] = schemas.NoQuery
    answers: Mapping[int, type[BaseModel]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    before: Callable[[Service, Mapping[str, str]], object] = lambda service, parts: None
    receive: Callable[[Call], Awaitable[Any]] | None = None

    @property
    def api(self) -> bool:
        return self.path.startswith("/v1")


@dataclass
class Call:
    """One request on its way through a handler."""

    request: Request
    route: Route
    service: Service
    engine: Engine
    scope: Scope
    body: bytes = b""
    key: limits.Key | None = None
    received: Any = None

    @property
    def request_id(self) -> str:
        return str(self.request.ctx.request_id)

    def path_value(self, name: str) -> str:
        return str(self.request.match_info[name])

    def parsed(self, model: type[M]) -> M:
        """The request's JSON body; none is `{}` where nothing is required. ApiError `validation_failed`."""
        self.query(self.route.query)
        nothing = b"" if any(field.is_required() for field in model.model_fields.values()) else b"{}"
        return issues.parse_body(model, self.body or nothing)

    def query(self, model: type[M]) -> M:
        """The query parameters; ApiError `validation_failed`, an unknown one included."""
        return issues.parse_object(model, query_values(self.request.query_string, model))


@dataclass(frozen=True)
class Reply:
    """An answer: `body` is JSON, text already serialized, or a part of a file."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    def response(self) -> HTTPResponse:
        if isinstance(self.body, FilePart):
            return self.body.response(self.status, self.headers, self.content_type)
        text = self.body if isinstance(self.body, str | bytes) else dumps(self.body)
        return HTTPResponse(text, self.status, dict(self.headers), self.content_type)


def kept(answer: limits.Kept) -> Reply:
    """A write's kept answer, marked when it is a replay."""
    return Reply(answer.body, answer.status, {"Idempotency-Replayed": "true"} if answer.replayed else {})


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- Reading a request -------------------------------------------------------------------------------------------


class Arrival(Request):
    """A request whose target may be none: Sanic would drop the connection without an answer."""

    def __init__(self, url_bytes: bytes, *args: Any, **kwargs: Any) -> None:
        bad = False
        try:
            super().__init__(url_bytes, *args, **kwargs)
        except BadURL:
            super().__init__(b"*", *args, **kwargs)
            bad = True
        self.ctx.bad_target = bad


def check_type(request: Request, body: bytes) -> None:
    """ApiError `http.request` for a body that does not say it is JSON: no form of another site can say that."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise refuse("http.request", "On this address the Content-Type must be application/json.")


def is_broken(request: Request) -> bool:
    """Whether the request line or the headers could not be read: then there is no request to speak of."""
    return request.method == "NONE" or bool(request.ctx.bad_target)


def hang_up(request: Request) -> None:
    """Close the connection after the answer, and do not wait for the rest of the body."""
    if isinstance(request.stream, Http):
        request.stream.keep_alive = False
        request.stream.request_body = None


def bound_rest(request: Request) -> None:
    """Of a body that nobody will read, Sanic takes at most this much before it closes the connection."""
    if isinstance(request.stream, Http):
        request.stream.request_max_size = min(request.stream.request_max_size, 2 * BODY_MAX)


async def read_body(request: Request) -> bytes:
    """The whole body, at most 8 MiB and 15 s; ApiError `http.body_size`, `http.timeout`."""
    if int(request.headers.get("content-length") or 0) > BODY_MAX:
        raise refuse("http.body_size")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _whole(request)
    except TimeoutError:
        hang_up(request)
        raise refuse("http.timeout") from None


async def _whole(request: Request) -> bytes:
    body = bytearray()
    stream: Any = request.stream  # Sanic calls it a Stream; it is one that can be walked
    if stream is not None:
        async for chunk in stream:
            body += chunk
            if len(body) > BODY_MAX:
                raise refuse("http.body_size")
    return bytes(body)


def query_values(text: str, model: type[BaseModel]) -> dict[str, Any]:
    """Query parameters as the model takes them: lists repeated, comma-separated, or as name[] and name[0]."""
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    values: dict[str, Any] = {}
    for raw, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
        match = _INDEXED.fullmatch(raw)
        name = match[1] if match and _is_list(fields.get(match[1])) else raw
        if _is_list(fields.get(name)):
            values.setdefault(name, []).extend(value.split(","))
        else:
            values[name] = _number(value) if fields.get(name) is int else value
    return values


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(part) is list for part in get_args(annotation))


def _number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII) else value


def request_id(service: Service, request: Request) -> str:
    """The caller's X-Request-Id when it is well-formed, else a new one."""
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else service.runtime.ids.prefixed("req_")


def trace_id(request: Request) -> str | None:
    """The trace id of a valid W3C traceparent header."""
    match = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return match[1] if match else None


def bearer(request: Request) -> str | None:
    """The presented API key; "" for an Authorization header of another form, None without one."""
    values = request.headers.getall("authorization", [])
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and scheme.lower() == "bearer" else ""


def session_cookie(service: Service, request: Request) -> str | None:
    """The session cookie's value; `__Host-` where the server is reached by https."""
    cookie = request.cookies.get(cookie_name(service))
    return str(cookie) if cookie else None


def cookie_name(service: Service) -> str:
    return ("__Host-" if service.base_url.startswith("https:") else "") + SESSION_COOKIE


def client_address(service: Service, request: Request) -> str:
    """The caller's address: the last one in X-Forwarded-For that is not a trusted proxy, if the peer is one."""
    trusted = service.runtime.settings.server.trusted_proxies
    address = str(request.conn_info.client_ip if request.conn_info else "")
    forwarded = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    while address in trusted and forwarded:
        candidate = forwarded.pop()
        try:
            address = str(ipaddress.ip_address(candidate))
        except ValueError:
            break
    return address


def wants_html(request: Request) -> bool:
    """A browser outside the API gets pages in place of envelopes."""
    return not request.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")


def same_token(a: str, b: str) -> bool:
    return crypto.same(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))

"""The types that handlers use (`Route`, `RequestContext`, `HandlerResponse`), and parsing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel
from sanic import Request
from sanic.compat import Header
from sanic.exceptions import BadURL

from socialpub.base.concurrency.admission import Permit
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.key_scopes import RouteScope
from socialpub.base.security import crypto
from socialpub.domain.access import audit_log, idempotency, rate_limits
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media.files import IncomingFile
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import UUID_PATTERN, EmptyQuery, ProfileQuery
from socialpub.web.http import request_headers
from socialpub.web.http.file_response import FileRangeBody, FileResponse
from socialpub.web.http.operation import Operation
from socialpub.web.http.request_body import FORM_MAX, SMALL_BODY_MAX, JsonBody
from socialpub.web.http.sanic_overrides import ServerResponse

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
POST, GET, PATCH, PUT, DELETE = "POST", "GET", "PATCH", "PUT", "DELETE"
QUERY_MAX = 100  # parameters
Guard = Literal["key", "read", "session", "page", "open"]
_UUID = re.compile(UUID_PATTERN)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(  # only a later version than 00 may have more than four parts
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_BLANKS = " \t"
_INDEXED = re.compile(r"(.+?)\[\d*\]")


@dataclass(frozen=True, eq=False)
class Route:
    """A route: its address, handler, permissions, limits and description in the reference.

    `guard`: "key" (API key only), "read" (key or session), "session" (session only, JSON), "page" (session only, a page
    or its form), "open" (no authentication).
    `scope`: the scope that an API key needs (`key_scopes.py`), or "any"; every route of the API has one.
    `limit`: the rate limit of the settings' section `[limits]`; it applies below `/v1`, and to OAuth endpoints.
    `operation`: the description in the API reference; None for pages and machine endpoints.
    `roles`: the user roles that may call it; empty for all.
    `recent_password`: the user must have entered the password recently (rule `session.proof`).
    `precheck`: called after authentication and before authorization, so that its ApiError comes first.
    `receive`: reads the body instead of the pipeline; its result is `RequestContext.received`.
    `body_bytes`: the longest body, if not the default of `body_max`. `form_fields`: the most fields of a form.
    `constant`: every client gets the same response until the server restarts, so it is cached.
    `cancellable`: the handler changes nothing; it runs in the request's task and stops if the client disconnects.
    `prefer_wait`: the response may wait for what happens; the `Prefer` header says how long.
    `if_match`: the write takes the ETag of what it changes as `If-Match`, or requires it.
    `is_oauth`: part of the sign-in of assistants, so not found unless the setting `mcp.oauth` is on.
    """

    method: str
    path: str
    handler: Callable[[RequestContext], Coroutine[Any, Any, HandlerResponse]]
    _: KW_ONLY
    guard: Guard = "open"
    scope: RouteScope | None = None
    limit: Literal["posts", "media", "writes", "reads", "failed_logins"] = "reads"
    operation: Operation | None = None
    roles: tuple[str, ...] = ()
    recent_password: bool = False
    precheck: Callable[[AppContext, Mapping[str, str]], object] = lambda service, parts: None
    receive: Callable[[RequestContext], Awaitable[Any]] | None = None
    body_bytes: int | None = None
    form_fields: int = 100
    constant: bool = False
    cancellable: bool = False
    prefer_wait: bool = False
    if_match: Literal["optional", "required"] | None = None
    is_oauth: bool = False

    @cached_property
    def body(self) -> type[BaseModel] | None:
        return self.operation.body if self.operation else None

    @cached_property
    def query(self) -> type[BaseModel]:
        return self.operation.query if self.operation else EmptyQuery

    @cached_property
    def body_max(self) -> int:
        """The longest body in bytes: 0 for GET, else by default that of a form or small JSON body."""
        if self.body_bytes is not None:
            return self.body_bytes
        if self.method == "GET":
            return 0
        return FORM_MAX if self.body is None else SMALL_BODY_MAX

    @cached_property
    def has_etag(self) -> bool:
        return self.cancellable and self.guard != "open"

    @cached_property
    def is_api(self) -> bool:
        return self.path.startswith("/v1")

    @cached_property
    def is_oauth_endpoint(self) -> bool:
        """True for the OAuth endpoints that programs call: their errors follow RFC 6749."""
        return self.is_oauth and self.guard == "open" and self.method == POST

    @cached_property
    def rate_window(self) -> str:
        """The part of a rate limit's key that names this route."""
        return f"{self.method}:{self.path}"


@dataclass
class RequestContext:
    """A request with its route, its authenticated scope and the services, as a handler gets it."""

    request: ServerRequest
    route: Route
    service: AppContext
    engine: BackgroundEngine
    scope: Scope
    body: bytes = b""
    json: JsonBody | None = None
    fingerprint: str = ""  # hash of the query and the JSON body as sent
    permit: Permit | None = None
    key: idempotency.IdempotencyKey | None = None
    received: Any = None
    form_error: ApiError | None = None  # why the form of this request is shown again
    filled: Mapping[str, str] = field(default_factory=dict)  # the fields of that form
    is_disconnected: bool = False
    on_disconnect: Callable[[], object] = lambda: None
    _query: Any = None

    @property
    def pool(self) -> Executor:
        """The executor for slow work, in the share of the caller's organization."""
        return self.service.executors.reading.of(ShareKey(owner=self.scope.organization))

    async def read_inline(self, run: Callable[[], T]) -> T:
        """Run `AppContext.read_inline`, paced while posts are being published."""
        await self.service.pace_reads(self.scope.organization)
        return await self.service.read_inline(run)

    async def read(self, run: Callable[[], T]) -> T:
        """Run `AppContext.read`, paced while posts are being published."""
        await self.service.pace_reads(self.scope.organization)
        return await self.service.read(run)

    @property
    def actor(self) -> Actor:
        """The caller as an actor, in the query's profile where the route has that parameter."""
        scope = self.profile_scope if self.route.query is ProfileQuery else self.scope
        return Actor(self.service, scope, self.audit_context, self.key)

    @property
    def audit_context(self) -> audit_log.AuditContext:
        """The data of this request for the audit log."""
        scope, request = self.scope, self.request
        verb = f"{request.method} {self.route.path}"
        return audit_log.AuditContext(
            verb, scope.organization or None, scope.key, scope.user, request.client_line, request.request_id
        )

    async def enter_checking(self) -> Permit:
        """Wait for one of the organization's permits to check a request."""
        return await self.service.admission.checking.enter(self.scope.organization)

    def release_permit(self) -> None:
        """Release the request's permit while it only waits, so that another may start."""
        if self.permit is not None:
            self.permit.rest()

    def disconnect(self) -> None:
        """Record that the client disconnected before its response was sent."""
        self.is_disconnected = True
        self.on_disconnect()

    @property
    def profile_scope(self) -> Scope:
        """The scope, limited to the profile in the query.

        Raises ApiError `not_found` outside the scope.
        """
        profile = self.scope.narrowed(self.query(ProfileQuery).profile_id)
        return self.scope if profile == self.scope.profile else replace(self.scope, profile=profile)

    def path_value(self, name: str) -> str:
        """Return a part of the path. A UUID in capitals is the same id, as in a body or query."""
        value = str(self.request.match_info[name])
        return value.lower() if _UUID.fullmatch(value) else value

    async def parse_body(self, model: type[M]) -> M:
        """Parse the JSON body; no body means `{}` if no field is required.

        Raises ApiError `validation_failed`.
        """
        assert self.json is not None, "the pipeline has read it"
        self.query(self.route.query)
        parsed = await self.json.parse(model, self.body or _default_body(model))
        self.body = b""
        self.json.release()
        return parsed

    @property
    def inline_files(self) -> Mapping[str, IncomingFile]:
        """The files inside the JSON body, by the hash that replaces them in the parsed request."""
        return self.json.files if self.json else {}

    def close(self) -> None:
        """Free the body and delete its files that were not stored."""
        self.body = b""
        if self.json:
            self.json.close()

    def query(self, model: type[M]) -> M:
        """Parse the query parameters. Raises ApiError `validation_failed`, also for unknown ones."""
        if self._query is None or type(self._query) is not model:  # the pipeline may have parsed it before
            text = self.request.query_string
            self._query = validation.parse_object(model, parse_query(text, model)) if text else _default_query(model)
        return self._query


class HandlerResponse(NamedTuple):
    """A handler's response: `body` is JSON data, serialized text, or a range of a file."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = _NO_HEADERS
    content_type: str = "application/json"
    cookies: tuple[str, ...] = ()  # each a Set-Cookie header

    def response(self, on_lost: Callable[[], object] = lambda: None) -> ServerResponse:
        """Return the Sanic response.

        `on_lost` is called if the client disconnects before it is sent.
        """
        if isinstance(self.body, FileRangeBody):
            return FileResponse(self.body, self.status, self.headers, self.content_type)
        body = self.body if isinstance(self.body, str | bytes) else dumps(self.body)
        return ServerResponse(body, self.status, self.headers, self.content_type, cookies=self.cookies, on_lost=on_lost)


def respond(answer: idempotency.StoredResponse, **headers: str) -> HandlerResponse:
    """Return the stored response of a write, marked if replayed, with additional `headers`."""
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return HandlerResponse(answer.body, answer.status, headers)


# --- Requests ----------------------------------------------------------------------------------------------------


class RequestState:
    """The state of a request outside its handler: Sanic's `request.ctx`."""

    bad_target = False
    began: float | None = None
    route: Route | None = None
    scope: Scope | None = None
    rate: rate_limits.RateLimitState | None = None
    error: ApiError | None = None
    span: Any = None  # if tracing is on
    error_link: Mapping[str, str] | None = None  # address and text of a link on the error page


class ServerRequest(Request[Any, Any]):
    """A request that may have an invalid target.

    Sanic would close such a connection without a response.
    """

    ctx: RequestState

    def __init__(self, *, url_bytes: bytes, headers: Header, **given: Any) -> None:
        # Sanic does not strip trailing white space of values, and knows `chunked`, the only coding that `check_head`
        # accepts, in lower case only.
        fields = headers
        if any(value[-1:] in _BLANKS for value in headers.values()):
            fields = Header([(name, value.rstrip(_BLANKS)) for name, value in headers.items()])
        if "transfer-encoding" in fields:
            fields["transfer-encoding"] = "chunked"
        try:
            super().__init__(url_bytes=_add_path(url_bytes), headers=fields, **given)
        except (BadURL, ValueError):
            super().__init__(url_bytes=b"*", headers=fields, **given)
            self.ctx.bad_target = True
        self.raw_url = url_bytes

    @staticmethod
    def make_context() -> RequestState:
        return RequestState()

    @property
    def _service(self) -> AppContext:
        service: AppContext = self.app.ctx.service
        return service

    @cached_property
    def request_id(self) -> str:
        """The client's X-Request-Id if it is well-formed, else a new id."""
        given, service = self.headers.get("x-request-id"), self._service
        return given if given and _REQUEST_ID.fullmatch(given) else service.runtime.ids.prefixed("req_")

    @cached_property
    def client(self) -> str:
        """The client's address, as rate limits count it."""
        return request_headers.find_client(self._service, self)

    @property
    def client_line(self) -> str:
        """The client's address as one line of ASCII, also if a proxy sent other bytes."""
        return ascii(self.client)[1:-1]


def _add_path(url: bytes) -> bytes:
    """Return the target with a path: an absolute URL may lack one.

    Raises ValueError for an invalid target.
    """
    if url.startswith(b"/"):
        return url
    parts = urlsplit(url)
    return parts._replace(path=parts.path or b"/").geturl()


def has_body(request: ServerRequest) -> bool:
    """Return whether the request has a body, even an empty one."""
    return bool(getattr(request.stream, "request_body", None))


def check_content_type(request: Request, body: bytes) -> None:
    """Raise `http.request` unless the body is declared as JSON.

    No form of another site can do that.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise rule_error("http.request", "On this address the Content-Type must be application/json.")


def is_malformed(request: ServerRequest) -> bool:
    """Return whether the request line or the headers could not be parsed."""
    return request.method == "NONE" or request.ctx.bad_target


@lru_cache
def _default_body(model: type[BaseModel]) -> bytes:
    """Return the body that stands for a missing one."""
    return b"" if any(info.is_required() for info in model.model_fields.values()) else b"{}"


@lru_cache
def _default_query(model: type[M]) -> M:
    """Return the parsed empty query. Query models are frozen, so it is shared."""
    return validation.parse_object(model, {})


def parse_query(text: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return query parameters for the model.

    Lists may be repeated, comma-separated, `name[]` or `name[0]`.
    """
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    values: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=QUERY_MAX)
    except ValueError as error:
        remedy = "Remove the parameters that this address does not accept."
        raise rule_error(
            "http.request", f"The query has more than {QUERY_MAX} parameters.", remediation=remedy
        ) from error
    for raw, value in pairs:
        match = _INDEXED.fullmatch(raw)
        name = match[1] if match and _is_list(fields.get(match[1])) else raw
        if _is_list(fields.get(name)):
            values.setdefault(name, []).extend(value.split(","))
        else:
            read = _parse_number(value) if fields.get(name) is int else value
            if values.setdefault(name, read) != read and name in fields:
                message = f"{name}: The query has two values for it."
                raise ApiError("validation_failed", message, rule=name, remediation="Send it once.")
    return values


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(part) is list for part in get_args(annotation))


def _parse_number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII) else value


def find_trace_id(request: ServerRequest) -> str | None:
    """Return the trace id of a valid W3C traceparent header."""
    match = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return match[1] if match else None


def find_bearer(request: ServerRequest) -> str | None:
    """Return the presented API key: "" for a malformed Authorization header, None without one."""
    values = request.headers.getall("authorization", [])
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and scheme.lower() == "bearer" else ""


def should_send_html(request: ServerRequest) -> bool:
    """Return whether errors are rendered as pages: for browsers, outside the API."""
    return not request.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")


def should_send_json(request: ServerRequest) -> bool:
    """Return whether the client takes JSON and no page: a script of a page, or a program."""
    return "application/json" in request.headers.get("accept", "") and not should_send_html(request)


def is_same_token(a: str, b: str) -> bool:
    return crypto.is_equal(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))

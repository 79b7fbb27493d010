"""What handlers are given and what they give back: a Call, a Reply, and how bytes become both."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, replace
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
from socialpub.base.security import crypto
from socialpub.domain.access import audit_log, idempotency, rate_limits
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media.files import IncomingFile
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import EmptyQuery, ProfileQuery
from socialpub.web.http import request_headers
from socialpub.web.http.file_response import FileRangeBody
from socialpub.web.http.operation import Operation
from socialpub.web.http.request_body import FORM_MAX, SMALL_BODY_MAX, JsonBody
from socialpub.web.http.sanic_overrides import ServerResponse

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
POST, GET, PATCH, DELETE = "POST", "GET", "PATCH", "DELETE"
QUERY_MAX = 100  # parameters
Guard = Literal["key", "read", "session", "page", "open"]
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_INDEXED = re.compile(r"(.+?)\[\d*\]")


@dataclass(frozen=True, eq=False)
class Route:
    """One route: an address, its handler, who may call it, its limits, and its description in the API reference.

    `guard`: "key" (API key only), "read" (key or session), "session" (session only, JSON),
    "page" (session only, a page or its form), "open" (no authentication).
    `limit`: the rate limit of the settings' section `[limits]`; it applies below `/v1`.
    `operation`: the description in the API reference; None for pages and machine endpoints.
    `roles`: the user roles that may call it; empty for all.
    `recent_password`: the user must have entered the password recently (rule `session.proof`).
    `precheck`: called after authentication and before authorization, so that its ApiError comes first.
    `receive`: reads the body instead of the pipeline; its result is `RequestContext.received`.
    `body_bytes`: the longest body, if not the default of `body_max`. `form_fields`: the most fields of a form.
    `constant`: every client gets the same response until the server restarts, so it is cached.
    `cancellable`: the handler changes nothing; it runs in the request's task and stops if the client disconnects.
    `prefer_wait`: the response describes a running batch; the `Prefer` header says how long to wait for its end.
    """

    method: str
    path: str
    handler: Callable[[RequestContext], Coroutine[Any, Any, HandlerResponse]]
    _: KW_ONLY
    guard: Guard = "open"
    limit: Literal["posts", "media", "writes", "reads"] = "reads"
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

    @cached_property
    def body(self) -> type[BaseModel] | None:
        return self.operation.body if self.operation else None

    @cached_property
    def query(self) -> type[BaseModel]:
        return self.operation.query if self.operation else EmptyQuery

    @cached_property
    def body_max(self) -> int:
        """The longest body in bytes: 0 for GET, else by default the limit of a form or of a small JSON body."""
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
    def rate_window(self) -> str:
        """The part of a rate limit's key that names this route."""
        return f"{self.method}:{self.path}"


@dataclass
class RequestContext:
    """One request on its way through a handler."""

    request: ServerRequest
    route: Route
    service: AppContext
    engine: BackgroundEngine
    scope: Scope
    body: bytes = b""
    json: JsonBody | None = None
    sent: str = ""  # a hash over the query and the JSON body as it was sent
    permit: Permit | None = None
    key: idempotency.IdempotencyKey | None = None
    received: Any = None
    gone: bool = False  # the client: nobody will hear the answer
    when_gone: Callable[[], object] = lambda: None
    _query: Any = None

    @property
    def pool(self) -> Executor:
        """For what takes long, in the caller's share."""
        return self.service.executors.reading.of(ShareKey(owner=self.scope.organization))

    async def read_inline(self, run: Callable[[], T]) -> T:
        """`AppContext.read_inline` for the caller, at the pace of an organization that reads while posts go out."""
        await self.service.pace_reads(self.scope.organization)
        return await self.service.read_inline(run)

    async def read(self, run: Callable[[], T]) -> T:
        """`AppContext.read`, at the same pace."""
        await self.service.pace_reads(self.scope.organization)
        return await self.service.read(run)

    @property
    def who(self) -> Actor:
        """Who acts: the caller, in the profile that the query names where this route looks in one."""
        scope = self.narrowed if self.route.query is ProfileQuery else self.scope
        return Actor(self.service, scope, self.act, self.key)

    @property
    def act(self) -> audit_log.AuditContext:
        """What is being done, for the row beside it."""
        scope, request = self.scope, self.request
        verb, where = f"{request.method} {self.route.path}", request_headers.find_loggable_client(self.service, request)
        return audit_log.AuditContext(
            verb, scope.organization or None, scope.key, scope.user, where, request.ctx.request_id
        )

    async def turn(self) -> Permit:
        """One of the permits of the caller's organization to check what it asks: others need not wait for all of it."""
        return await self.service.admission.checking.enter(self.scope.organization)

    def rest(self) -> None:
        """What follows waits for others: the next of this organization may come in."""
        if self.permit is not None:
            self.permit.rest()

    def lose(self) -> None:
        """The client has gone before it had its answer."""
        self.gone = True
        self.when_gone()

    @property
    def request_id(self) -> str:
        return self.request.ctx.request_id

    @property
    def narrowed(self) -> Scope:
        """The scope, narrowed to the profile that the query names; `not_found` for a profile out of scope."""
        profile = self.scope.narrowed(self.query(ProfileQuery).profile_id)
        return self.scope if profile == self.scope.profile else replace(self.scope, profile=profile)

    def path_value(self, name: str) -> str:
        return str(self.request.match_info[name])

    async def parsed(self, model: type[M]) -> M:
        """The request's JSON body; none is `{}` where nothing is required. ApiError `validation_failed`."""
        assert self.json is not None, "the door has read it"
        self.query(self.route.query)
        parsed = await self.json.parse(model, self.body or _default_body(model))
        self.body = b""
        self.json.forget()
        return parsed

    @property
    def inline(self) -> Mapping[str, IncomingFile]:
        """The files that the body carries, by their hash, which stands in their place in the request."""
        return self.json.files if self.json else {}

    def close(self) -> None:
        """The request is answered: let go of what it brought and nobody kept."""
        self.body = b""
        if self.json:
            self.json.close()

    def query(self, model: type[M]) -> M:
        """The query parameters; ApiError `validation_failed`, an unknown one included."""
        if self._query is None or type(self._query) is not model:  # the door has asked before the handler does
            asked = self.request.query_string
            self._query = validation.parse_object(model, parse_query(asked, model)) if asked else _default_query(model)
        return self._query


class HandlerResponse(NamedTuple):
    """An answer: `body` is JSON, text already serialized, or a part of a file."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = _NO_HEADERS
    content_type: str = "application/json"
    cookies: tuple[str, ...] = ()  # each a Set-Cookie header

    def response(self, on_lost: Callable[[], object] = lambda: None) -> ServerResponse:
        """Return it as Sanic sends it; `on_lost` is called where the client has gone before that."""
        if isinstance(self.body, FileRangeBody):
            return self.body.response(self.status, self.headers, self.content_type)
        body = self.body if isinstance(self.body, str | bytes) else dumps(self.body)
        return ServerResponse(body, self.status, self.headers, self.content_type, cookies=self.cookies, on_lost=on_lost)


def respond(answer: idempotency.StoredResponse, **headers: str) -> HandlerResponse:
    """A write's kept answer, marked when it is a replay, with `headers` of its own."""
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return HandlerResponse(answer.body, answer.status, headers)


# --- Reading a request -------------------------------------------------------------------------------------------


class RequestState:
    """What becomes known of a request on its way: its `ctx`."""

    bad_target = False
    request_id = ""
    began: float | None = None
    route: Route | None = None  # ours; none where nothing is
    scope: Scope | None = None
    rate: rate_limits.RateLimitState | None = None
    error: ApiError | None = None
    span: Any = None  # where there are traces
    way_on: Mapping[str, str] | None = None  # from a page that tells of an error


class ServerRequest(Request[Any, Any]):
    """A request, also one whose target is none: Sanic would close the connection without a response."""

    ctx: RequestState

    def __init__(self, *, url_bytes: bytes, headers: Header, **given: Any) -> None:
        # Sanic leaves the white space behind a value, and knows `chunked`, the one coding that `check_head` lets pass,
        # in small letters only.
        fields = Header([(name, value.rstrip(" \t")) for name, value in headers.items()])
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


def _add_path(url: bytes) -> bytes:
    """Return a target with its path, which a whole address may lack; ValueError for what is no address."""
    if url.startswith(b"/"):
        return url
    parts = urlsplit(url)
    return parts._replace(path=parts.path or b"/").geturl()


def has_body(request: ServerRequest) -> bool:
    """Whether a body comes with it, be it empty."""
    return bool(getattr(request.stream, "request_body", None))


def check_content_type(request: Request, body: bytes) -> None:
    """ApiError `http.request` for a body that does not say it is JSON: no form of another site can say that."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise rule_error("http.request", "On this address the Content-Type must be application/json.")


def is_malformed(request: ServerRequest) -> bool:
    """Whether the request line or the headers could not be read: then there is no request to speak of."""
    return request.method == "NONE" or request.ctx.bad_target


@lru_cache
def _default_body(model: type[BaseModel]) -> bytes:
    """What a request without a body says."""
    return b"" if any(info.is_required() for info in model.model_fields.values()) else b"{}"


@lru_cache
def _default_query(model: type[M]) -> M:
    """Queries are frozen, so one without parameters is made once."""
    return validation.parse_object(model, {})


def parse_query(text: str, model: type[BaseModel]) -> dict[str, Any]:
    """Query parameters as the model takes them: lists repeated, comma-separated, or as name[] and name[0]."""
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    values: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=QUERY_MAX)
    except ValueError as error:
        remedy = "Leave out what this address does not take."
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
                message = f"{name}: The query names it twice, with two values."
                raise ApiError("validation_failed", message, rule=name, remediation="Send it once.")
    return values


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(part) is list for part in get_args(annotation))


def _parse_number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII) else value


def choose_request_id(service: AppContext, request: ServerRequest) -> str:
    """The caller's X-Request-Id when it is well-formed, else a new one."""
    given = request.headers.get("x-request-id")
    return given if given and _REQUEST_ID.fullmatch(given) else service.runtime.ids.prefixed("req_")


def find_trace_id(request: ServerRequest) -> str | None:
    """The trace id of a valid W3C traceparent header."""
    match = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return match[1] if match else None


def find_bearer(request: ServerRequest) -> str | None:
    """The presented API key; "" for an Authorization header of another form, None without one."""
    values = request.headers.getall("authorization", [])
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and scheme.lower() == "bearer" else ""


def should_send_html(request: ServerRequest) -> bool:
    """A browser outside the API gets pages in place of envelopes."""
    return not request.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")


def is_same_token(a: str, b: str) -> bool:
    return crypto.is_equal(a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass"))

"""The steps of every request: authentication, rate limit, body, authorization, handler.

Routing comes before, error responses after (`error_responses.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from sanic import HTTPResponse

from socialpub.base import key_scopes
from socialpub.base.concurrency.admission import Pacer
from socialpub.base.concurrency.fair_executor import ANONYMOUS_KEY, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions, authentication, idempotency, rate_limits
from socialpub.domain.access.authentication import Scope
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files
from socialpub.domain.schemas.common import EmptyRequest
from socialpub.store.database import current_requester
from socialpub.web.dashboard import sign_in
from socialpub.web.http import etags, forms, handler, multipart, request_body, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route, ServerRequest
from socialpub.web.http.page_cache import PageCache

log = logging.getLogger("socialpub.web")

ANONYMOUS_SCOPE = Scope("")
STOPPING_RETRY_SECONDS = 5
REFUSAL_SECONDS_PER_MIB = 0.025  # of refused large bodies, for each organization
REFUSAL_DELAY_MAX = 5.0  # seconds


class RequestPipeline:
    """The steps that a request runs through, and the count of running handlers for shutdown."""

    def __init__(self, service: AppContext, engine: BackgroundEngine) -> None:
        self.service, self.engine = service, engine
        self.windows = rate_limits.SlidingWindowLimiter(service.runtime.clock)
        self.page_cache = PageCache()
        self.refusals = Pacer(REFUSAL_SECONDS_PER_MIB, REFUSAL_DELAY_MAX)
        self.budgets = request_body.BodyBudgets()
        self._running, self._idle = 0, asyncio.Event()  # running handlers; set when a closed pipeline has none
        self._closed = False

    async def handle_public(self, request: ServerRequest, route: Route) -> HTTPResponse:
        """Run a handler without checks: for cheap public routes outside the API."""
        request.ctx.route = route
        if handler.has_body(request):
            await request_body.discard_body(request)
        reply = await route.handler(RequestContext(request, route, self.service, self.engine, ANONYMOUS_SCOPE))
        return reply.response()

    async def handle_checked(self, request: ServerRequest, route: Route) -> HTTPResponse:
        request.ctx.route = route
        current_requester.set(ANONYMOUS_KEY)
        if route.is_oauth and not self.service.runtime.settings.mcp.oauth:
            raise ApiError("not_found", "There is nothing at this address.")
        scope = ANONYMOUS_SCOPE
        if route.guard != "open":
            try:
                scope = await self._authenticate(request, route)
            except ApiError as error:
                is_page = route.guard == "page" and not handler.should_send_json(request)
                if not is_page or error.code != "unauthenticated":
                    raise
                return (await self._sign_in(request, route)).response()
            scope = request.ctx.scope = replace(scope, needs=route.roles) if route.roles else scope
            current_requester.set(ShareKey("", scope.organization) if scope.organization else ANONYMOUS_KEY)
        if route.is_api or route.is_oauth_endpoint:
            self._spend_rate(request, route, scope)
        route.precheck(self.service, request.match_info)
        if route.guard == "session":
            self._check_session(request, route, scope)
        if route.is_api:
            key_scopes.check(scope.scopes, route.scope)
        owner = scope.organization or ANONYMOUS_KEY.owner
        with await self.service.admission.requests.enter(owner) as permit:
            if route.is_api:
                self._check_open()
            return await self._handle_admitted(
                RequestContext(request, route, self.service, self.engine, scope, permit=permit)
            )

    async def _handle_admitted(self, call: RequestContext) -> HTTPResponse:
        """Run the remaining steps of an admitted request."""
        route = call.route
        try:
            try:
                await self._receive(call)
                actions.authorize(call.scope)
            except BaseException:
                call.close()
                raise
            self._running += 1  # before a task for it exists: `wait_until_idle` counts it
            if route.cancellable:
                reply = await self._handle(call)
                return (etags.add_etag(reply, call.request.headers) if route.has_etag else reply).response()
            return (await self._handle_in_task(call)).response(call.disconnect)
        except ApiError as error:
            await self._delay_refusal(call, error)
            raise

    async def _sign_in(self, request: ServerRequest, route: Route) -> HandlerResponse:
        """Return the sign-in page instead of a page; a submitted form is saved until after sign-in."""
        if request.method in ("GET", "HEAD"):
            return sign_in.redirect_to_sign_in(request.method, request.path, request.query_string)
        request_body.check_content_encoding(request)
        call = RequestContext(request, route, self.service, self.engine, ANONYMOUS_SCOPE)
        most = request_body.SMALL_BODY_MAX
        if route.receive is None:
            most = min(route.body_max, most)
            call.body = await request_body.read_start(request, most + 1)
            is_cut = len(call.body) > most
        else:  # a file that comes after these bytes is not read, nor are the fields after it
            start, content_type = await request_body.read_start(request, most), request.headers.get("content-type", "")
            fields, _ = multipart.parse_small_form(content_type, start)
            is_cut = multipart.is_cut_in_field(content_type, start)
            call.body = urlencode(fields).encode()
        if is_cut:
            request_body.limit_unread_body(request)
            return sign_in.refuse_form_and_sign_in(call)
        return sign_in.save_form_and_sign_in(call)

    async def _receive(self, call: RequestContext) -> None:
        """Read the body; check the form's token or the Idempotency-Key, and the query."""
        route = call.route
        request_body.check_content_encoding(call.request)
        if route.receive is not None:
            self._parse_idempotency_key(call)  # checks its form; the handler adds the upload's fingerprint
            call.received = await route.receive(call)
            return
        if not route.body_max:
            if handler.has_body(call.request):
                await request_body.discard_body(call.request)
        elif route.is_api:
            await self._read_json(call)
        else:
            call.body = await request_body.read_body(call.request, route.body_max)
        if route.guard == "page" and route.method != "GET":
            forms.parse_verified(call, call.scope.csrf)
        elif route.method != "GET" and route.is_api:
            if route.guard == "session":
                handler.check_content_type(call.request, call.body)
            call.key = self._parse_idempotency_key(call)
            if route.method == "POST" and route.body is None and call.body:
                await call.parse_body(EmptyRequest)  # a time in it must not be ignored: a draft would be published now
        elif route.is_api:
            call.query(route.query)

    async def _read_json(self, call: RequestContext) -> None:
        service, owner = self.service, call.scope.organization
        media_max = service.runtime.settings.media.max_bytes
        call.json = request_body.JsonBody(owner, self.budgets, call.pool, files.media_directory(service), media_max)
        call.body = await call.json.read(call.request, call.route.body_max)
        call.fingerprint = await call.json.fingerprint(call.request.query_string, call.body)

    async def _delay_refusal(self, call: RequestContext, error: ApiError) -> None:
        """Delay the refusal of a large body by its size: reading and parsing it cost time too."""
        size = int(call.request.headers.get("content-length") or "0")
        if size > request_body.INLINE_PARSE_MAX:
            error.__traceback__ = error.__cause__ = error.__context__ = None  # their frames keep the body in memory
            owner = call.scope.organization or ANONYMOUS_KEY.owner
            mib = max(1.0, size / request_body.MIB)
            await asyncio.sleep(self.refusals.wait(owner, asyncio.get_running_loop().time(), mib))

    def _call_handler(self, call: RequestContext) -> Coroutine[Any, Any, HandlerResponse]:
        """Return the coroutine of the handler, or of the page cache."""
        if call.route.constant:
            return self.page_cache.get(call.request.path, call.request.headers, lambda: call.route.handler(call))
        return call.route.handler(call)

    async def _handle(self, call: RequestContext) -> HandlerResponse:
        """Run the handler, which the caller has counted."""
        try:
            return await self._call_handler(call)
        finally:
            self._finish(call)

    async def _handle_in_task(self, call: RequestContext) -> HandlerResponse:
        """Run the handler in a task that continues if the client disconnects."""
        task = asyncio.get_running_loop().create_task(self._handle(call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call.disconnect()
            raise
        finally:
            del task  # avoid a reference cycle: an error's traceback holds this frame

    def _finish(self, call: RequestContext) -> None:
        call.close()
        self._running -= 1
        if self._closed and not self._running:
            self._idle.set()

    def close(self) -> None:
        """Refuse further API requests with `service.stopping`. Running ones are answered."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise rule_error("service.stopping", retry_after=STOPPING_RETRY_SECONDS)

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until no handler runs, at most `seconds`."""
        if self._running:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)

    # --- Authentication ---

    async def _authenticate(self, request: ServerRequest, route: Route) -> Scope:
        """Return the scope of the request's key or session."""
        key = None if route.guard == "page" else handler.find_bearer(request)
        try:
            return await (
                self._authenticate_session(request, route)
                if key is None
                else authentication.authenticate_key(self.service, key)
            )
        except ApiError as error:
            if error.code == "unauthenticated" and route.guard != "page":
                self._spend_failed_login(request)
            raise

    async def _authenticate_session(self, request: ServerRequest, route: Route) -> Scope:
        cookie = None if route.guard == "key" else request_headers.read_cookie(self.service, request)
        if cookie is None:
            raise ApiError("unauthenticated")
        return await authentication.authenticate_session(self.service, cookie)

    def _check_session(self, request: ServerRequest, route: Route, scope: Scope) -> None:
        """Raise ApiError `unauthorized` for a key, `csrf` for a write of a foreign page."""
        if scope.key is not None:
            raise ApiError("unauthorized", "This operation is for the dashboard only; an API key cannot do it.")
        if route.method == "GET":
            return
        token = request.headers.get("x-csrf-token", "")
        is_ours = request_headers.is_same_origin(self.service, request)
        if not (is_ours and handler.is_same_token(token, scope.csrf or "")):
            raise rule_error("csrf")

    def _spend_failed_login(self, request: ServerRequest) -> None:
        limit = self.service.runtime.settings.limits.failed_logins
        rate = self.windows.spend(f"login:{request.client}", limit)
        if not rate.allowed:
            raise ApiError("rate_limited", "Too many failed authentications from this address.", retry_after=rate.reset)

    # --- Rate limit ---

    def _spend_rate(self, request: ServerRequest, route: Route, scope: Scope) -> None:
        caller = scope.key or scope.user or request.client
        limit = getattr(self.service.runtime.settings.limits, route.limit)
        rate = self.windows.spend(f"{caller}:{route.rate_window}", limit)
        request.ctx.rate = rate
        if not rate.allowed:
            raise ApiError("rate_limited", retry_after=rate.reset)

    # --- Idempotency-Key ---

    def _parse_idempotency_key(self, call: RequestContext) -> idempotency.IdempotencyKey | None:
        request = call.request
        keys = request.headers.getall("idempotency-key", [])
        if len(keys) > 1:
            raise rule_error("idempotency_key.length", "The request has more than one Idempotency-Key.")
        header = keys[0] if keys else None
        return idempotency.parse_key(call.scope, request.method, request.path, header, call.fingerprint)


def make_endpoint(route: Route) -> Callable[[ServerRequest], Coroutine[Any, Any, HTTPResponse]]:
    """Return the Sanic handler of a route. It finds the pipeline in the application's context."""
    is_public = route.guard == "open" and route.cancellable and not route.is_api
    handle = RequestPipeline.handle_public if is_public else RequestPipeline.handle_checked

    def answer(request: ServerRequest, **_: str) -> Coroutine[Any, Any, HTTPResponse]:
        return handle(request.app.ctx.pipeline, request, route)

    module = "_".join(route.handler.__module__.split(".")[-2:])
    answer.__name__ = f"{route.method.lower()}_{module}_{route.handler.__name__}"
    return answer

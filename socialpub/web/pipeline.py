"""The order of checks for every request, in one place: who, how often, what, then the handler.

Routing comes before, the envelope after (`errors.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from sanic import HTTPResponse

from socialpub.base.concurrency.admission import Pacer
from socialpub.base.concurrency.fair_executor import ANONYMOUS_KEY, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions, authentication, idempotency, rate_limits
from socialpub.domain.access.authentication import Scope
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files
from socialpub.store.database import current_requester
from socialpub.web.dashboard import sign_in
from socialpub.web.http import etags, forms, handler, request_body, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route, ServerRequest
from socialpub.web.http.page_cache import PageCache

log = logging.getLogger("socialpub.web")

ANONYMOUS_SCOPE = Scope("")
STOPPING_RETRY_SECONDS = 5
REFUSAL_SECONDS_PER_MIB = 0.025  # for each MiB of an organization's large bodies that are refused
REFUSAL_DELAY_MAX = 5.0  # seconds


class RequestPipeline:
    """Lets requests in to their handlers."""

    def __init__(self, service: AppContext, engine: BackgroundEngine) -> None:
        self.service, self.engine = service, engine
        self.windows = rate_limits.SlidingWindowLimiter(service.runtime.clock)
        self.shelf = PageCache()
        self.refusals = Pacer(REFUSAL_SECONDS_PER_MIB, REFUSAL_DELAY_MAX)
        self.budgets = request_body.BodyBudgets()
        self._inside, self._empty = 0, asyncio.Event()  # handlers that run, and that none does
        self._closed = False

    async def at_once(self, request: ServerRequest, route: Route) -> HTTPResponse:
        """For what anybody may ask as often as he likes and nobody waits for: there is nothing to check."""
        request.ctx.route = route
        if handler.has_body(request):
            await request_body.discard_body(request)
        reply = await route.handler(RequestContext(request, route, self.service, self.engine, ANONYMOUS_SCOPE))
        return reply.response()

    async def in_order(self, request: ServerRequest, route: Route) -> HTTPResponse:
        request.ctx.route = route
        current_requester.set(ANONYMOUS_KEY)
        scope = ANONYMOUS_SCOPE
        if route.guard != "open":
            try:
                scope = await self._who(request, route)
            except ApiError as error:
                if route.guard != "page" or error.code != "unauthenticated":
                    raise
                return (await self._sign_in(request, route)).response()
            scope = request.ctx.scope = replace(scope, needs=route.roles) if route.roles else scope
            current_requester.set(ShareKey("", scope.organization) if scope.organization else ANONYMOUS_KEY)
        if route.is_api:
            self._rate(request, route, scope)
        owner = scope.organization or ANONYMOUS_KEY.owner
        with await self.service.admission.requests.enter(owner) as permit:
            if route.is_api:
                self._open()
            return await self._let_in(RequestContext(request, route, self.service, self.engine, scope, permit=permit))

    async def _let_in(self, call: RequestContext) -> HTTPResponse:
        """Answer an admitted request."""
        route = call.route
        try:
            try:
                await self._receive(call)
                actions.authorize(call.scope)
            except BaseException:
                call.close()
                raise
            if route.cancellable:
                reply = await self._handle(call)
                return (etags.add_etag(reply, call.request.headers) if route.has_etag else reply).response()
            return (await self._to_its_end(call)).response(call.lose)
        except ApiError as error:
            await self._slow_down(call, error)
            raise

    async def _sign_in(self, request: ServerRequest, route: Route) -> HandlerResponse:
        """What a browser without a session is shown in place of a page, or of what its form was to do."""
        if request.method in ("GET", "HEAD") or route.receive is not None:
            return sign_in.redirect_to_sign_in(request.method, request.path, request.query_string)
        request_body.check_content_encoding(request)
        call = RequestContext(request, route, self.service, self.engine, ANONYMOUS_SCOPE)
        call.body = await request_body.read_body(request, min(route.body_max, request_body.SMALL_BODY_MAX))
        return sign_in.save_form_and_sign_in(call)

    async def _receive(self, call: RequestContext) -> None:
        """Read the body, and check what is checked before any handler."""
        route = call.route
        request_body.check_content_encoding(call.request)
        if route.receive is not None:
            self._key(call)  # it is well-formed; the handler knows what it was sent for
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
            call.key = self._key(call)
        elif route.is_api:
            call.query(route.query)

    async def _read_json(self, call: RequestContext) -> None:
        service, owner = self.service, call.scope.organization
        media_max = service.runtime.settings.media.max_bytes
        call.json = request_body.JsonBody(owner, self.budgets, call.pool, files.media_directory(service), media_max)
        call.body = await call.json.read(call.request, call.route.body_max)
        call.sent = await call.json.fingerprint(call.request.query_string, call.body)

    async def _slow_down(self, call: RequestContext, error: ApiError) -> None:
        """Space out the refusals of an owner's large bodies by their size: to read and parse them costs time too."""
        size = int(call.request.headers.get("content-length") or "0")
        if size > request_body.INLINE_PARSE_MAX:
            error.__traceback__ = error.__cause__ = error.__context__ = None  # their frames hold the body meanwhile
            owner = call.scope.organization or ANONYMOUS_KEY.owner
            turns = max(1.0, size / request_body.MIB)
            await asyncio.sleep(self.refusals.wait(owner, asyncio.get_running_loop().time(), turns))

    def _work(self, call: RequestContext) -> Coroutine[Any, Any, HandlerResponse]:
        """What the handler does, to be awaited."""
        if call.route.constant:
            return self.shelf.answer(call.request.path, call.request.headers, lambda: call.route.handler(call))
        return call.route.handler(call)

    async def _handle(self, call: RequestContext) -> HandlerResponse:
        """The handler's answer."""
        self._inside += 1
        try:
            return await self._work(call)
        finally:
            self._end(call)

    async def _to_its_end(self, call: RequestContext) -> HandlerResponse:
        """The same from a task of its own: a client that goes away does not stop what it has begun."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[HandlerResponse] = loop.create_future()
        self._inside += 1  # from now on, and not when its task first runs
        task = loop.create_task(self._handled(call, done))
        try:
            return await done
        except asyncio.CancelledError:
            call.lose()
            raise
        finally:
            del task, done  # an error holds this frame, and would be held by it

    async def _handled(self, call: RequestContext, done: asyncio.Future[HandlerResponse]) -> None:
        """What comes of it is told to whoever waits, and to nobody once the client has gone.

        The task says so itself: what the loop does for whoever waits for a task takes one more round of it.
        """
        try:
            reply = await self._work(call)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is raised where it is waited for
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(reply)
        finally:
            del done  # as above
            self._end(call)

    def _end(self, call: RequestContext) -> None:
        """Its handler has come to its end."""
        call.close()
        self._inside -= 1
        if self._closed and not self._inside:
            self._empty.set()

    def close(self) -> None:
        """Let no more requests of the API in: the server stops. Those that are in are answered."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise rule_error("service.stopping", retry_after=STOPPING_RETRY_SECONDS)

    async def drained(self, seconds: float) -> None:
        """Wait for the handlers that are still running, at most `seconds`."""
        if self._inside:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    # --- Who ---

    async def _who(self, request: ServerRequest, route: Route) -> Scope:
        if route.guard == "open":
            return ANONYMOUS_SCOPE
        presented = handler.find_bearer(request)
        try:
            if route.guard == "session":
                return await self._session_only(request, route, presented)
            if presented is not None and route.guard != "page":
                return await authentication.authenticate_key(self.service, presented)
            return await self._by_session(request, route)
        except ApiError as error:
            if error.code == "unauthenticated" and route.guard != "page":
                self._failed_login(request)
            raise

    async def _by_session(self, request: ServerRequest, route: Route) -> Scope:
        cookie = request_headers.read_cookie(self.service, request)
        if route.guard not in ("read", "page") or cookie is None:
            raise ApiError("unauthenticated")
        scope = request.ctx.scope = await authentication.authenticate_session(self.service, cookie)
        if route.guard == "page":
            route.precheck(self.service, request.match_info)
        return scope

    async def _session_only(self, request: ServerRequest, route: Route, presented: str | None) -> Scope:
        if presented is not None:
            request.ctx.scope = await authentication.authenticate_key(self.service, presented)
            route.precheck(self.service, request.match_info)
            raise ApiError("unauthorized", "This operation is for the dashboard only; an API key cannot do it.")
        cookie = request_headers.read_cookie(self.service, request)
        if cookie is None:
            raise ApiError("unauthenticated")
        scope = request.ctx.scope = await authentication.authenticate_session(self.service, cookie)
        route.precheck(self.service, request.match_info)
        if route.method != "GET":
            self._check_page(request, scope)
        return scope

    def _check_page(self, request: ServerRequest, scope: Scope) -> None:
        """ApiError `csrf` for what our own page did not send."""
        token = request.headers.get("x-csrf-token", "")
        if not handler.is_same_token(token, scope.csrf or "") or not request_headers.is_same_origin(
            request.headers, self.service.base_url
        ):
            raise rule_error("csrf")

    def _failed_login(self, request: ServerRequest) -> None:
        limit = self.service.runtime.settings.limits.failed_logins
        rate = self.windows.spend(f"login:{request_headers.find_client(self.service, request)}", limit)
        if not rate.allowed:
            raise ApiError("rate_limited", "Too many failed authentications from this address.", retry_after=rate.reset)

    # --- How often ---

    def _rate(self, request: ServerRequest, route: Route, scope: Scope) -> None:
        caller = scope.key or scope.user or request_headers.find_client(self.service, request)
        limit = getattr(self.service.runtime.settings.limits, route.limit)
        rate = self.windows.spend(f"{caller}:{route.rate_window}", limit)
        request.ctx.rate = rate
        if not rate.allowed:
            raise ApiError("rate_limited", retry_after=rate.reset)

    # --- What ---

    def _key(self, call: RequestContext) -> idempotency.IdempotencyKey | None:
        request = call.request
        named = request.headers.getall("idempotency-key", [])
        if len(named) > 1:
            raise rule_error("idempotency_key.length", "The request names more than one Idempotency-Key.")
        header = named[0] if named else None
        return idempotency.parse_key(call.scope, request.method, request.path, header, call.sent)


def make_endpoint(route: Route) -> Callable[[ServerRequest], Coroutine[Any, Any, HTTPResponse]]:
    """The Sanic handler of a route: the request knows which application it came to, and that has a door."""
    free = route.guard == "open" and route.cancellable and not route.is_api
    way = RequestPipeline.at_once if free else RequestPipeline.in_order

    def answer(request: ServerRequest, **_: str) -> Coroutine[Any, Any, HTTPResponse]:
        return way(request.app.ctx.door, request, route)

    place = "_".join(route.handler.__module__.split(".")[-2:])
    answer.__name__ = f"{route.method.lower()}_{place}_{route.handler.__name__}"
    return answer

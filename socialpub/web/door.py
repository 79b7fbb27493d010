"""The order of checks for every request, in one place: who, how often, what, then the handler.

Routing comes before, the envelope after (`errors.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from sanic import HTTPResponse, Request

from socialpub.base.errors import ApiError, refuse
from socialpub.domain import limits, tenancy
from socialpub.domain.jobs import Engine
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.web import forms, http
from socialpub.web.http import Call, Reply, Route
from socialpub.web.pages import people

log = logging.getLogger("socialpub.web")

NOBODY = Scope("")
STOPPING_RETRY_SECONDS = 5


class Door:
    """Lets requests in to their handlers."""

    def __init__(self, service: Service, engine: Engine) -> None:
        self.service, self.engine = service, engine
        self.windows = limits.Windows(service.runtime.clock)
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    def endpoint(self, route: Route) -> Callable[..., Coroutine[Any, Any, HTTPResponse]]:
        """The Sanic handler of a route."""

        async def answer(request: Request, **_: str) -> HTTPResponse:
            request.ctx.route = route
            try:
                scope = await self._who(request, route)
            except ApiError as error:
                if route.guard != "page" or error.code != "unauthenticated":
                    raise
                return people.sign_in_first(request.method, request.path, request.query_string).response()
            self._rate(request, route, scope)
            self._open(route)
            call = Call(request, route, self.service, self.engine, scope)
            await self._receive(call)
            return (await self._to_its_end(route.handler(call))).response()

        answer.__name__ = f"{route.method.lower()}_{route.handler.__module__.rsplit('.')[-1]}_{route.handler.__name__}"
        return answer

    async def _receive(self, call: Call) -> None:
        """Read the body, and check what is checked before any handler."""
        route = call.route
        if route.receive is not None:
            self._key(call)  # it is well-formed; the handler knows what it was sent for
            call.received = await route.receive(call)
            return
        call.body = await http.read_body(call.request)
        if route.guard == "page" and route.method != "GET":
            forms.checked(call, call.scope.csrf)
        elif route.method != "GET" and route.api:
            if route.guard == "session":
                http.check_type(call.request, call.body)
            call.key = self._key(call)
        elif route.api:
            call.query(route.query)

    async def _to_its_end(self, work: Awaitable[Reply]) -> Reply:
        """The handler's answer; a client that goes away does not stop what it has begun."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    def close(self) -> None:
        """Let no more requests of the API in: the server stops. Those that are in are answered."""
        self._closed = True

    def _open(self, route: Route) -> None:
        if self._closed and route.api:
            raise refuse("service.stopping", retry_after=STOPPING_RETRY_SECONDS)

    async def drained(self, seconds: float) -> None:
        """Wait for the handlers that are still running, at most `seconds`."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    # --- Who ---

    async def _who(self, request: Request, route: Route) -> Scope:
        if route.guard == "open":
            return NOBODY
        presented = http.bearer(request)
        try:
            if route.guard == "session":
                return await self._session_only(request, route, presented)
            if presented is not None and route.guard != "page":
                return await tenancy.authenticate_key(self.service, presented)
            return await self._by_session(request, route)
        except ApiError as error:
            if error.code == "unauthenticated" and route.guard != "page":
                self._failed_login(request)
            raise

    async def _by_session(self, request: Request, route: Route) -> Scope:
        cookie = http.session_cookie(self.service, request)
        if route.guard not in ("read", "page") or cookie is None:
            raise ApiError("unauthenticated")
        return await tenancy.authenticate_session(self.service, cookie)

    async def _session_only(self, request: Request, route: Route, presented: str | None) -> Scope:
        if presented is not None:
            await tenancy.authenticate_key(self.service, presented)
            route.before(self.service, request.match_info)
            raise ApiError("unauthorized", "This operation is for the dashboard only; an API key cannot do it.")
        cookie = http.session_cookie(self.service, request)
        if cookie is None:
            raise ApiError("unauthenticated")
        scope = await tenancy.authenticate_session(self.service, cookie)
        route.before(self.service, request.match_info)
        if route.method != "GET" and not http.same_token(request.headers.get("x-csrf-token", ""), scope.csrf or ""):
            raise refuse("csrf")
        return scope

    def _failed_login(self, request: Request) -> None:
        limit = self.service.runtime.settings.limits.failed_logins
        rate = self.windows.spend(f"login:{http.client_address(self.service, request)}", limit)
        if not rate.allowed:
            raise ApiError("rate_limited", "Too many failed authentications from this address.", retry_after=rate.reset)

    # --- How often ---

    def _rate(self, request: Request, route: Route, scope: Scope) -> None:
        if not route.api:
            return
        caller = scope.key or scope.user or http.client_address(self.service, request)
        limit = getattr(self.service.runtime.settings.limits, route.limit)
        rate = self.windows.spend(f"{caller}:{route.method}:{route.path}", limit)
        request.ctx.rate = rate
        if not rate.allowed:
            raise ApiError("rate_limited", retry_after=rate.reset)

    # --- What ---

    def _key(self, call: Call) -> limits.Key | None:
        request = call.request
        named = request.headers.getall("idempotency-key", [])
        if len(named) > 1:
            raise refuse("idempotency_key.length", "The request names more than one Idempotency-Key.")
        header = named[0] if named else None
        return limits.key_of(call.scope, request.method, request.path, header, request.query_string, call.body)


def rate_headers(service: Service, request: Request) -> dict[str, str]:
    """The rate-limit headers of every /v1 answer: the static ceiling always, the window where there was one."""
    if not request.path.startswith("/v1"):
        return {}
    route: Route | None = getattr(request.ctx, "route", None)
    limit = getattr(service.runtime.settings.limits, route.limit if route else "reads")
    headers = {"X-RateLimit-Limit": str(limit)}
    rate: limits.Rate | None = getattr(request.ctx, "rate", None)
    if rate is not None:
        headers |= {
            "RateLimit-Limit": str(rate.limit),
            "RateLimit-Remaining": str(rate.remaining),
            "RateLimit-Reset": str(rate.reset),
            "RateLimit-Policy": f'"default";q={rate.limit};w={limits.WINDOW_SECONDS}',
            "RateLimit": f'"default";r={rate.remaining};t={rate.reset}',
        }
    return headers

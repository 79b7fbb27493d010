"""What every request meets before it is routed, and what every answer carries, whoever gives it."""

from __future__ import annotations

import functools

from sanic import HTTPResponse

from socialpub.base import tracing
from socialpub.base.errors import refuse
from socialpub.domain.core.service import Service
from socialpub.domain.people import limits
from socialpub.web import edge, http, trail
from socialpub.web.http import Arrival

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NAMES_KEPT = 64  # sets of headers' names; answers have a dozen


class Frame:
    """Around every handler of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._own_host = bool(service.runtime.settings.server.base_url)
        standing = SECURITY_HEADERS | {"Cache-Control": "no-store"}
        if service.base_url.startswith("https:"):
            standing["Strict-Transport-Security"] = "max-age=31536000"
        self._standing = {name.lower(): f"{name}: {value}\r\n" for name, value in standing.items()}
        self._all = "".join(self._standing.values())
        self._but = functools.lru_cache(NAMES_KEPT)(self._all_but)

    def greet(self, request: Arrival) -> None:
        """Give it its id; ApiError `http.request` for what is no address, `http.host` for another host's."""
        request.ctx.request_id = http.request_id(self._service, request)
        request.ctx.began = self._service.runtime.clock.monotonic()
        request.ctx.span = tracing.begin(request.ctx.request_id, request.method, request.headers)
        if request.ctx.bad_target:
            raise refuse("http.request")  # it must not be answered as the address that stands in for it
        if self._own_host:
            edge.check_host(self._service, request)

    def dress(self, request: Arrival, response: HTTPResponse) -> str:
        """The header lines of every answer, and its line in the log: it goes out now."""
        ctx = request.ctx
        if not ctx.request_id:
            ctx.request_id = http.request_id(self._service, request)
        self._tell(request, response.status)
        standing = self._but(*response.headers) if response.headers else self._all
        return f"X-Request-Id: {ctx.request_id}\r\n{self._rate(request)}{standing}"

    def miss(self, request: Arrival) -> None:
        """Whoever sent it has gone before its answer: its line in the log."""
        self._tell(request, trail.GONE)

    def _tell(self, request: Arrival, status: int) -> None:
        trail.tell(self._service, request, status)
        request.ctx.error = None  # it is told, and holds all that ran, which holds the request

    def _all_but(self, *named: str) -> str:
        """What always stands there, less what an answer says in its own words."""
        own = {name.lower() for name in named}
        return "".join([line for name, line in self._standing.items() if name not in own])

    def _rate(self, request: Arrival) -> str:
        """The rate-limit headers of every /v1 answer: the static ceiling always, the window where there was one."""
        ctx = request.ctx
        if not (ctx.route.api if ctx.route else request.path.startswith("/v1")):
            return ""
        rate = ctx.rate
        if rate is None:
            of_all = self._service.runtime.settings.limits
            return f"X-RateLimit-Limit: {getattr(of_all, ctx.route.limit if ctx.route else 'reads')}\r\n"
        most, left, ends = rate.limit, rate.remaining, rate.reset
        return (
            f"X-RateLimit-Limit: {most}\r\nRateLimit-Limit: {most}\r\nRateLimit-Remaining: {left}\r\n"
            f'RateLimit-Reset: {ends}\r\nRateLimit-Policy: "default";q={most};w={limits.WINDOW_SECONDS}\r\n'
            f'RateLimit: "default";r={left};t={ends}\r\n'
        )

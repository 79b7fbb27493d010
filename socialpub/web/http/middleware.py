"""Middleware: request id, host check, headers of every response, access log."""

from __future__ import annotations

from sanic.response import BaseHTTPResponse

from socialpub.base.errors import rule_error
from socialpub.base.observability import tracing
from socialpub.domain.access import rate_limits
from socialpub.domain.context.app_context import AppContext
from socialpub.web.http import access_log, request_headers
from socialpub.web.http.handler import ServerRequest
from socialpub.web.http.sanic_overrides import ServerResponse

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


class Middleware:
    """The hooks that Sanic calls before each handler and before each response."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._headers = SECURITY_HEADERS | {"Cache-Control": "no-store"}
        if service.base_url.startswith("https:"):
            self._headers["Strict-Transport-Security"] = "max-age=31536000"
        self._encoded = {name: (name.encode(), value.encode()) for name, value in self._headers.items()}

    def on_request(self, request: ServerRequest) -> None:
        """Start the request's time and trace, and check its host.

        Raises ApiError `http.request` or `http.host`.
        """
        if request.method == "NONE":
            return  # Sanic's placeholder for bytes that were no request
        ctx, runtime = request.ctx, self._service.runtime
        ctx.began = runtime.clock.monotonic()
        ctx.span = tracing.start_request(request.request_id, request.method, request.headers)
        if ctx.bad_target:
            raise rule_error("http.request")  # the request has a placeholder path, which must not be routed
        request_headers.check_host(self._service, request)

    def on_response(self, request: ServerRequest, response: BaseHTTPResponse) -> None:
        """Add the headers that every response has, and write the access log line."""
        ctx, headers = request.ctx, response.headers
        own = {"X-Request-Id": request.request_id, **self._rate_headers(request)}
        if isinstance(response, ServerResponse):
            response.encoded = [(name.encode(), value.encode()) for name, value in own.items()]
            response.encoded += [pair for name, pair in self._encoded.items() if name not in headers]
        else:  # Sanic's response to an error inside the error handler
            headers.update(own | self._headers)
        access_log.write(self._service, request, response.status)
        ctx.error = None  # its traceback would keep the request in memory

    def _rate_headers(self, request: ServerRequest) -> dict[str, str]:
        """Return the rate-limit headers of a /v1 response: the limit, and the window if counted."""
        ctx = request.ctx
        if not (ctx.route.is_api if ctx.route else request.path.startswith("/v1")):
            return {}
        rate = ctx.rate
        if rate is None:
            limits = self._service.runtime.settings.limits
            return {"X-RateLimit-Limit": str(getattr(limits, ctx.route.limit if ctx.route else "reads"))}
        most, left, ends = rate.limit, rate.remaining, rate.reset
        return {
            "X-RateLimit-Limit": str(most),
            "RateLimit-Limit": str(most),
            "RateLimit-Remaining": str(left),
            "RateLimit-Reset": str(ends),
            "RateLimit-Policy": f'"default";q={most};w={rate_limits.WINDOW_SECONDS}',
            "RateLimit": f'"default";r={left};t={ends}',
        }

"""What every request passes before its handler, and what every response carries."""

from __future__ import annotations

from sanic.response import BaseHTTPResponse

from socialpub.base.errors import rule_error
from socialpub.base.observability import tracing
from socialpub.domain.access import rate_limits
from socialpub.domain.context.app_context import AppContext
from socialpub.web.http import access_log, handler, request_headers
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
    """Sanic's `on_request` and `on_response` of a service."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._headers = SECURITY_HEADERS | {"Cache-Control": "no-store"}
        if service.base_url.startswith("https:"):
            self._headers["Strict-Transport-Security"] = "max-age=31536000"
        self._encoded = {name: (name.encode(), value.encode()) for name, value in self._headers.items()}

    def on_request(self, request: ServerRequest) -> None:
        """Set the request id; ApiError `handler.request` for a target that is no address, `handler.host` for another
        host.
        """
        if request.method == "NONE":
            return  # what Sanic makes to answer bytes that never became a request
        ctx, runtime = request.ctx, self._service.runtime
        ctx.request_id = handler.choose_request_id(self._service, request)
        ctx.began = runtime.clock.monotonic()
        ctx.span = tracing.start_request(ctx.request_id, request.method, request.headers)
        if ctx.bad_target:
            raise rule_error("http.request")  # it must not be answered as the address that stands in for it
        request_headers.check_host(self._service, request)

    def on_response(self, request: ServerRequest, response: BaseHTTPResponse) -> None:
        """Add the headers of every response, and write its line in the access log: it is sent next."""
        ctx, headers = request.ctx, response.headers
        if not ctx.request_id:
            ctx.request_id = handler.choose_request_id(self._service, request)
        headers["X-Request-Id"] = ctx.request_id
        headers.update(self._rate_headers(request))
        if isinstance(response, ServerResponse):
            response.encoded = [pair for name, pair in self._encoded.items() if name not in headers]
        else:  # Sanic's own, of an error while an error is handled
            headers.update(self._headers)
        access_log.write(self._service, request, response.status)
        ctx.error = None  # it is logged, and its traceback holds the request

    def _rate_headers(self, request: ServerRequest) -> dict[str, str]:
        """Return the rate-limit headers of a /v1 response: the static ceiling, and the window where there was one."""
        ctx = request.ctx
        if not (ctx.route.is_api if ctx.route else request.path.startswith("/v1")):
            return {}
        rate = ctx.rate
        if rate is None:
            of_all = self._service.runtime.settings.limits
            return {"X-RateLimit-Limit": str(getattr(of_all, ctx.route.limit if ctx.route else "reads"))}
        most, left, ends = rate.limit, rate.remaining, rate.reset
        return {
            "X-RateLimit-Limit": str(most),
            "RateLimit-Limit": str(most),
            "RateLimit-Remaining": str(left),
            "RateLimit-Reset": str(ends),
            "RateLimit-Policy": f'"default";q={most};w={rate_limits.WINDOW_SECONDS}',
            "RateLimit": f'"default";r={left};t={ends}',
        }

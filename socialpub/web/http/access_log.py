"""The access log: one line for each request, and the end of its trace span."""

from __future__ import annotations

import logging
import re

from socialpub.base.observability import tracing
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms import CATALOGUE
from socialpub.web.http import request_headers
from socialpub.web.http.handler import ServerRequest

log = logging.getLogger("socialpub.web")
OK = 200
CLIENT_CLOSED_REQUEST = 499  # logged in place of a status: the client disconnected before the response

_TOKEN = re.compile(r"[0-9A-Za-z]{43,}")  # of a link, or an API key
_NAMES = ("request", "method", "path", "status", "ms", "by", "from", "why")
_LINE = "%s %s %a %s %.0fms by %s from %s%s"


def write(service: AppContext, request: ServerRequest, status: int) -> None:
    """Log the request.

    Of the client's own text only the path is logged: no field names, messages or keys. A health check that succeeds is
    logged at `debug`: a probe every few seconds would hide the other lines.
    """
    if request.ctx.span is not None:
        _end_span(request, status)
    level = logging.DEBUG if status == OK and request.path in request_headers.HEALTH_PATHS else logging.INFO
    if not log.isEnabledFor(level):
        return
    ctx, clock = request.ctx, service.runtime.clock
    # `began` is None for a request that never arrived completely.
    seconds = 0.0 if ctx.began is None else clock.monotonic() - ctx.began
    values = (
        request.request_id,
        request.method,
        get_loggable_path(request),
        status,
        seconds * 1000,
        _describe_caller(ctx.scope),
        request.client_line or "an unknown address",
        _describe_error(request),
    )
    log.log(level, _LINE, *values, extra={"names": _NAMES})


def _end_span(request: ServerRequest, status: int) -> None:
    """End the trace span. It has the data of the log line, but the route instead of the path."""
    ctx = request.ctx
    path = ctx.route.path if ctx.route else None
    about: dict[str, tracing.AttributeValue] = {
        "http.request.method": request.method,
        "http.route": path,
        "socialpub.request": request.request_id,
        "socialpub.error": ctx.error.code if ctx.error else None,
    }
    name = f"{request.method} {path}" if path else request.method
    tracing.end_request(ctx.span, request.request_id, name, status, about)


def get_loggable_path(request: ServerRequest) -> str:
    """Return the requested path, without the token of a link, which is secret."""
    route = request.ctx.route
    if route is None:  # another method or a slash too many: the link may still be good
        return _TOKEN.sub("<token>", request.path)
    return route.path if "<token" in route.path else request.path


def _describe_caller(scope: Scope | None) -> str:
    if scope is None or not (scope.key or scope.user):
        return "anonymous"
    return f"key {scope.key}" if scope.key else f"user {scope.user}"


def _describe_error(request: ServerRequest) -> str:
    """Return the error's code, and its rule if it is a known rule id, not a client's text."""
    error = request.ctx.error
    if error is None:
        return ""
    known = error.rule in SERVICE_RULES or error.rule in CATALOGUE
    return f": {error.code} {error.rule}" if known else f": {error.code}"

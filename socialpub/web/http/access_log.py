"""What every request leaves: one line in the log (what it was, its answer, who asked from where, as known)."""

from __future__ import annotations

import logging

from socialpub.base.observability import tracing
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms import CATALOGUE
from socialpub.web.http import request_headers
from socialpub.web.http.handler import ServerRequest

log = logging.getLogger("socialpub.web")
CLIENT_CLOSED_REQUEST = 499  # in place of a status: nobody was there any more to be answered

_NAMES = ("request", "method", "path", "status", "ms", "by", "from", "why")
_LINE = "%s %s %a %s %.0fms by %s from %s%s"


def write(service: AppContext, request: ServerRequest, status: int) -> None:
    """Write the line. Nothing that a caller wrote stands in it, but the path: no field's name, no message, no key."""
    if request.ctx.span is not None:
        _end_span(request, status)
    if not log.isEnabledFor(logging.INFO):
        return
    ctx, clock = request.ctx, service.runtime.clock
    took = 0.0 if ctx.began is None else clock.monotonic() - ctx.began  # a request that never came whole has not begun
    where = request_headers.find_loggable_client(service, request) or "nowhere"
    known = (
        ctx.request_id,
        request.method,
        _path(request),
        status,
        took * 1000,
        _describe_caller(ctx.scope),
        where,
        _describe_refusal(request),
    )
    log.info(_LINE, *known, extra={"names": _NAMES})


def _end_span(request: ServerRequest, status: int) -> None:
    """It says what the line says, but no more of the address than its route."""
    ctx = request.ctx
    path = ctx.route.path if ctx.route else None
    about: dict[str, tracing.AttributeValue] = {
        "http.request.method": request.method,
        "http.route": path,
        "socialpub.request": ctx.request_id,
        "socialpub.error": ctx.error.code if ctx.error else None,
    }
    tracing.end_request(ctx.span, ctx.request_id, f"{request.method} {path}" if path else request.method, status, about)


def _path(request: ServerRequest) -> str:
    """The address as it was asked for; of a set-up link, which is good until it was used, only its kind."""
    route = request.ctx.route
    return route.path if route and "<token" in route.path else request.path


def _describe_caller(scope: Scope | None) -> str:
    if scope is None or not (scope.key or scope.user):
        return "nobody known"
    return f"key {scope.key}" if scope.key else f"user {scope.user}"


def _describe_refusal(request: ServerRequest) -> str:
    """The code of a refusal, and its rule: of a rule's own id, for the path of a field is the caller's word."""
    error = request.ctx.error
    if error is None:
        return ""
    known = error.rule in SERVICE_RULES or error.rule in CATALOGUE
    return f": {error.code} {error.rule}" if known else f": {error.code}"

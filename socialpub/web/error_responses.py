"""Error responses: every exception becomes the error envelope or an error page."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, TypeGuard

from sanic.exceptions import (
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestTimeout,
    SanicException,
    ServiceUnavailable,
)

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.observability import tracing
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity.oauth_grants import OAuthError
from socialpub.domain.publishing.intents import encode_capped
from socialpub.domain.schemas.errors import build_envelope
from socialpub.web.dashboard.parts import error_texts, layout
from socialpub.web.html import templates
from socialpub.web.http import access_log, handler, request_body
from socialpub.web.http.handler import ServerRequest
from socialpub.web.http.sanic_overrides import ServerResponse
from socialpub.web.path_suggestions import suggest

MESSAGE_MAX = 2000
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
UNKNOWN_OUTCOME_HINT = (
    "The request may still be carried out. Read the object with GET first, or send the request again with the same "
    "Idempotency-Key: it is carried out only once."
)
log = logging.getLogger("socialpub.web")


def to_api_error(request: ServerRequest, error: BaseException) -> ApiError:
    """Return the ApiError for an exception: `internal_error` for an unexpected one."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, PayloadTooLarge):
        return rule_error("http.body_size")
    if isinstance(error, NotFound):
        known = suggest(request.path, request.app.ctx.routes)
        remediation = f"Did you mean `{known}`? /docs/reference has every address." if known else None
        return ApiError("not_found", "There is nothing at this address.", remediation=remediation)
    if isinstance(error, MethodNotAllowed):
        return rule_error("http.method", headers={"Allow": _allowed_methods(request)})
    if isinstance(error, RequestTimeout):
        return rule_error("http.timeout")
    if isinstance(error, ServiceUnavailable):
        return rule_error(
            "storage.unavailable", "The response took too long.", remediation=UNKNOWN_OUTCOME_HINT, retry_after=5
        )
    if _is_storage_error(error):
        return storage_errors.build_error(error)
    if isinstance(error, SanicException) and error.status_code < 500:
        return rule_error("http.request")
    return ApiError("internal_error")


def _is_storage_error(error: BaseException) -> TypeGuard[OSError]:
    """Return whether the error is of a file on disk: a socket's error names no file."""
    return isinstance(error, OSError) and bool(error.filename)


def _allowed_methods(request: ServerRequest) -> str:
    """Return the methods that the router accepts at this address.

    Sanic lists them only for paths without parameters.
    """
    return ", ".join(method for method in METHODS if _is_method_allowed(request, method))


def _is_method_allowed(request: ServerRequest, method: str) -> bool:
    try:
        request.app.router.get(request.path, method, None)
    except SanicException:
        return False
    return True


def _is_unparsed(request: ServerRequest, error: BaseException) -> bool:
    """Return whether the request could not be parsed, time-outs excepted."""
    return handler.is_malformed(request) and not isinstance(error, RequestTimeout)


def _truncate(error: ApiError) -> ApiError:
    """Limit a platform's message and response to the sizes that results have."""
    if error.code.startswith("platform_"):
        error.message = error.message[:MESSAGE_MAX]
        if error.platform_response is not None:
            error.platform_response = json.loads(encode_capped(error.platform_response))
    return error


async def respond(service: AppContext, request: ServerRequest, error: BaseException) -> ServerResponse:
    """Return the response for an error: the JSON envelope, or a page for a browser."""
    shown = rule_error("http.request") if _is_unparsed(request, error) else to_api_error(request, error)
    request_body.limit_unread_body(request)
    request.ctx.error = shown
    if shown.status >= 500 and not (isinstance(error, ApiError) or _is_storage_error(error)):
        path = access_log.get_loggable_path(request)
        log.error("Request %s failed: %s %s", request.request_id, request.method, ascii(path), exc_info=error)
    trace_id = tracing.get_trace_id(request.ctx.span) or handler.find_trace_id(request)
    body = build_envelope(_truncate(shown), service.base_url, request.request_id, trace_id)
    headers = dict(shown.headers)
    if shown.retry_after is not None:
        headers["Retry-After"] = str(shown.retry_after)
    route = request.ctx.route
    if route is not None and route.is_oauth_endpoint and service.runtime.settings.mcp.oauth:
        return ServerResponse(dumps(_build_oauth_error(shown)), shown.status, headers)
    if handler.should_send_html(request):
        page = await _render_page(service, request, shown.status, body["error"])
        return ServerResponse(page, shown.status, headers, templates.HTML_TYPE)
    return ServerResponse(dumps(body), shown.status, headers)


def _build_oauth_error(error: ApiError) -> dict[str, str]:
    """Return the body of an error of an OAuth endpoint (RFC 6749, 5.2)."""
    if isinstance(error, OAuthError):
        name = error.error
    elif error.status == 429 or error.retry_after is not None:
        name = "temporarily_unavailable"
    else:
        name = "server_error" if error.status >= 500 else "invalid_request"
    return {"error": name, "error_description": error.message}


async def _render_page(service: AppContext, request: ServerRequest, status: int, error: Mapping[str, Any]) -> str:
    """Render the error page in the layout of the signed-in user, if there is one."""
    frame = await layout.build_error_context(service, request)
    links = [link for link in (request.ctx.error_link, error_texts.HOME_LINK) if link]
    return templates.render(
        "error.html", error=error, status=status, ways=links, trouble=error_texts.find(error), **frame
    )

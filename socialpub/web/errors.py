"""Whatever went wrong, of whatever origin, becomes the envelope here and nowhere else."""

from __future__ import annotations

import logging

from sanic import HTTPResponse, Request
from sanic.exceptions import (
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestCancelled,
    RequestTimeout,
    SanicException,
    ServiceUnavailable,
)

from socialpub.base.errors import ApiError, envelope, refuse
from socialpub.domain.service import Service
from socialpub.web import http
from socialpub.web.pages import html

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
log = logging.getLogger("socialpub.web")


def as_api_error(request: Request, error: BaseException) -> ApiError:
    """The ApiError that says what `error` means to the caller; anything unknown is `internal_error`."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, PayloadTooLarge):
        return refuse("http.body_size")
    if isinstance(error, NotFound):
        return ApiError("not_found", "There is nothing at this address.")
    if isinstance(error, MethodNotAllowed):
        return refuse("http.method", headers={"Allow": _allowed(request)})
    if isinstance(error, RequestTimeout):
        return refuse("http.timeout")
    if isinstance(error, ServiceUnavailable | RequestCancelled):
        return refuse("storage.unavailable", "The answer took too long.", retry_after=5)
    if isinstance(error, SanicException) and error.status_code < 500:
        return refuse("http.request")
    return ApiError("internal_error")


def _allowed(request: Request) -> str:
    """The methods that the router has for an address: Sanic names them only where the address has no parameters."""
    return ", ".join(method for method in METHODS if _takes(request, method))


def _takes(request: Request, method: str) -> bool:
    try:
        request.app.router.get(request.path, method, None)
    except SanicException:
        return False
    return True


def _is_unread(request: Request, error: BaseException) -> bool:
    """Whether no request was read, and why is not that it took too long."""
    return http.is_broken(request) and not isinstance(error, RequestTimeout)


def answer(service: Service, request: Request, error: BaseException) -> HTTPResponse:
    """The response for an error: the envelope, or a page for a browser outside the API."""
    found = refuse("http.request") if _is_unread(request, error) else as_api_error(request, error)
    http.bound_rest(request)
    request_id = getattr(request.ctx, "request_id", None) or http.request_id(service, request)
    request.ctx.request_id = request_id
    if found.status >= 500 and not isinstance(error, ApiError):
        log.error("%s %s %s failed", request_id, request.method, ascii(request.path), exc_info=error)
    body = envelope(found, service.base_url, request_id, http.trace_id(request))
    headers = dict(found.headers)
    if found.retry_after is not None:
        headers["Retry-After"] = str(found.retry_after)
    if http.wants_html(request):
        way_on = getattr(request.ctx, "way_on", None)
        page = html.render("error.html", error=body["error"], status=found.status, way_on=way_on)
        return HTTPResponse(page, found.status, headers, "text/html; charset=utf-8")
    return HTTPResponse(http.dumps(body), found.status, headers, "application/json")

"""GET /openapi.json: OpenAPI 3.1, generated from the route table and the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from socialpub import __version__
from socialpub.base.error_codes import ERRORS
from socialpub.base.json_codec import dumps
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.base.settings_sections import RateLimitSettings
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.common import ProfileQuery
from socialpub.web.http.handler import Route
from socialpub.web.http.operation import Operation
from socialpub.web.http.request_headers import cookie_name
from socialpub.web.openapi.components import (
    IF_MATCH_HEADERS,
    IF_NONE_MATCH_HEADER,
    KEY_HEADER,
    OPTIONAL_RATE_HEADERS,
    PREFER_HEADER,
    RATE_HEADERS,
    RETRY_AFTER,
    components,
    headers_of,
    ref,
)
from socialpub.web.openapi.events import deliveries, webhooks
from socialpub.web.openapi.schemas import model_name, parameters_of
from socialpub.web.openapi.texts import API_DESCRIPTION, TAG_DESCRIPTIONS

Json = dict[str, Any]
WRITE_METHODS = ("POST", "PATCH", "PUT", "DELETE")


class OpenApiDocument:
    """The OpenAPI document of this server, built on first use."""

    def __init__(self, routes: Sequence[Route], service: AppContext) -> None:
        self._routes, self._service = routes, service

    @cached_property
    def document(self) -> Json:
        return build(
            self._routes,
            self._service.base_url,
            self._service.runtime.settings.limits,
            cookie_name(self._service),
            self._service.runtime.settings.webhooks.header_prefix,
        )

    @cached_property
    def text(self) -> str:
        return dumps(self.document)


def build(routes: Sequence[Route], base_url: str, limits: RateLimitSettings, cookie: str, header_prefix: str) -> Json:
    """Return the document. `header_prefix`: the prefix of a delivery's own header names."""
    documented = [route for route in routes if route.operation]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "socialpub",
            "version": __version__,
            "summary": "Publish one piece of content to up to 25 social accounts.",
            "description": API_DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "externalDocs": {"description": "The same for people", "url": f"{base_url}/docs/reference"},
        "tags": [{"name": name, "description": text} for name, text in TAG_DESCRIPTIONS.items()],
        "paths": _paths(documented, limits),
        "webhooks": webhooks(),
        "components": components(documented, cookie) | {"pathItems": deliveries(header_prefix)},
    }


# --- Operations --------------------------------------------------------------------------------------------------


def _paths(routes: Sequence[Route], limits: RateLimitSettings) -> Json:
    paths: Json = {}
    for route in routes:
        paths.setdefault(public_path(route.path), {})[route.method.lower()] = _operation(route, limits)
    for route in routes:
        if route.if_match and "get" in (at_path := paths[public_path(route.path)]):
            at_path["get"]["responses"]["200"]["headers"] |= headers_of("tag")  # which that write takes
    return paths


def public_path(path: str) -> str:
    """Return a route's path for callers: `/v1/posts/<post_id:str>` is `/v1/posts/{id}`."""
    return "/".join(_public_part(part) for part in path.split("/"))


def _public_part(part: str) -> str:
    if not part.startswith("<"):
        return part
    name = part[1:-1].partition(":")[0]
    return "{id}" if name.endswith("_id") else f"{{{name}}}"


def _operation(route: Route, limits: RateLimitSettings) -> Json:
    operation = route.operation
    assert operation is not None, "only routes with an operation are documented"
    entry: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{operation.about} {_rate_limit_text(route, limits)}".strip(),
        "tags": [operation.tag],
        "security": _security(route),
    }
    if parameters := list(_parameters(route)):
        entry["parameters"] = parameters
    if route.body is not None:
        entry["requestBody"] = _request_body(route, operation)
    elif route.receive is not None:
        entry["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": _upload(route)}}}
    entry["responses"] = _successes(route, operation) | _failures(route) | {"default": ref("responses", "Failure")}
    return entry


def _rate_limit_text(route: Route, limits: RateLimitSettings) -> str:
    if not route.is_api:
        return ""
    who = "client address" if route.guard == "open" else "key"
    return f"At most {getattr(limits, route.limit):,} requests a minute for one {who}."


def _security(route: Route) -> list[Json]:
    key: Json = {"apiKey": [] if route.scope in (None, "any") else [route.scope]}
    session: Json = {"session": []}
    return {
        "key": [key],
        "read": [key, session],
        "session": [session | ({"csrf": []} if route.method in WRITE_METHODS else {})],
        "open": [],
    }[route.guard]


PATH_DESCRIPTIONS = {
    "endpoint_id": "The id of the webhook endpoint.",
    "channel_id": "The id of the notification channel.",
    "media_id": "The id of the file: `med_…`.",
    "key_id": "The id of the API key: not the key itself.",
    "platform": "The name of the platform, as in `GET /v1/platforms`.",
}
"""Descriptions of path parameters whose names do not explain them."""


def _parameters(route: Route) -> Iterator[Json]:
    for part in route.path.split("/"):
        if part.startswith("<"):
            name = part[1:-1].partition(":")[0]
            operation = PATH_DESCRIPTIONS.get(name) or f"The id of the {name.removesuffix('_id')}."
            public = {"name": _public_part(part)[1:-1], "in": "path", "required": True, "description": operation}
            yield public | {"schema": ref("schemas", "Platform") if name == "platform" else {"type": "string"}}
    yield from parameters_of(route.query)
    if has_idempotency_key(route):
        yield ref("parameters", KEY_HEADER)
    if route.prefer_wait:
        yield ref("parameters", PREFER_HEADER)
    if route.has_etag:
        yield ref("parameters", IF_NONE_MATCH_HEADER)
    if route.if_match:
        yield ref("parameters", IF_MATCH_HEADERS[route.if_match])


def has_idempotency_key(route: Route) -> bool:
    """Return whether the operation accepts an Idempotency-Key."""
    return route.is_api and route.method in WRITE_METHODS


def _request_body(route: Route, operation: Operation) -> Json:
    assert route.body is not None
    content: Json = {"schema": ref("schemas", model_name(route.body))}
    if operation.requests:
        content["examples"] = {name: {"value": value} for name, value in operation.requests.items()}
    extra = route.body.model_config.get("json_schema_extra")
    asks_for_any = isinstance(extra, dict) and "if" in extra  # one of its fields at least
    required = asks_for_any or any(info.is_required() for info in route.body.model_fields.values())
    return {"required": required, "content": {"application/json": content}}


def _upload(route: Route) -> Json:
    """Return the parts of an upload: its file and the fields that may also be in the query."""
    fields = {parameter["name"]: parameter["schema"] for parameter in parameters_of(route.query)}
    file: Json = {"type": "string", "format": "binary"}
    return {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {"file": file} | fields,
    }


# --- Responses ---------------------------------------------------------------------------------------------------


def _successes(route: Route, operation: Operation) -> Json:
    made = {str(status): _success(route, operation, status) for status in operation.answers}
    return made | ({"304": _not_modified()} if route.has_etag else {})


def _not_modified() -> Json:
    headers = headers_of("requestId", "rateCeiling", *RATE_HEADERS, "tag")
    return {"description": "You have this answer: it is the one that `If-None-Match` names.", "headers": headers}


def _success(route: Route, operation: Operation, status: int) -> Json:
    headers = headers_of("requestId", *(("rateCeiling", *RATE_HEADERS) if route.is_api else ()))
    if has_idempotency_key(route):
        headers |= headers_of("replayed")
    if route.prefer_wait:
        headers |= headers_of("applied", *(("location",) if route.method == "POST" else ()))
    if route.has_etag:
        headers |= headers_of("tag")
    success = operation.answers[status]
    content: Json = {"schema": ref("schemas", model_name(success.shape)), "example": success.example}
    answer = {
        "description": success.says,
        "headers": headers,
        "content": {"application/json": content},
    }
    return answer | (
        {"links": {name: _link(name, at) for name, at in operation.links.items()}} if operation.links else {}
    )


def _link(operation: str, pointer: str) -> Json:
    return {"operationId": operation, "parameters": {"id": f"$response.body#{pointer}"}}


_IF_MATCH_STATUSES = {"optional": (400, 412), "required": (400, 412, 428)}  # malformed, changed, missing


def list_refusals(route: Route) -> dict[int, list[str]]:
    """Return the possible errors of a route by status: rules, or codes without a rule.

    They are the operation's own, and those that follow from its guard, rate limit and body.
    """
    found: dict[int, list[str]] = {}
    for name in (*_implied_errors(route), *(route.operation.errors if route.operation else ())):
        names = found.setdefault(find_status(name), [])
        if name not in names:
            names.append(name)
    for status in _IF_MATCH_STATUSES[route.if_match] if route.if_match else ():
        found.setdefault(status, []).append("http.if_match")
    return dict(sorted(found.items()))


def _implied_errors(route: Route) -> Iterator[str]:
    if route.body is not None:
        yield from ("validation_failed", "body.json", "http.request")
    elif route.is_api:  # an unknown parameter of the query is refused everywhere
        yield from ("validation_failed", "http.request")
    if route.body is not None or route.receive is not None:
        yield "http.content_encoding"
    if route.query is ProfileQuery:
        yield from ("not_found", "api_key.profile_scope")
    if route.guard != "open":
        yield from ("unauthenticated", "api_key.expired")
    if route.guard in ("key", "read") and route.scope != "any":
        yield "api_key.scope"
    if route.guard == "session":
        yield from ("unauthorized", "csrf")
    if route.recent_password:
        yield "session.proof"
    if route.is_api:
        yield "rate_limited"
    if has_idempotency_key(route):
        yield from ("idempotency_key.length", "idempotency_key.body_mismatch", "idempotency_key.in_progress")
        yield from ("http.body_size", "storage.unavailable")


def find_status(name: str) -> int:
    """Return the HTTP status of a service rule or error code."""
    rule = SERVICE_RULES.get(name)
    if rule is None:
        return ERRORS[name].status
    return rule.status or ERRORS[rule.code].status


def find_code(name: str) -> str:
    """Return the error code of a service rule, or the code itself."""
    return SERVICE_RULES[name].code if name in SERVICE_RULES else name


def _failures(route: Route) -> Json:
    return {str(status): _failure(route, status, names) for status, names in list_refusals(route).items()}


def _failure(route: Route, status: int, names: Sequence[str]) -> Json:
    # A malformed request has no route, so its response (`http.request`) has no rate-limit header.
    ceiling = "rateCeilingMaybe" if "http.request" in names else "rateCeiling"
    headers = headers_of("requestId", *((ceiling, *OPTIONAL_RATE_HEADERS) if route.is_api else ()))
    if status in RETRY_AFTER:
        headers |= headers_of("retryAfter")
    return {
        "description": "\n".join(_error_text(name) for name in names),
        "headers": headers,
        "content": {"application/json": {"schema": ref("schemas", "ErrorEnvelope")}},
        "x-errors": [_named_error(name) for name in names],
    }


def _named_error(name: str) -> Json:
    """Return the code and the rule, if there is one, for programs that read this document."""
    return {"code": find_code(name)} | ({"rule": name} if name in SERVICE_RULES else {})


def _error_text(name: str) -> str:
    if name in SERVICE_RULES:
        return f"- `{find_code(name)}`, rule `{name}`: {SERVICE_RULES[name].message}"
    return f"- `{name}`: {ERRORS[name].message}"

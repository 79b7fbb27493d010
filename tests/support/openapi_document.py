"""OpenAPI document of the API, and lookups of responses, schemas and errors in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from socialpub.base.settings_sections import RateLimitSettings
from socialpub.web.http.handler import Route
from socialpub.web.http.operation import Operation
from socialpub.web.openapi import document as openapi
from socialpub.web.routes import ROUTES

Json = dict[str, Any]


BASE = "https://social.example.org"


DOCUMENT = openapi.build(ROUTES, BASE, RateLimitSettings(), "__Host-socialpub_session", "X-Service")


API_ROUTES = [route for route in ROUTES if route.operation]


def response_of(route: Route) -> Operation:
    assert route.operation
    return route.operation


def schema_name(route: Route) -> str:
    return f"{route.method} {openapi.public_path(route.path)}"


def documented_errors(schema: Json, value: Any, document: Json = DOCUMENT) -> list[str]:
    """Where a value breaks a schema of the document; the schema's references are the document's."""
    if id(document) not in _registries:
        _registries[id(document)] = (
            document,
            Registry().with_resource("doc:", DRAFT202012.create_resource(_anchored(document))),
        )
    registry = _registries[id(document)][1]
    validator = Draft202012Validator(_anchored(schema), registry=registry, format_checker=FormatChecker())
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(value)]


def _anchored(part: Json) -> Json:
    anchored: Json = json.loads(json.dumps(part).replace('"#/components', '"doc:#/components'))
    return anchored


_registries: dict[int, tuple[Json, Registry[Any]]] = {}
"""Of each document, by its identity; the document is kept, so that no other one gets that."""


def walk_schema(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from walk_schema(part)
    elif isinstance(value, list):
        for part in value:
            yield from walk_schema(part)


def delivery_of(event: str, document: Json = DOCUMENT) -> Json:
    """What the document says of the delivery of one type of event."""
    item = document["webhooks"][event]["$ref"].rpartition("/")[2]
    return document["components"]["pathItems"][item]["post"]  # type: ignore[no-any-return]


def close_schema(document: Json) -> Json:
    """The document as this version means it: an answer has no field that its schema does not name."""
    shut = copy.deepcopy(document)
    for schema in shut["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return shut

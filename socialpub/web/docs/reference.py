"""The API reference: the OpenAPI document, and pages rendered from it alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from socialpub import __version__, platforms
from socialpub.base.errors import ApiError
from socialpub.base.settings_sections import WebhookSettings
from socialpub.platforms.contract import Platform
from socialpub.platforms.kit.options import TAG
from socialpub.web.html import templates
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.openapi.document import OpenApiDocument

Json = dict[str, Any]
SCHEMAS = "schemas"
"""The part of the reference with the schemas."""
VERIFIERS = {
    "Python": "python.py",
    "TypeScript": "typescript.ts",
    "Go": "go.go",
    "PHP": "php.php",
    "Shell": "shell.sh",
}
"""Files of example code that checks a signature, by language."""
UPLOAD = ("file=@door.jpg", "altText=A door with the new hours on it")
"""The parts of the example upload."""


async def serve_document(call: RequestContext) -> HandlerResponse:
    """GET /openapi.json."""
    return HandlerResponse(_find_document(call).text)


async def show_index(call: RequestContext) -> HandlerResponse:
    """GET /docs/reference: every operation and schema, with links."""
    document = _find_document(call).document
    return templates.render_page(
        "docs/reference.html",
        version=document["info"]["version"],
        server=document["servers"][0]["url"],
        about=document["info"]["description"],
        tags=_parts(document),
        schemas=list(document["components"]["schemas"]),
    )


async def show_part(call: RequestContext) -> HandlerResponse:
    """GET /docs/reference/{part}: the list of a tag's operations, or of the schemas.

    Raises ApiError `not_found`.
    """
    document, name = _find_document(call).document, call.path_value("part")
    if name == SCHEMAS:
        schemas = [
            {"name": name, "description": schema.get("description", "")}
            for name, schema in document["components"]["schemas"].items()
        ]
        return templates.render_page("docs/reference_schemas.html", schemas=schemas)
    tag = next((tag for tag in document["tags"] if to_slug(tag["name"]) == name), None)
    operations = list(_operations(document, tag["name"])) if tag else []
    if not operations:
        raise ApiError("not_found", "The reference has no such part.")
    return templates.render_page("docs/reference_part.html", tag=tag, operations=operations)


async def show_operation(call: RequestContext) -> HandlerResponse:
    """GET /docs/reference/operations/{id}. Raises ApiError `not_found`."""
    document, name = _find_document(call).document, call.path_value("operation")
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            if entry["operationId"] == name:
                tag = next(tag for tag in document["tags"] if tag["name"] in entry["tags"])
                operation = build_operation_view(document, method.upper(), path, entry)
                slug = to_slug(tag["name"])
                return templates.render_page("docs/operation.html", tag=tag, slug=slug, operation=operation)
    raise ApiError("not_found", "The reference has no such operation.")


async def show_schema(call: RequestContext) -> HandlerResponse:
    """GET /docs/reference/schemas/{name}. Raises ApiError `not_found`."""
    schemas, name = _find_document(call).document["components"]["schemas"], call.path_value("schema")
    if name not in schemas:
        raise ApiError("not_found", "The reference has no such schema.")
    return templates.render_page("docs/schema.html", schema=build_schema_view(name, schemas[name]))


def to_slug(tag: str) -> str:
    """Return a tag as part of an address: `API keys` is `api-keys`."""
    return tag.lower().replace(" ", "-")


def _parts(document: Json) -> list[Json]:
    """Return the tags that have operations, with name, method and path of each."""
    parts = [(tag, list(_operations(document, tag["name"]))) for tag in document["tags"]]
    return [{"tag": tag, "slug": to_slug(tag["name"]), "operations": found} for tag, found in parts if found]


def list_operations(call: RequestContext, tags: Sequence[str]) -> list[Json]:
    """Return the operations of these tags, for the template, in the document's order."""
    document = _find_document(call).document
    return [operation for tag in tags for operation in _operations(document, tag)]


async def show_events(call: RequestContext) -> HandlerResponse:
    """GET /docs/events: the list of events, and what a delivery is."""
    document = _find_document(call).document
    prefix = call.service.runtime.settings.webhooks.header_prefix
    deliveries = _list_deliveries(document)
    return templates.render_page(
        "docs/events.html",
        version=__version__,
        events=[{"name": name, "summary": entry["summary"]} for name, entry in deliveries.items()],
        headers=_parameters(document, next(iter(deliveries.values()))),
        envelope=build_schema_view("SampleEvent", document["components"]["schemas"]["SampleEvent"]),
        delivered="/v1/webhook-endpoints" in document["paths"],
        verifiers={name: read_verifier(file, prefix) for name, file in VERIFIERS.items()},
    )


async def show_event(call: RequestContext) -> HandlerResponse:
    """GET /docs/events/{type}: its data and an example. Raises ApiError `not_found`."""
    document, name = _find_document(call).document, call.path_value("event")
    entry = _list_deliveries(document).get(name)
    if entry is None:
        raise ApiError("not_found", "There is no such event.")
    return templates.render_page("docs/event.html", event=build_event_view(document, name, entry))


def _list_deliveries(document: Json) -> dict[str, Json]:
    """Return the delivery of every event type."""
    return {name: _resolve_ref(document, item)["post"] for name, item in document["webhooks"].items()}


async def show_options(call: RequestContext) -> HandlerResponse:
    """GET /docs/options: every publishing option, with its limits and their sources."""
    schemas = _find_document(call).document["components"]["schemas"]
    groups = [_option_group(row, schemas) for row in platforms.PLATFORMS.values()]
    return templates.render_page("docs/options.html", groups=groups)


def _option_group(platform: Platform, schemas: Json) -> Json:
    """Return a platform's options for the template, each with the rules that name it."""
    return {
        "platform": platform,
        "options": [
            {
                "name": name,
                "type": describe_schema(value),
                "description": value["description"],
                "rules": [rule for rule in platform.rules if f"`options.{name}`" in rule.message + rule.remediation],
            }
            for name, value in schemas[platform.options.__name__]["properties"].items()
            if name != TAG
        ],
    }


def read_verifier(file: str, header_prefix: str) -> str:
    """Return example code that checks a signature, for headers with this prefix."""
    return templates.read_source(f"docs/verifiers/{file}").replace(WebhookSettings().header_prefix, header_prefix)


def _find_document(call: RequestContext) -> OpenApiDocument:
    reference: OpenApiDocument = call.request.app.ctx.reference
    return reference


# --- Operations --------------------------------------------------------------------------------------------------


def _operations(document: Json, tag: str) -> Iterator[Json]:
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            if tag in entry["tags"]:
                yield build_operation_view(document, method.upper(), path, entry)


def build_operation_view(document: Json, method: str, path: str, entry: Json) -> Json:
    """Return an operation for the template."""
    body = entry.get("requestBody", {}).get("content", {}).get("application/json")
    return {
        "id": entry["operationId"],
        "method": method,
        "path": path,
        "summary": entry["summary"],
        "description": entry["description"],
        "callers": describe_callers(entry["security"]),
        "parameters": _parameters(document, entry),
        "body": describe_schema(body["schema"]) if body else None,
        "body_required": entry.get("requestBody", {}).get("required", False),
        "requests": _requests(document, method, path, entry),
        "answers": list(_answers(entry)),
        "failures": list(_failures(entry)),
    }


def describe_callers(security: list[Json]) -> str:
    """Return in words who may call, with the scope that an API key needs."""
    words = {"apiKey": "API key", "session": "session cookie", "csrf": "CSRF token"}
    ways = [
        " with ".join(" with scope ".join([words[name], *(f"`{scope}`" for scope in way[name])]) for name in way)
        for way in security
    ]
    return " or ".join(ways) if ways else "anyone"


def _parameters(document: Json, entry: Json) -> list[Json]:
    found = [_resolve_ref(document, parameter) for parameter in entry.get("parameters", [])]
    return [
        {
            "name": parameter["name"],
            "where": parameter["in"],
            "required": parameter["required"],
            "type": describe_schema(parameter["schema"]),
            "description": parameter.get("description", ""),
        }
        for parameter in found
    ]


def _resolve_ref(document: Json, value: Json) -> Json:
    if "$ref" not in value:
        return value
    found: Json = document
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _requests(document: Json, method: str, path: str, entry: Json) -> list[Json]:
    """Return a command for each example body of an operation, or one command without a body."""
    address = document["servers"][0]["url"] + path.replace("{id}", _example_id(document, path))
    content = entry.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        return [{"title": "", "curl": build_curl(method, address, entry["security"], form=UPLOAD)}]
    headers = _required_headers(document, entry)
    examples = content.get("application/json", {}).get("examples", {})
    bodies: list[tuple[str, Any]] = [(name, example["value"]) for name, example in examples.items()]
    return [
        {"title": title, "curl": build_curl(method, address, entry["security"], body, headers=headers)}
        for title, body in bodies or [("", None)]
    ]


def _required_headers(document: Json, entry: Json) -> list[str]:
    """Return the headers without which an operation is refused, with their examples."""
    found = [_resolve_ref(document, parameter) for parameter in entry.get("parameters", [])]
    return [f"{each['name']}: {each['example']}" for each in found if each["in"] == "header" and each.get("required")]


def _example_id(document: Json, path: str) -> str:
    """Return the id in the example of the resource at the start of a path, else "ID"."""
    resource = path.partition("{id}")[0] + "{id}"
    for entry in document["paths"].get(resource, {}).values():
        for answer in entry["responses"].values():
            example = answer.get("content", {}).get("application/json", {}).get("example")
            if isinstance(example, dict) and "id" in example:
                return str(example["id"])
    return "ID"


def build_curl(
    method: str,
    address: str,
    security: list[Json],
    body: Any = None,
    form: Sequence[str] = (),
    headers: Sequence[str] = (),
) -> str:
    """Return a command that makes the call.

    Secrets, and the platform of a path, are environment variables. `form`: the parts of a multipart body. `headers`:
    further ones.
    """
    address = f'"{address.replace("{platform}", "$PLATFORM")}"' if "{platform}" in address else shlex.quote(address)
    lines = [f"curl -sS {'' if method in ('GET', 'POST') else f'-X {method} '}{address}"]
    lines += _credentials(method, security)
    if method != "GET":
        lines.append('-H "Idempotency-Key: $(date +%s)-$RANDOM"')
    lines += [f"-H {shlex.quote(header)}" for header in headers]
    if form:
        lines += [f"-F {shlex.quote(part)}" for part in form]
    elif body is not None:
        lines.append("-d " + shlex.quote(json.dumps(body, indent=2, ensure_ascii=False)))
    elif method == "POST":
        lines.append("-d ''")
    return " \\\n  ".join(lines)


def _credentials(method: str, security: list[Json]) -> list[str]:
    if any("apiKey" in way for way in security):
        return ['-H "Authorization: Bearer $SOCIALPUB_KEY"']
    if not security:
        return []
    cookie = '-H "Cookie: $SOCIALPUB_COOKIE"'
    if method == "GET":
        return [cookie]
    return [cookie, '-H "X-CSRF-Token: $SOCIALPUB_CSRF"', '-H "Content-Type: application/json"']


def _answers(entry: Json) -> Iterator[Json]:
    for status, answer in entry["responses"].items():
        if status.startswith("2"):
            content = answer["content"]["application/json"]
            yield {
                "status": status,
                "description": answer["description"],
                "type": describe_schema(content["schema"]),
                "example": json.dumps(content["example"], indent=2, ensure_ascii=False) if "example" in content else "",
            }


def _failures(entry: Json) -> Iterator[Json]:
    for status, answer in entry["responses"].items():
        for error in answer.get("x-errors", ()):
            line = next(line for line in answer["description"].splitlines() if f"`{_name(error)}`:" in line)
            yield {"status": status, **error, "message": line.partition(": ")[2]}


def _name(error: Json) -> str:
    return str(error.get("rule", error["code"]))


# --- Events ------------------------------------------------------------------------------------------------------


def build_event_view(document: Json, name: str, entry: Json) -> Json:
    """Return an event type for the template."""
    content = entry["requestBody"]["content"]["application/json"]
    schema = _resolve_ref(document, content["schema"])
    data = schema["properties"]["data"]["$ref"].rpartition("/")[2]
    return {
        "name": name,
        "summary": entry["summary"],
        "data": build_schema_view(data, document["components"]["schemas"][data]),
        "example": json.dumps(content["example"], indent=2, ensure_ascii=False),
    }


# --- Schemas -----------------------------------------------------------------------------------------------------


def build_schema_view(name: str, schema: Json) -> Json:
    """Return a schema for the template: fields, values, or alternatives."""
    required = schema.get("required", [])
    return {
        "name": name,
        "description": schema.get("description", ""),
        "values": schema.get("enum"),
        "shape": describe_schema(schema),
        "fields": [
            {
                "name": field,
                "type": describe_schema(value),
                "required": field in required,
                "description": value.get("description", ""),
            }
            for field, value in schema.get("properties", {}).items()
        ],
    }


def describe_schema(schema: Json) -> Markup:
    """Return a schema in a few words, with links to the schemas it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="/docs/reference/schemas/{0}">{0}</a>').format(name)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return Markup(" or ").join(describe_schema(part) for part in schema[union])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return Markup(" or ").join(Markup("<code>{}</code>").format(json.dumps(value)) for value in values)
    if schema.get("type") == "array":
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return Markup("array of {}{}").format(describe_schema(schema.get("items", {})), most)
    return Markup("{}{}").format(schema.get("type", "any value"), _describe_bounds(schema))


def _describe_bounds(schema: Json) -> str:
    if "format" in schema:
        return f" ({schema['format']})"
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if schema.get("type") == "string" else ""
    default = f", default {schema['default']}" if "default" in schema else ""
    if low is not None and high is not None:
        return f", {low:,} to {high:,}{unit}{default}"
    if high is not None:
        return f", at most {high:,}{unit}{default}"
    if low is not None:
        return f", at least {low:,}{unit}{default}"
    return default

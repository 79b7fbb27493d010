"""OpenAPI schemas from models and TypedDicts, with named enumerations and unions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from socialpub import platforms
from socialpub.base import field_docs
from socialpub.base.error_codes import ERRORS
from socialpub.base.key_scopes import ALL_SCOPES
from socialpub.domain.schemas.accounts import Descriptor
from socialpub.domain.schemas.errors import PLATFORM_RESPONSES, ErrorEnvelope, UpstreamAnswer
from socialpub.domain.schemas.events import EVENTS, EventBody
from socialpub.domain.schemas.notifications import ChannelTarget, NoticeType
from socialpub.domain.schemas.posts import MediaEntry, Options
from socialpub.store.rows import PostStatus
from socialpub.web.http.handler import Route
from socialpub.web.openapi.field_descriptions import add_descriptions

Json = dict[str, Any]
TEMPLATE = "#/components/schemas/{model}"

ENUMS: dict[str, tuple[str, ...]] = {
    "Platform": tuple(platforms.PLATFORMS),
    "PostStatus": get_args(PostStatus),
    "ErrorCode": tuple(ERRORS),
    "EventType": tuple(EVENTS),
    "NoticeType": get_args(NoticeType),
    "KeyScope": ALL_SCOPES,
}
UNIONS: dict[str, Any] = {
    "MediaEntry": MediaEntry,
    "Options": Options,
    "ChannelTarget": ChannelTarget,
    "Descriptor": Descriptor,
}
"""Enumerations by name, so that code generators make one type of each."""


# Schemas whose own name is reserved: `Error` is a type of Java, `…_test.go` a test file of Go.
PUBLIC_NAMES = {
    "ErrorBody": "ErrorDetail",
    "FieldBody": "CredentialField",
    "WarningBody": "WarningDetail",
    "TestBody": "WebhookTestResult",
    "TestRequest": "WebhookTestRequest",
    "ChannelTestBody": "ChannelTestResult",
    "MediaBody": "MediaFile",
    "HealthBody": "HealthStatus",
}


class _SchemaGenerator(GenerateJsonSchema):
    """pydantic's generator with field docstrings, and without defaults that mean "absent"."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if not made.get("default"):
            made.pop("default", None)
        return made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made, model = super().model_schema(schema), schema["cls"]
        aliases = {name: field.alias or name for name, field in model.model_fields.items()}
        return _add_field_descriptions(
            made, {aliases[name]: text for name, text in field_docs.read(model).items() if name in aliases}
        )

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _add_field_descriptions(super().typed_dict_schema(schema), field_docs.read(schema["cls"]))


def _add_field_descriptions(schema: JsonSchemaValue, descriptions: dict[str, str]) -> JsonSchemaValue:
    for name, text in descriptions.items():
        schema["properties"][name].setdefault("description", text)
    return schema


def model_name(shape: Any) -> str:
    """Return the schema's name of a model or response type: `PostBody` is `Post`."""
    return _public_name(str(shape.__name__))


def component_schemas(routes: Sequence[Route]) -> Json:
    """Return every schema that the routes and events use, by name."""
    bodies = {route.body for route in routes if route.body}
    answers = [success.shape for route in routes if route.operation for success in route.operation.answers.values()]
    answers += [ErrorEnvelope, EventBody, *(kind.data for kind in EVENTS.values()), *_platform_responses()]
    unions = {name: {key: _simplify(value) for key, value in schema.items()} for name, schema in _unions().items()}
    enums = {name: _enum(name, values) for name, values in ENUMS.items()}
    shapes = _models(_sort_by_name(bodies)) | _typed_dicts(_sort_by_name(answers))
    found = {_public_name(name): _simplify(schema) for name, schema in shapes.items()} | enums | unions
    return add_descriptions(dict(sorted((found | _events(found.pop(EVENT))).items())))


def _enum(name: str, values: Sequence[str]) -> Json:
    """Return an enumeration.

    Its constants have unique names, since Go has one namespace for all.
    """
    others = {_constant(value) for other in ENUMS if other != name for value in ENUMS[other]}
    made: Json = {"type": "string", "enum": list(values)}
    if others.isdisjoint(map(_constant, values)):
        return made
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return made | {"x-enum-varnames": [f"{prefix}_{_constant(value)}" for value in values]}


def _constant(value: str) -> str:
    return re.sub(r"\W", "_", value).upper()


def _platform_responses() -> list[Any]:
    shapes = [get_args(shape)[0] if get_args(shape) else shape for shape in PLATFORM_RESPONSES.values()]
    return [*shapes, UpstreamAnswer]


# --- Events --------------------------------------------------------------------------------------------------------

EVENT = "Event"


def to_pascal_case(event: str) -> str:
    """Return an event type as a type name: `tier.changed` is `TierChanged`."""
    return "".join(part.capitalize() for part in event.replace("_", ".").split("."))


def event_name(event: str) -> str:
    """Return the schema name of an event type."""
    return f"{to_pascal_case(event)}Event"


def _events(envelope: Json) -> Json:
    """Return `Event`, a union of the event types, and each of them with its data."""
    refs = {event: TEMPLATE.format(model=event_name(event)) for event in EVENTS}
    union = {
        "description": f"{envelope['description']} `type` decides what `data` is. New types may be added: a client "
        "that cannot skip unknown ones asks for those it knows (`type` of GET /v1/events, `events` of an endpoint).",
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }
    return {EVENT: union} | {event_name(event): _event(envelope, event) for event in EVENTS}


def _event(envelope: Json, event: str) -> Json:
    kind = EVENTS[event]
    said = envelope["properties"]["data"]["description"]
    special = {
        "type": {"type": "string", "const": event},
        "data": {"$ref": TEMPLATE.format(model=model_name(kind.data)), "description": said},
    }
    return {**envelope, "description": kind.text, "properties": envelope["properties"] | special}


# --- Models --------------------------------------------------------------------------------------------------------


@functools.cache
def _unions() -> dict[str, Json]:
    made = {name: TypeAdapter(union).json_schema(ref_template=TEMPLATE) for name, union in UNIONS.items()}
    return {name: {key: value for key, value in union.items() if key != "$defs"} for name, union in made.items()}


@functools.cache
def _models(models: tuple[type[BaseModel], ...]) -> Json:
    _, made = models_json_schema(
        [(model, "validation") for model in models], ref_template=TEMPLATE, schema_generator=_SchemaGenerator
    )
    return dict(made.get("$defs", {}))


def _sort_by_name(shapes: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(set(shapes), key=lambda shape: str(shape.__name__)))


@functools.cache
def _typed_dicts(shapes: tuple[Any, ...]) -> Json:
    """Return the schemas of TypedDicts and their parts. They are open: fields may be added."""
    fields: Any = {shape.__name__: (shape, ...) for shape in shapes}
    together = create_model("Answers", **fields)
    made: Json = together.model_json_schema(
        mode="serialization", ref_template=TEMPLATE, schema_generator=_SchemaGenerator
    )["$defs"]
    return made


def _public_name(name: str) -> str:
    return PUBLIC_NAMES.get(name, name.removesuffix("Body"))


def _simplify(schema: Any) -> Any:
    """Return a schema without generated titles, with named enumerations and required tags."""
    if isinstance(schema, list):
        return [_simplify(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if (name := _enum_name(schema) or _union_name(schema)) is not None:
        return _named(name, schema)
    shown = {key: _simplify(value) for key, value in schema.items() if key not in ("title", "properties", "$ref")}
    if "$ref" in schema:
        prefix, _, name = schema["$ref"].rpartition("/")
        shown["$ref"] = f"{prefix}/{_public_name(name)}"
    if "properties" in schema:
        shown["properties"] = {name: _simplify(value) for name, value in schema["properties"].items()}
        _require_tags(shown)
    if "description" in shown:
        shown["description"] = " ".join(str(shown["description"]).split())
    return shown


def _enum_name(schema: Json) -> str | None:
    values = tuple(schema.get("enum", ()))
    return next((name for name, known in ENUMS.items() if values == known), None)


def _union_name(schema: Json) -> str | None:
    choices = schema.get("oneOf")
    return next((name for name, known in _unions().items() if choices == known["oneOf"]), None) if choices else None


def _named(name: str, schema: Json) -> Json:
    ref = {"$ref": TEMPLATE.format(model=name)}
    return ref | ({"description": schema["description"]} if "description" in schema else {})


def _require_tags(schema: Json) -> None:
    """Require the properties whose one value is the default: they are tags of unions."""
    for name, value in schema["properties"].items():
        if "const" in value and "default" in value:
            del value["default"]
            if name not in schema.setdefault("required", []):
                schema["required"].insert(0, name)


def parameters_of(model: type[BaseModel]) -> Iterator[Json]:
    """Yield the query parameters of a model. Lists may be repeated."""
    schema = _simplify(model.model_json_schema(schema_generator=_SchemaGenerator, ref_template=TEMPLATE))
    for name, value in schema.get("properties", {}).items():
        description = value.pop("description", "")
        parameter: Json = {"name": name, "in": "query", "required": name in schema.get("required", []), "schema": value}
        if value.get("type") == "array":
            parameter |= {"style": "form", "explode": True}
            description = f"{description} Repeat it, or separate values by commas, for any of several.".strip()
        yield parameter | ({"description": description} if description else {})

"""Print `socialpub_client/answers.py`: a class for each object in answers to a key.

Run by `make client`, from the OpenAPI document of this checkout. Requests need no classes: methods take their fields.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from socialpub.base.settings_sections import RateLimitSettings
from socialpub.web.openapi import document
from socialpub.web.routes import ROUTES

Json = dict[str, Any]
DOCUMENT = document.build(ROUTES, "https://social.example.org", RateLimitSettings(), "session", "X-Service")
SCHEMAS: dict[str, Json] = DOCUMENT["components"]["schemas"]
SAME = {"CurrentBatch": "Batch"}
"""Schemas with the fields of another one."""
NAMES = {"Batch": "BatchData", "Event": "EventData"}
"""Names of classes that the library extends."""
ERROR_DETAILS = ("PreflightFailure", "ValidationIssue", "EnvelopeError")
HEAD = '''"""Answers of the API. `make client` generates this file from its OpenAPI document.

`raw` is the whole JSON object, with fields that this version of the client does not know. A value that is unknown to
an enumeration stays text. `etag` is what the `if_match` of a change takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

Json = Mapping[str, Any]

_time = datetime.fromisoformat


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    raw: Json = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer(_Part):
    etag: str = field(default="", repr=False, compare=False)
'''


def text() -> str:
    """Return the module."""
    names, read = _answer_schemas()
    classes = ["\n".join(_class(name, has_etag=name in read)) for name in sorted(names, key=_class_name)]
    constants = f"ERROR_CODES = {_list_values('ErrorCode')}\n\nPLATFORMS = {_list_values('Platform')}\n"
    return "\n\n".join([f"{HEAD}\n{constants}", *classes]) + "\n"


def _list_values(name: str) -> str:
    """Return the tuple of an enumeration's values."""
    return "(\n" + "".join(f'    "{value}",\n' for value in SCHEMAS[name]["enum"]) + ")"


def _answer_schemas() -> tuple[set[str], set[str]]:
    """Return the names of all objects within answers, and of those that are answers."""
    found: set[str] = set()
    read: set[str] = set()
    left = list(ERROR_DETAILS)
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            ways = operation.get("security", [])
            if ways and not any("apiKey" in way for way in ways):
                continue
            for status, answer in operation["responses"].items():
                if status.startswith("2"):
                    schema = answer["content"]["application/json"]["schema"]
                    left += _references(schema)
                    read |= {_resolve(name) for name in _references(schema)}
    while left:
        name = _resolve(left.pop())
        schema = SCHEMAS[name]
        if name not in found and _is_object(schema):
            if not _is_page(name):
                found.add(name)
            for part in schema["properties"].values():
                left += _references(part)
    return found, read


def _resolve(name: str) -> str:
    return SAME.get(name, name)


def _class_name(name: str) -> str:
    return NAMES.get(_resolve(name), _resolve(name))


def _is_object(schema: Json) -> bool:
    return "properties" in schema


def _is_page(name: str) -> bool:
    """Whether it only holds the items that a list method returns."""
    return set(SCHEMAS[name]["properties"]) <= {"data", "nextCursor", "endCursor"}


def _references(schema: Any) -> list[str]:
    """Return the schemas that a part of a schema names, but not the kinds of one that has several."""
    if isinstance(schema, list):
        return [name for part in schema for name in _references(part)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
    return here + [name for key in ("anyOf", "items") for name in _references(schema.get(key))]


def _class(name: str, *, has_etag: bool) -> Iterator[str]:
    """Yield the lines of one class."""
    schema = SCHEMAS[name]
    properties, required = schema["properties"], schema["required"]
    yield "@dataclass(frozen=True, slots=True, kw_only=True)"
    yield f"class {_class_name(name)}({'_Answer' if has_etag else '_Part'}):"
    yield f'    """{schema["description"]}"""'
    yield ""
    for key, part in properties.items():
        type_, _ = _type(part)
        optional = "" if key in required else " = None" if type_ in ("Any", "object") else " | None = None"
        if key not in required and type_.endswith(" | None"):
            optional = " = None"
        yield f"    {_snake(key)}: {type_}{optional}"
        values = _values(part)
        described = part.get("description", "") + (f" One of {values}." if values else "")
        yield from _docstring(described.strip())
    yield ""
    yield "    @classmethod"
    etag = ', etag: str = ""' if has_etag else ""
    yield f"    def parse(cls, data: Json{etag}) -> Self:"
    yield '        """Read the JSON object of an answer."""'
    yield "        return cls("
    for key, part in properties.items():
        _, parse = _type(part)
        yield f"            {_snake(key)}={_read(key, parse, key in required)},"
    yield "            raw=data,"
    if has_etag:
        yield "            etag=etag,"
    yield "        )"


def _docstring(words: str) -> Iterator[str]:
    if words:
        words = words if words.endswith((".", ":", "?", "`")) else f"{words}."
        lines = textwrap.wrap(words, 110)
        if len(lines) == 1:
            yield f'    """{words}"""'
            return
        yield f'    """{lines[0]}'
        yield from (f"    {line}" for line in lines[1:])
        yield '    """'


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()


def _values(part: Json) -> str:
    """Return the values of an enumeration, for people."""
    named = [SCHEMAS[name] for name in _references(part) if "enum" in SCHEMAS[name]]
    values = next((schema["enum"] for schema in [part, *named] if "enum" in schema), [])
    return ", ".join(f"`{value}`" for value in values) if len(values) <= 8 else ""


def _type(part: Json) -> tuple[str, str]:
    """Return the type of a field, and how it is read from `{}`; "" where it is taken as it is."""
    if "anyOf" in part:
        (kind,) = [each for each in part["anyOf"] if each.get("type") != "null"]
        type_, parse = _type(kind)
        return f"{type_} | None", f"None if {{}} is None else {parse}" if parse else ""
    if "$ref" in part:
        name = _resolve(part["$ref"].rpartition("/")[2])
        schema = SCHEMAS[name]
        if _is_object(schema):
            return _class_name(name), f"{_class_name(name)}.parse({{}})"
        return ("Json", "") if "oneOf" in schema else _type(schema)
    match part.get("type"):
        case "array":
            type_, parse = _type(part["items"])
            return (
                f"tuple[{type_}, ...]",
                f"tuple({parse.format('each') or 'each'} for each in {{}})" if parse else "tuple({})",
            )
        case "string":
            return ("datetime", "_time({})") if part.get("format") == "date-time" else ("str", "")
        case "integer":
            return "int", ""
        case "boolean":
            return "bool", ""
        case "number":
            return "float", ""
        case "object":
            return "Json", ""
    return "Any", ""


def _read(key: str, parse: str, required: bool) -> str:
    at = f"data[{json.dumps(key)}]" if required else f"data.get({json.dumps(key)})"
    if not parse:
        return at
    if required or parse.startswith("None if"):
        return parse.replace("{}", at)
    return f"None if {at} is None else {parse.replace('{}', f'data[{json.dumps(key)}]')}"


if __name__ == "__main__":
    ruff = [str(Path(sys.executable).with_name("ruff")), "format", "--quiet", "--stdin-filename", "answers.py", "-"]
    print(subprocess.run(ruff, input=text(), text=True, check=True, capture_output=True).stdout, end="")

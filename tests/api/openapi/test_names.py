"""OpenAPI names and types suit client generators: distinct and consistent."""

from __future__ import annotations

import itertools
import json
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.support.openapi_document import DOCUMENT, Json, walk_schema

SCHEMAS: dict[str, Json] = DOCUMENT["components"]["schemas"]
OPERATIONS = [entry for methods in DOCUMENT["paths"].values() for entry in methods.values()]
DELIVERIES = [item["post"] for item in DOCUMENT["components"]["pathItems"].values()]
OPERATION_IDS = [entry["operationId"] for entry in (*OPERATIONS, *DELIVERIES)]
TAGS = [tag["name"] for tag in DOCUMENT["tags"]]

# --- Names -------------------------------------------------------------------------------------------------------

RESERVED = {
    "Python": {*keyword.kwlist, *keyword.softkwlist, "field", "warning", "exception", "object", "property", "self"},
    "TypeScript": set(
        "any arguments as async await boolean break case catch class const continue debugger declare default delete do"
        " else enum export extends false finally for from function get if implements import in instanceof interface is"
        " keyof let module namespace never new null number object of package private protected public readonly require"
        " return set static string super switch symbol this throw true try type typeof undefined unique unknown var"
        " void while with yield error array map promise date record".split()
    ),
    "Go": set(
        "break case chan const continue default defer else fallthrough for func go goto if import interface map package"
        " range return select struct switch type var any bool byte error string uint nil iota append cap len make new"
        " panic print".split()
    ),
    "Java": set(
        "abstract assert boolean break byte case catch char class const continue default do double else enum exports"
        " extends final finally float for goto if implements import instanceof int interface long module native new"
        " null package private protected public record return sealed short static strictfp super switch synchronized"
        " this throw throws transient try var void volatile while yield error exception object string integer thread"
        " override process runtime system list file".split()
    ),
}
# What a Go file's name must not end in: `model_delivery_test.go` is a test, `model_x_linux.go` for Linux alone.
GO_SUFFIXES = set("test linux windows darwin android ios js unix amd64 arm arm64 wasm".split())


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[ .-]", "_", name).lower()


def pascal(name: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in name.split())


def twice(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(name.lower() for name in names).items() if times > 1]


@pytest.mark.parametrize("names", [OPERATION_IDS, TAGS, list(SCHEMAS)], ids=["operations", "tags", "schemas"])
def test_names_differ_in_more_than_case(names: list[str]) -> None:
    assert twice(names) == []
    assert twice(pascal(name) for name in names) == []


def test_no_name_is_another_kinds_name() -> None:
    kinds = {"operations": OPERATION_IDS, "tags": TAGS, "schemas": list(SCHEMAS)}
    for (one, names), (other, others) in itertools.combinations(kinds.items(), 2):
        shared = {pascal(name).lower() for name in names} & {pascal(name).lower() for name in others}
        assert shared == set(), (one, other)


def derived() -> Iterator[tuple[str, str]]:
    """The names that generators make of ours, and of which."""
    for name in OPERATION_IDS:
        for suffix in ("Request", "Response", "Params", "Data", "Error", "Errors", "Responses"):
            yield f"{pascal(name)}{suffix}", name
        yield f"Api{pascal(name)}Request", name
    for name in TAGS:
        yield from ((f"{pascal(name)}{suffix}", name) for suffix in ("Api", "Service", "Client"))
    for name in SCHEMAS:
        yield from ((f"{prefix}{name}", name) for prefix in ("Nullable", "New", "Api"))
        yield from ((f"{name}{suffix}", name) for suffix in ("FromJSON", "ToJSON", "Inner", "OneOf", "AnyOf", "AllOf"))


def test_no_schema_has_a_name_that_is_made_of_another() -> None:
    known = {name.lower() for name in SCHEMAS}
    assert [(made, origin) for made, origin in derived() if made.lower() in known] == []
    assert twice(made for made, _ in derived()) == []


@pytest.mark.parametrize("language", RESERVED)
def test_no_name_is_a_reserved_word(language: str) -> None:
    words = {word.lower() for word in RESERVED[language]}
    assert [name for name in (*OPERATION_IDS, *TAGS, *SCHEMAS) if name.lower() in words or snake(name) in words] == []


def test_names_are_identifiers_as_they_stand() -> None:
    assert [name for name in OPERATION_IDS if not re.fullmatch(r"[a-z][A-Za-z0-9]*", name)] == []
    assert [name for name in SCHEMAS if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    assert [name for name in TAGS if not re.fullmatch(r"[A-Z][A-Za-z]*( [a-z]+)*", name)] == []
    assert [name for name in SCHEMAS if snake(name).rpartition("_")[2] in GO_SUFFIXES] == []


def test_every_tag_is_declared_and_used() -> None:
    used = {tag for entry in (*OPERATIONS, *DELIVERIES) for tag in entry["tags"]}
    assert used == set(TAGS)


def test_constants_of_enumerations_differ() -> None:
    """Go has one namespace for the constants of all enumerations."""
    constants = [
        name
        for schema in SCHEMAS.values()
        for name in schema.get("x-enum-varnames", [re.sub(r"\W", "_", value) for value in schema.get("enum", [])])
    ]
    assert constants
    assert twice(constants) == []
    for name, schema in SCHEMAS.items():
        assert len(schema.get("x-enum-varnames", schema.get("enum", []))) == len(schema.get("enum", [])), name


# --- Types: the same in requests and responses -------------------------------------------------------------------


def reached(roots: Iterable[Any]) -> dict[str, Json]:
    """The named schemas that these parts of the document are made of."""
    found: dict[str, Json] = {}
    left = list(roots)
    while left:
        for part in walk_schema(left.pop()):
            name = str(part.get("$ref", "")).rpartition("schemas/")[2]
            if name in SCHEMAS and name not in found:
                found[name] = SCHEMAS[name]
                left.append(SCHEMAS[name])
    return found


def kind_of(schema: Json) -> str:
    """The type of a property without its bounds, and without null."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(sorted(kind_of(part) for part in schema[union] if part.get("type") != "null"))
    if schema.get("type") == "array":
        return f"[{kind_of(schema['items'])}]"
    if "enum" in schema:
        return "|".join(schema["enum"])
    if "properties" in schema:
        return "object"
    return " ".join(str(schema[key]) for key in ("type", "format") if key in schema) or "any"


def properties(schemas: Iterable[Json]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for schema in schemas:
        for name, value in schema.get("properties", {}).items():
            if "const" not in value:  # the tag of a union, not a type
                found[name].add(kind_of(value))
    return found


def parameters() -> dict[str, set[str]]:
    """The types of query and path parameters; of a list, what it is a list of."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in OPERATIONS:
        for parameter in entry.get("parameters", []):
            if "schema" in parameter:
                schema = parameter["schema"]
                found[parameter["name"]].add(kind_of(schema["items"] if schema.get("type") == "array" else schema))
    return found


SENT = properties(reached(entry.get("requestBody") for entry in OPERATIONS).values())
ANSWERED = properties(
    reached([*(entry["responses"] for entry in OPERATIONS), *(entry["requestBody"] for entry in DELIVERIES)]).values()
)
ASKED = parameters()

DIFFER = {
    "content": "what is sent is closed; what is answered may get more fields, as every answer",
    "firstComment": "the comment to post is sent; a post has the comment as posted, a platform whether it takes one",
    "media": "what to publish is sent; a platform has its limits",
    "plan": "a plan is asked for, or used by its token; a new one has its expiry too",
    "thread": "the pieces to publish are sent; a result has what became of them",
    "options": "what is sent is closed; what is answered may get more fields, as every answer",
    "privacy": "TikTok's own word of three; a board of Pinterest answers with Pinterest's word",
    "state": "an OAuth state is sent; a platform's state is answered",
    "to": "a channel's target is sent with its secrets and shown without them",
}
"""Properties that mean different things in requests and in responses."""


@pytest.mark.parametrize("name", sorted((SENT.keys() | ASKED.keys()) & ANSWERED.keys()))
def test_a_name_has_one_type_in_requests_and_responses(name: str) -> None:
    sent = SENT.get(name, set()) | ASKED.get(name, set())
    if name in DIFFER:
        assert not sent <= ANSWERED[name], "the exception is no longer needed"
    else:
        assert sent <= ANSWERED[name]


def test_every_id_is_a_plain_string() -> None:
    """Ids are opaque, so no generator may make another type of them."""
    ids = {
        name: kinds
        for found in (SENT, ANSWERED, ASKED)
        for name, kinds in found.items()
        if name == "id" or name.endswith(("Id", "_id"))
    }
    assert len(ids) > 10
    assert {name: kinds for name, kinds in ids.items() if kinds != {"string"}} == {}
    assert '"uuid"' not in json.dumps(DOCUMENT)


def test_a_nullable_property_is_nullable_wherever_its_schemas_name_it() -> None:
    """A resource and its detail (`Post`, `PostDetail`) agree on what may be null."""
    for name, detail in SCHEMAS.items():
        base = SCHEMAS.get(name.removesuffix("Detail"))
        if name.endswith("Detail") and base:
            shared = base["properties"].keys() & detail["properties"].keys()
            assert shared
            assert [field for field in shared if base["properties"][field] != detail["properties"][field]] == []

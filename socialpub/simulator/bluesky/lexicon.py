"""Lexicon schemas, which validate JSON values with the reference server's messages.

Source of the messages: responses of @atproto/pds 0.5.35. Unknown keys are accepted, as there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import regex

from socialpub.simulator.bluesky import cbor

Path = tuple[str | int, ...]
_GRAPHEME = regex.compile(r"\X")
_MAX_SAFE_INTEGER = 2**53 - 1


class InvalidError(Exception):
    """Schema violation. `str()` includes the path, `message` does not."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(f"{message} at ${''.join(_step(part) for part in path)}")
        self.message = message


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_]*", part) else f"[{json.dumps(part)}]"


class Schema(Protocol):
    def check(self, value: Any, path: Path = ()) -> None:
        """Raise InvalidError for the first violation of the schema."""


def shown(value: Any) -> str:
    """Format a value as messages quote it: objects by their first keys, at most two items."""
    if isinstance(value, str):
        return json.dumps(value if len(value) < 256 else value[:255] + "…", ensure_ascii=False)
    if isinstance(value, list):
        return f"[{_first_two([shown(item) for item in value])}]"
    if cbor.is_link(value):
        return "cid"
    if isinstance(value, dict):
        return "{" + _first_two([f"{json.dumps(key)}: ..." for key in value]) + "}"
    return json.dumps(value)


def _first_two(parts: list[str]) -> str:
    return ", ".join(parts[:2]) + (", ..." if len(parts) > 2 else "")


def _wrong_type(expected: str, value: Any, path: Path) -> NoReturn:
    raise InvalidError(f"Expected {expected} value type (got {shown(value)})", path)


def _too_big(what: str, most: int, size: int, path: Path) -> NoReturn:
    raise InvalidError(f"{what} too big (maximum {most}, got {size})", path)


def _one_of(values: Iterable[str]) -> str:
    quoted = [shown(value) for value in values]
    return quoted[0] if len(quoted) == 1 else f"one of {', '.join(quoted[:-1])} or {quoted[-1]}"


def _like(pattern: str, most: int = 1_000_000) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: len(text) <= most and compiled.fullmatch(text) is not None


_DID = r"did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]"
_HANDLE = r"(?=.{1,253}$)([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_NSID = r"[a-zA-Z][a-zA-Z0-9-]{0,62}(\.[a-zA-Z0-9][a-zA-Z0-9-]{0,62})+(\.[a-zA-Z][a-zA-Z0-9]{0,62})"
_RKEY = r"(?!\.{1,2}$)[a-zA-Z0-9_~.:-]{1,512}"
_LANGUAGE = (
    r"[a-z]{2,3}(-[A-Za-z]{3}){0,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|\d{3}))?(-([A-Za-z\d]{5,8}|\d[A-Za-z\d]{3}))*"
    r"(-[\dA-WY-Za-wy-z](-[A-Za-z\d]{2,8})+)*(-[xX](-[A-Za-z\d]{1,8})+)?|[xX](-[A-Za-z\d]{1,8})+"
    r"|i-(ami|bnn|default|enochian|hak|klingon|lux|mingo|navajo|pwn|tao|tay|tsu)|en-GB-oed|sgn-(BE-FR|BE-NL|CH-DE)"
    r"|art-lojban|cel-gaulish|no-(bok|nyn)|zh-(guoyu|hakka|min|min-nan|xiang)"
)
_DATETIME = (
    r"\d{4}-(0[1-9]|1[012])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
)


_looks_like_datetime = _like(_DATETIME, 64)


def _is_datetime(text: str) -> bool:
    """Validate as the reference server does: 30 February passes, a leap second does not."""
    return _looks_like_datetime(text) and not text.endswith("-00:00")


@dataclass(frozen=True)
class Format:
    """String format. `label` is its name in messages."""

    label: str
    test: Callable[[str], bool]


FORMATS: Mapping[str, Format] = {
    "at-identifier": Format("AT identifier", _like(f"({_DID})|({_HANDLE})", 2048)),
    "at-uri": Format("at-uri", _like(rf"at://({_DID}|{_HANDLE})(/{_NSID}(/{_RKEY})?)?", 8192)),
    "cid": Format("CID string", lambda text: cbor.unpack(text) is not None),
    "datetime": Format("datetime", _is_datetime),
    "did": Format("DID", _like(_DID, 2048)),
    "handle": Format("handle", _like(_HANDLE, 253)),
    "language": Format("language", _like(_LANGUAGE)),
    "nsid": Format("NSID", _like(_NSID, 317)),
    "record-key": Format("record key", _like(_RKEY, 512)),
    "tid": Format("TID string", _like(r"[2-7a-j][2-7a-z]{12}")),
    "uri": Format("uri", _like(r"\w+:(?://)?[^\s/]\S*")),
}


@dataclass(frozen=True)
class String:
    """String schema.

    `max_length` counts UTF-8 bytes, `max_graphemes` user-perceived characters.
    """

    format: str | None = None
    max_length: int | None = None
    max_graphemes: int | None = None

    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, str):
            _wrong_type("string", value, path)
        size = len(value.encode("utf-8", "surrogatepass"))
        if self.max_length is not None and size > self.max_length:
            _too_big("string", self.max_length, size, path)
        count = len(_GRAPHEME.findall(value)) if self.max_graphemes is not None else 0
        if self.max_graphemes is not None and count > self.max_graphemes:
            _too_big("grapheme", self.max_graphemes, count, path)
        if self.format is not None and not FORMATS[self.format].test(value):
            raise InvalidError(f"Invalid {FORMATS[self.format].label} (got {shown(value)})", path)


@dataclass(frozen=True)
class Integer:
    minimum: int | None = None
    maximum: int | None = None

    def check(self, value: Any, path: Path = ()) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_SAFE_INTEGER:
            _wrong_type("integer", value, path)
        if self.minimum is not None and value < self.minimum:
            raise InvalidError(f"integer too small (minimum {self.minimum}, got {value})", path)
        if self.maximum is not None and value > self.maximum:
            _too_big("integer", self.maximum, value, path)


@dataclass(frozen=True)
class Boolean:
    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, bool):
            _wrong_type("boolean", value, path)


@dataclass(frozen=True)
class Record:
    """Any object of the data model: a record's body, which its own schema checks later."""

    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, dict):
            _wrong_type("object", value, path)
        _check_model(value, path)


def _check_model(value: Any, path: Path) -> None:
    """Refuse fractions, which the data model lacks."""
    if isinstance(value, float):
        _wrong_type("one of null, boolean, integer, string, cid, bytes, array or object", value, path)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in parts:
        _check_model(item, (*path, key))


@dataclass(frozen=True)
class Nullable:
    schema: Schema

    def check(self, value: Any, path: Path = ()) -> None:
        if value is not None:
            self.schema.check(value, path)


@dataclass(frozen=True)
class Array:
    items: Schema
    max_length: int | None = None

    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, list):
            _wrong_type("array", value, path)
        if self.max_length is not None and len(value) > self.max_length:
            _too_big("array", self.max_length, len(value), path)
        for number, item in enumerate(value):
            self.items.check(item, (*path, number))


@dataclass(frozen=True)
class Object:
    """Object schema.

    `properties` are checked in order; missing is allowed unless `required`, null is not.
    """

    properties: Mapping[str, Schema]
    required: tuple[str, ...] = ()

    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, dict):
            _wrong_type("object", value, path)
        for key, schema in self.properties.items():
            if key in value:
                schema.check(value[key], (*path, key))
            elif key in self.required:
                raise InvalidError(f'Missing required key "{key}"', path)


@dataclass(frozen=True)
class Union:
    """Union of objects by `$type`. An open union accepts unknown types."""

    variants: Mapping[str, Schema]
    closed: bool = False

    def check(self, value: Any, path: Path = ()) -> None:
        if not isinstance(value, dict) or "$type" not in value:
            _wrong_type('an object which includes the "$type" property', value, path)
        kind = value["$type"]
        if isinstance(kind, str) and kind in self.variants:
            self.variants[kind].check(value, path)
        elif self.closed:
            raise InvalidError(f"Expected {_one_of(self.variants)} (got {shown(kind)})", (*path, "$type"))
        elif not isinstance(kind, str):
            _wrong_type("string", kind, (*path, "$type"))


@dataclass(frozen=True)
class BlobRef:
    """Reference to an uploaded blob."""

    accept: tuple[str, ...] = field(default=("*/*",))
    max_size: int | None = None

    def check(self, value: Any, path: Path = ()) -> None:
        if not is_blob(value):
            _wrong_type("blob", value, path)
        if not any(_accepts(pattern, value["mimeType"]) for pattern in self.accept):
            message = f"Expected {_one_of(self.accept)} (got {shown(value['mimeType'])})"
            raise InvalidError(message, (*path, "mimeType"))
        if self.max_size is not None and value["size"] > self.max_size:
            _too_big("blob", self.max_size, value["size"], path)


def _accepts(pattern: str, mime_type: str) -> bool:
    return pattern in ("*/*", mime_type) or (pattern.endswith("/*") and mime_type.startswith(pattern[:-1]))


def is_blob(value: Any) -> bool:
    """Return whether a JSON value is a typed blob reference without extra keys."""
    if not isinstance(value, dict) or value.get("$type") != "blob":
        return False
    size, kind = value.get("size"), value.get("mimeType")
    return (
        value.keys() == {"$type", "ref", "mimeType", "size"}
        and isinstance(kind, str)
        and "/" in kind
        and isinstance(size, int)
        and not isinstance(size, bool)
        and size >= 0
        and cbor.is_link(value["ref"])
    )


def blobs(value: Any) -> Iterable[dict[str, Any]]:
    """Yield every blob reference inside a JSON value, in order."""
    if is_blob(value):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from blobs(item)
    elif isinstance(value, list):
        for item in value:
            yield from blobs(item)

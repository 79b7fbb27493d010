"""Common schema parts: scalars, optional fields, base classes of requests and queries."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.error_codes import ERRORS
from socialpub.base.runtime import format_iso
from socialpub.platforms.kit.options import LINE_FEEDS

T = TypeVar("T")
S = TypeVar("S", bound=Mapping[str, object])
TEXT_MAX = 100_000
FILTER_MAX = 50  # values per filter
UUID_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
EXTERNAL_ID_PATTERN = r"^[A-Za-z0-9._:/@-]+$"
PLAN_TOKEN_PATTERN = r"^plan_[0-9A-Za-z]{43}$"
MEDIA_ID_PATTERN = r"^med_[0-9A-Za-z]{22}$"

# `Maybe[str]` may be absent but not null: Optional for the type checker, str for pydantic.
if TYPE_CHECKING:
    Maybe: TypeAlias = Union[T, None]
else:

    class Maybe:
        def __class_getitem__(cls, item: Any) -> Any:
            return item


def absent() -> Any:
    """Return the default of a `Maybe` field, usually absent: a C factory is fastest."""
    return Field(default_factory=type(None))


# --- Scalars -------------------------------------------------------------------------------------------------------

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00")  # naive, like the values it is compared with
_DAY_SECONDS = 86_400
NANOS_PER_MS = 1_000_000  # per millisecond


def parse_instant(value: object) -> int:
    """Parse an RFC 3339 date-time to epoch ms, rounded down. Raises ValueError."""
    return _parse_nanoseconds(value) // NANOS_PER_MS


def parse_instant_rounded_up(value: object) -> int:
    """Parse like `parse_instant`, rounded up, since stored times are whole ms."""
    return -(-_parse_nanoseconds(value) // NANOS_PER_MS)


def _parse_nanoseconds(value: object) -> int:
    if not isinstance(value, str):
        raise PydanticCustomError("datetime_type", "Input should be a date-time string with a time zone")
    match = _INSTANT.fullmatch(value)
    if match is None:
        raise PydanticCustomError(
            "datetime_format", "Input should be an RFC 3339 date-time with a time zone, such as 2026-05-04T15:30:00Z"
        )
    whole, fraction, sign, hours, minutes = match.groups()
    try:
        # After the pattern, fromisoformat, which accepts more, has only one interpretation.
        moment = datetime.fromisoformat(whole)
        since = (moment if sign is None else moment - _parse_offset(sign, int(hours), int(minutes))) - _EPOCH
    except (ValueError, OverflowError) as error:
        raise PydanticCustomError("datetime_value", "Input is not a date-time that exists") from error
    seconds = since.days * _DAY_SECONDS + since.seconds
    return seconds * 1000 * NANOS_PER_MS + (int(fraction.ljust(9, "0")) if fraction else 0)


def _parse_offset(sign: str, hours: int, minutes: int) -> timedelta:
    """Return the offset from UTC. Raises ValueError unless below a day with valid minutes."""
    if hours > 23 or minutes > 59:
        raise ValueError("an offset that no zone has")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if sign == "-" else offset


LINK_PATTERN = "^(https://|at://|urn:)[!-~]+$"  # safe to show as a link: no script, no invisible characters


def _check_no_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("string_nul", "Text must not contain U+0000")
    return text


def _check_finite(value: Any) -> Any:
    """Accept any JSON without NaN and infinite numbers, which could not be returned as JSON."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        _check_finite(item)
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("finite_number", "Numbers should be finite")
    return value


NO_NUL = AfterValidator(_check_no_nul)
_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})
_AS_SENT = PlainSerializer(format_iso, when_used="json")  # so that a request can be stored and parsed again
Instant = Annotated[int, BeforeValidator(parse_instant), _AS_SENT, _DATE_TIME]
InstantRoundedUp = Annotated[int, BeforeValidator(parse_instant_rounded_up), _DATE_TIME]
# No `format: uuid`: ids in responses are opaque strings, and generated clients need one type for both.
Uuid = Annotated[str, StringConstraints(pattern=UUID_PATTERN, to_lower=True)]
ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=EXTERNAL_ID_PATTERN)]
MediaId = Annotated[str, StringConstraints(pattern=MEDIA_ID_PATTERN)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_MAX), LINE_FEEDS, NO_NUL]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=10_000), NO_NUL]  # for 64 KiB bodies
ORGANIZATION_MAX = 200  # characters of its name
NAME_PATTERN = r"\S"  # not blank
LongName = Annotated[str, StringConstraints(min_length=1, max_length=ORGANIZATION_MAX, pattern=NAME_PATTERN), NO_NUL]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=NAME_PATTERN), NO_NUL]
AnyJson = Annotated[Any, AfterValidator(_check_finite)]
AltText = Annotated[str, StringConstraints(max_length=TEXT_MAX), LINE_FEEDS, NO_NUL]
Address = Annotated[str, StringConstraints(min_length=1, max_length=2048), NO_NUL]
FileAddress = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2048), NO_NUL]
Link = Annotated[str, StringConstraints(pattern=LINK_PATTERN, max_length=2048), NO_NUL]
if TYPE_CHECKING:
    PlatformName = str
    ErrorCode = str
else:
    PlatformName = Literal[tuple(platforms.PLATFORMS)]
    ErrorCode = Literal[tuple(ERRORS)]
DateTime = Annotated[str, _DATE_TIME]


# --- Requests ------------------------------------------------------------------------------------------------------


class RequestModel(BaseModel):
    """Strict request model: no unknown fields, no coercion, no null."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=False,
        hide_input_in_errors=True,
        defer_build=True,  # built by the first request: building at startup takes 10 % longer
    )


class EmptyQuery(RequestModel):
    """Query of a route without parameters."""


class EmptyRequest(RequestModel):
    """Body of a POST without fields."""


class ProfileQuery(RequestModel):
    """Query of a route of one resource."""

    profile_id: Maybe[Uuid] = absent()
    """Look in this profile only; resources of other profiles are not found."""


# --- Responses -----------------------------------------------------------------------------------------------------


class DeletedBody(TypedDict):
    """Confirmation of a deletion."""

    id: str
    deleted: Literal[True]


def cast_present(value: T | None) -> T:
    """Cast an optional value for a field that `without_none` removes if None."""
    return cast(T, value)


def without_none(shown: S, *names: str) -> S:
    """Remove those of the named fields that are None: absent instead of null."""
    return cast(S, {name: value for name, value in shown.items() if value is not None or name not in names})

"""What requests may carry, once, and how pydantic's issues become ours. (Answers are in `answers`.)"""

from __future__ import annotations

import difflib
import functools
import json
import re
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from socialpub import platforms
from socialpub.base.errors import ERRORS, ApiError, refuse

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

TEXT_MAX = 100_000
TARGETS_MAX = 25
ISSUES_MAX = 1_000  # shown of a request that is nothing but issues
HINTS_MAX = 10
UUID_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
MEDIA_ID_PATTERN = r"^med_[0-9A-Za-z]{22}$"

# `Maybe[str]` may be left out but not be null: for the type checker it is Optional, for pydantic it is str.
if TYPE_CHECKING:
    Maybe: TypeAlias = Union[T, None]
else:

    class Maybe:
        def __class_getitem__(cls, item: Any) -> Any:
            return item


def absent() -> Any:
    """The default of a `Maybe` field."""
    return Field(default_factory=lambda: None)


# --- Scalars -----------------------------------------------------------------------------------------------------

_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_instant(value: object) -> int:
    """Epoch milliseconds of an RFC 3339 date-time with an offset; ValueError says what is wrong."""
    if not isinstance(value, str):
        raise PydanticCustomError("datetime_type", "Input should be a date-time string with a time zone")
    match = _INSTANT.fullmatch(value)
    if match is None:
        raise PydanticCustomError(
            "datetime_format", "Input should be an RFC 3339 date-time with a time zone, such as 2026-05-04T15:30:00Z"
        )
    try:
        moment = _moment(match)
    except (ValueError, OverflowError) as error:
        raise PydanticCustomError("datetime_value", "Input is not a date-time that exists") from error
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _moment(match: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    micro = int((match[7] or "0").ljust(6, "0")[:6])
    zone = UTC
    if match[9]:
        if int(match[11]) > 59:
            raise ValueError("minutes of an offset")
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        zone = timezone(-offset if match[9] == "-" else offset)
    return datetime(year, month, day, hour, minute, second, micro, zone).astimezone(UTC)


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("string_nul", "Text must not contain U+0000")
    return text


Instant = Annotated[int, BeforeValidator(parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
Uuid = Annotated[
    str, StringConstraints(pattern=UUID_PATTERN, to_lower=True), WithJsonSchema({"type": "string", "format": "uuid"})
]
MediaId = Annotated[str, StringConstraints(pattern=MEDIA_ID_PATTERN)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_MAX), AfterValidator(_no_nul)]
if TYPE_CHECKING:
    PlatformName = str
    ErrorCode = str
else:
    PlatformName = Literal[tuple(platforms.PLATFORMS)]
    ErrorCode = Literal[tuple(ERRORS)]
PostStatus = Literal["queued", "validated", "publishing", "published", "failed", "rejected", "canceled"]
DateTime = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


# --- Requests ----------------------------------------------------------------------------------------------------


class Request(BaseModel):
    """A closed body: an unknown field is an error, nothing is coerced, null is not a value."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


class FirstComment(Request):
    """A reply that is posted below the new post; Bluesky only, elsewhere ignored with a warning."""

    text: Text


MEDIA_SOURCES = ("mediaId", "url", "bytesBase64")


class MediaItem(Request):
    """One media item: `kind` and exactly one source."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in MEDIA_SOURCES]})

    kind: Literal["image", "video"]
    media_id: Maybe[MediaId] = absent()
    """An uploaded file."""
    url: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_no_nul)]] = absent()
    """A public https address, fetched when the post is published."""
    bytes_base64: Maybe[str] = absent()
    """The file itself in standard base64; the whole body may have 8 MiB."""
    alt_text: Maybe[Annotated[str, StringConstraints(max_length=TEXT_MAX), AfterValidator(_no_nul)]] = absent()
    """What the item shows, for those who cannot see it."""

    @property
    def sources(self) -> int:
        return sum(source is not None for source in (self.media_id, self.url, self.bytes_base64))


def _media_form(value: object) -> str:
    return "<id>" if isinstance(value, str) else "<item>"


MediaEntry = Annotated[
    Union[Annotated[MediaId, Tag("<id>")], Annotated[MediaItem, Tag("<item>")]], Discriminator(_media_form)
]


_OPTIONS = tuple(platform.options for platform in platforms.PLATFORMS.values())
Options = Annotated[Union[_OPTIONS], Field(discriminator="platform")]  # type: ignore[valid-type]


class Target(Request):
    """Where to publish, and what is different there. It names an `accountId` or a `platform`."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["accountId"]}, {"required": ["platform"]}]})

    account_id: Maybe[Uuid] = absent()
    platform: Maybe[PlatformName] = absent()
    """Stands for the one connected account of this platform."""
    options: Maybe[Options] = absent()
    """What only this platform has."""
    text: Maybe[Text] = absent()
    """In place of the default text."""
    media: Maybe[list[MediaEntry]] = absent()
    """In place of the default media; an empty list means none."""
    first_comment: Maybe[FirstComment] = absent()
    """In place of the default first comment."""


class PublishRequest(Request):
    """What to publish, where and when. Unknown fields are refused, and so is null."""

    # Counted by the rules `targets.required` and `targets.max`, not here; the documented schema says it all the same.
    targets: Annotated[list[Target], Field(json_schema_extra={"minItems": 1, "maxItems": TARGETS_MAX})]
    """1 to 25."""
    text: Maybe[Text] = absent()
    """The text of every target that has none of its own."""
    media: Maybe[list[MediaEntry]] = absent()
    """The media of every target that has none of its own: items, or ids of uploaded files."""
    publish_now: Maybe[bool] = absent()
    """Publish now, and say so; it excludes `scheduledAt`."""
    scheduled_at: Maybe[Instant] = absent()
    """Publish then: a date-time with a time zone, at least 1 second ahead. Without it the batch is published now."""
    first_comment: Maybe[FirstComment] = absent()
    """For immediate posts only."""
    profile_id: Maybe[Uuid] = absent()
    """Look for accounts in this profile only. A key that is bound to a profile needs none."""


class ValidateRequest(PublishRequest):
    """What to check: the body of POST /v1/posts, and how deep."""

    deep: Maybe[bool] = absent()
    """False: check only what needs no media bytes."""


class RescheduleRequest(Request):
    """The new time."""

    scheduled_at: Instant
    """A date-time with a time zone, at least 1 second ahead."""


class RetryRequest(Request):
    """When to try again."""

    scheduled_at: Maybe[Instant] = absent()
    """Absent: at once."""


class NoQuery(Request):
    """A route without query parameters."""


class PostsQuery(Request):
    """The query of GET /v1/posts; lists are repeated or comma-separated."""

    platform: Maybe[list[PlatformName]] = absent()
    status: Maybe[list[PostStatus]] = absent()
    error_code: Maybe[list[ErrorCode]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Posts a page."""
    q: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = absent()
    """Posts whose text holds this, in upper or lower case; `%` and `_` are ordinary characters."""
    after: Maybe[Instant] = absent()
    """Posts created after this instant, exclusive."""
    before: Maybe[Instant] = absent()
    """Posts created before this instant, exclusive."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before."""
    profile_id: Maybe[Uuid] = absent()
    batch_id: Maybe[Uuid] = absent()
    """The posts of one batch."""


class MediaFields(Request):
    """What an upload may say beside its file, in parts or in the query."""

    profile_id: Maybe[Uuid] = absent()
    """The profile that the file is for; without one it serves every profile."""
    alt_text: Maybe[Annotated[str, StringConstraints(max_length=TEXT_MAX), AfterValidator(_no_nul)]] = absent()
    """What the file shows, for those who cannot see it; an item's own alt text goes before it."""


class MediaQuery(Request):
    """The query of GET /v1/media."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Files a page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before."""
    profile_id: Maybe[Uuid] = absent()
    """The files that this profile may use."""


class KeyRequest(Request):
    """The body of POST /v1/api-keys."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_no_nul)]
    """What the key is for, in your own words."""
    prefix: Maybe[str] = absent()
    """A label only: `svc_live_` (the default) or `svc_test_`, with this server's own word for `svc`."""
    profile_id: Maybe[Uuid] = absent()
    """Bind the key to this profile, for good."""


class ProfileRequest(Request):
    """The body of POST /v1/profiles and PATCH /v1/profiles/{id}."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_no_nul)]
    """Its slug is made of this name and must be unique in the organization."""


class AccountsQuery(Request):
    """The query of GET /v1/accounts."""

    profile_id: Maybe[str] = absent()
    """Accounts of this profile; an unknown or malformed one has none."""


class SettleRequest(Request):
    """What you found when you looked at the account."""

    published: bool
    """Whether the post is there."""
    uri: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_no_nul)]] = absent()


# --- Issues → validation_failed ------------------------------------------------------------------------------------


def parse_body(model: type[M], body: bytes) -> M:
    """The request in `body`; ApiError `validation_failed` with every issue, or rule `body.json`."""
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        raise validation_failed(model, error, more=functools.partial(_shape_of, model, body)) from error
    # A name that stands twice means the one or the other, as the reader pleases: nothing is published on a guess.
    json.loads(body, object_pairs_hook=_named_once)
    return parsed


def _named_once(pairs: list[tuple[str, Any]]) -> None:
    named = Counter(name for name, _ in pairs)
    if twice := next((name for name, times in named.items() if times > 1), None):
        raise refuse("body.json", f"The body names `{twice}` twice in one object.")


def _shape_of(model: type[BaseModel], body: bytes) -> list[dict[str, Any]]:
    found = json.loads(body) if issubclass(model, PublishRequest) else None
    return shape_issues(found) if isinstance(found, dict) else []


def shape_issues(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the schema of a publish request asks across its fields, from the request as it was sent.

    A target names an account or a platform, and there is something to publish on it.
    """
    given = request.get("targets")
    targets = {n: found for n, found in enumerate(given) if isinstance(found, dict)} if isinstance(given, list) else {}
    issues = [
        issue("missing", ["targets", n, "accountId"], "Name an accountId or a platform", "a UUID", "nothing")
        for n, target in targets.items()
        if "accountId" not in target and "platform" not in target
    ]
    if any(_has_nothing(request, target) for target in targets.values()):
        issues.append(issue("missing", ["text"], "There is nothing to publish", "string", "nothing"))
    return issues


def _has_nothing(request: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    media = target.get("media", request.get("media"))
    return not ("text" in target or "text" in request or media or "options" in target)


def parse_object(model: type[M], value: Mapping[str, Any], at: Sequence[str | int] = ()) -> M:
    """The same for an already parsed object that stands at `at` in the body (options, query parameters)."""
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        raise validation_failed(model, error, at) from error


def validation_failed(
    model: type[BaseModel],
    error: ValidationError,
    at: Sequence[str | int] = (),
    more: Callable[[], list[dict[str, Any]]] = list,
) -> ApiError:
    """pydantic's issues as the API reports them: all of them, then `more`; `rule` is the path of the first."""
    raw = error.errors(include_url=False)
    if raw[0]["type"] == "json_invalid":
        return refuse("body.json", platform_response=[issue("json_invalid", [], raw[0]["msg"], "JSON", "text")])
    shown = [_issue(entry, at) for entry in raw[:ISSUES_MAX]]
    unknown = [entry["loc"] for entry in raw if entry["type"] == "extra_forbidden"][:HINTS_MAX]
    hints = [_did_you_mean(model, loc, [*at, *_plain(loc)]) for loc in unknown]
    return schema_error([*shown, *more()], " ".join(hints) or None)


def _issue(entry: Any, at: Sequence[str | int]) -> dict[str, Any]:
    """One of pydantic's issues; that the tag of options is missing or unknown is an issue of the tag itself."""
    kind, path, ctx = entry["type"], [*at, *_plain(entry["loc"])], entry.get("ctx", {})
    if kind == "union_tag_not_found":
        return issue("missing", [*path, "platform"], _MESSAGES["missing"], _EXPECTED["missing"], "nothing")
    if kind == "union_tag_invalid":
        tags = ctx["expected_tags"]
        return issue("literal_error", [*path, "platform"], f"Input should be one of {tags}", tags, "string")
    expected = _expected(kind, ctx)
    message = _MESSAGES.get(kind, entry["msg"].removeprefix("Value error, "))
    if kind == "string_pattern_mismatch":
        message = f"Input should be {expected}"
    return issue(kind, path, message, expected, _received(entry))


def _plain(loc: Sequence[str | int]) -> list[str | int]:
    """pydantic's location without the tags of unions."""
    path: list[str | int] = []
    for part in loc:
        is_tag = str(part).startswith("<") or (path[-1:] == ["options"] and part in platforms.PLATFORMS)
        if not is_tag:
            path.append(part)
    return path


def schema_error(issues: list[dict[str, Any]], remediation: str | None = None) -> ApiError:
    """`validation_failed` for issues of the schema's kind; at least one."""
    path = ".".join(str(part) for part in issues[0]["path"])
    return ApiError(
        "validation_failed",
        f"{path or 'The body'}: {issues[0]['message']}.",
        rule=path or "body",
        platform_response=issues,
        remediation=remediation,
    )


def issue(code: str, path: Sequence[str | int], message: str, expected: str, received: str) -> dict[str, Any]:
    return {"code": code, "expected": expected, "received": received, "path": list(path), "message": message}


_EXPECTED = {
    "missing": "a value",
    "extra_forbidden": "no such field",
    "value_error": "what the message says",
    "model_type": "object",
    "model_attributes_type": "object",
    "dict_type": "object",
    "list_type": "array",
    "bool_type": "boolean",
    "int_type": "integer",
}


_MESSAGES = {"missing": "Field required", "extra_forbidden": "There is no such field"}
_FORMS = {UUID_PATTERN: "a UUID", MEDIA_ID_PATTERN: "a media id: med_ and 22 letters or digits"}


def _expected(kind: str, ctx: Mapping[str, Any]) -> str:
    if "expected" in ctx:
        return str(ctx["expected"])
    if "pattern" in ctx:
        return _FORMS.get(ctx["pattern"], f"a string that matches {ctx['pattern']}")
    for name in ("min_length", "max_length", "ge", "le", "gt", "lt"):
        if name in ctx:
            return f"{name.replace('_', ' ')} {ctx[name]}"
    return _EXPECTED.get(kind, kind.split("_")[0])


def _received(entry: Mapping[str, Any]) -> str:
    if entry["type"] == "missing":
        return "nothing"
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    value = entry.get("input")
    return "null" if value is None else names.get(type(value), "object")


def _did_you_mean(model: type[BaseModel], loc: Sequence[str | int], path: Sequence[str | int]) -> str:
    known = _fields_at(model, loc[:-1])
    near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.6)
    name = ".".join(str(part) for part in path)
    if near:
        return f"There is no field `{name}`; did you mean `{near[0]}`?"
    return f"There is no field `{name}`; remove it. Known here: {', '.join(known)}."


def _fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    found: type[BaseModel] = model
    for part in loc:
        for field in found.model_fields.values():
            if field.alias == part and (inner := _model_in(field.annotation)):
                found = inner
    return [field.alias or name for name, field in found.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) is Literal:
        return None
    return next((inner for part in get_args(annotation) if (inner := _model_in(part))), None)

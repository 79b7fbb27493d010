"""The API's shapes, once: what requests may carry, what answers look like, and how pydantic's issues become ours."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

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
UUID_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
MEDIA_ID_PATTERN = r"^med_[0-9A-Za-z]{22}$"

# `Maybe[str]` may be left out but not be null: for the type checker it is Optional, for pydantic it is str.
if TYPE_CHECKING:
    from typing import Optional as Maybe
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
PlatformName = Literal[tuple(platforms.PLATFORMS)]  # type: ignore[valid-type]
ErrorCode = Literal[tuple(ERRORS)]  # type: ignore[valid-type]
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
    )


class FirstComment(Request):
    text: Text


class MediaItem(Request):
    """One media item: `kind` and exactly one source."""

    kind: Literal["image", "video"]
    media_id: Maybe[MediaId] = absent()
    url: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_no_nul)]] = absent()
    bytes_base64: Maybe[str] = absent()
    alt_text: Maybe[Annotated[str, StringConstraints(max_length=TEXT_MAX), AfterValidator(_no_nul)]] = absent()

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
    account_id: Maybe[Uuid] = absent()
    platform: Maybe[PlatformName] = absent()
    options: Maybe[Options] = absent()
    text: Maybe[Text] = absent()
    media: Maybe[list[MediaEntry]] = absent()
    first_comment: Maybe[FirstComment] = absent()


class PublishRequest(Request):
    """The body of POST /v1/posts."""

    targets: list[Target]
    text: Maybe[Text] = absent()
    media: Maybe[list[MediaEntry]] = absent()
    publish_now: Maybe[bool] = absent()
    scheduled_at: Maybe[Instant] = absent()
    first_comment: Maybe[FirstComment] = absent()
    profile_id: Maybe[Uuid] = absent()


class ValidateRequest(PublishRequest):
    """The body of POST /v1/posts/validate."""

    deep: Maybe[bool] = absent()


class RescheduleRequest(Request):
    scheduled_at: Instant


class RetryRequest(Request):
    scheduled_at: Maybe[Instant] = absent()


class NoQuery(Request):
    """A route without query parameters."""


class PostsQuery(Request):
    """The query of GET /v1/posts; lists are repeated or comma-separated."""

    platform: Maybe[list[PlatformName]] = absent()
    status: Maybe[list[PostStatus]] = absent()
    error_code: Maybe[list[ErrorCode]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    q: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = absent()
    after: Maybe[Instant] = absent()
    before: Maybe[Instant] = absent()
    cursor: Maybe[str] = absent()
    profile_id: Maybe[Uuid] = absent()
    batch_id: Maybe[Uuid] = absent()


class AccountsQuery(Request):
    profile_id: Maybe[str] = absent()


class SettleRequest(Request):
    published: bool
    uri: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_no_nul)]] = absent()


# --- Answers -----------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """An answer's shape. A field that was never set is left out; one that is set to None is null."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def body(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class ErrorBody(Answer):
    """The error object in results, events and posts; the envelope's adds requestId and traceId."""

    code: str
    message: str
    rule: str = ""
    platform: PlatformName = ""
    platform_version: str = ""
    platform_response: Any = None
    remediation: str = ""
    doc_url: str
    rule_url: str = ""


class EnvelopeError(ErrorBody):
    request_id: str
    trace_id: str = ""


class ErrorEnvelope(Answer):
    error: EnvelopeError


class WarningBody(Answer):
    code: str
    message: str


class PostAccount(Answer):
    id: str
    platform: PlatformName
    platform_account_id: str
    display_name: str | None


class PostBody(Answer):
    """One row of the post log."""

    id: str
    batch_id: str
    profile_id: str
    account_id: str
    account: PostAccount
    platform: PlatformName
    status: PostStatus
    text: str
    media_refs: list[Any]
    scheduled_at: DateTime | None
    next_attempt_at: DateTime | None
    published_at: DateTime | None
    platform_uri: str | None
    platform_cid: str | None
    url: str | None
    error: ErrorBody = Field(default_factory=lambda: None)  # type: ignore[arg-type,return-value]
    warnings: list[WarningBody]
    created_at: DateTime
    updated_at: DateTime


class FirstCommentBody(Answer):
    text: str
    uri: str | None
    cid: str | None


class AttemptBody(Answer):
    id: str
    attempt_number: int
    started_at: DateTime
    finished_at: DateTime | None
    succeeded: bool | None
    error_code: str | None
    error_message: str | None
    platform_response: Any


class PostDetail(PostBody):
    """One post with its first comment and every attempt at publishing it."""

    first_comment: FirstCommentBody | None
    attempts: list[AttemptBody]


class PostPage(Answer):
    data: list[PostBody]
    next_cursor: str | None


class Result(Answer):
    """What became of one target."""

    account_id: str
    platform: PlatformName
    post_id: str
    status: PostStatus
    uri: str = ""
    cid: str = ""
    url: str = ""
    first_comment_uri: str = ""
    first_comment_cid: str = ""
    warnings: list[WarningBody] = Field(default_factory=list)
    error: ErrorBody = Field(default_factory=lambda: None)  # type: ignore[arg-type,return-value]


class BatchBody(Answer):
    """The batch envelope: what POST /v1/posts answers."""

    id: str
    status: Literal["queued", "published", "partial_failed", "failed"]
    created_at: DateTime
    results: list[Result]
    scheduled_at: DateTime = ""


class CanceledBody(Answer):
    id: str
    status: Literal["canceled"]


class PinterestBlock(Answer):
    default_board_id: str | None
    default_board_name: str | None


class InstagramBlock(Answer):
    kind: str | None
    account_type: str | None
    granted_scopes: list[str] | None


class AccountBody(Answer):
    id: str
    profile_id: str
    platform: PlatformName
    platform_account_id: str
    display_name: str | None
    status: Literal["active", "expiring", "revoked"]
    created_at: DateTime
    updated_at: DateTime
    token_expires_at: DateTime | None
    pinterest: PinterestBlock = Field(default_factory=lambda: None)  # type: ignore[arg-type,return-value]
    instagram: InstagramBlock = Field(default_factory=lambda: None)  # type: ignore[arg-type,return-value]


class AccountList(Answer):
    data: list[AccountBody]


class TextCount(Answer):
    length: int
    limit: int | None
    unit: Literal["graphemes", "weighted", "utf16", "characters"]


class ValidateResult(Answer):
    target_index: int
    account_id: str
    platform: PlatformName
    valid: bool
    text: TextCount
    errors: list[ErrorBody]
    warnings: list[WarningBody]


class ValidateBody(Answer):
    valid: bool
    results: list[ValidateResult]


# --- Issues → validation_failed ------------------------------------------------------------------------------------


def parse_body(model: type[M], body: bytes) -> M:
    """The request in `body`; ApiError `validation_failed` with every issue, or rule `body.json`."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_failed(model, error) from error


def parse_object(model: type[M], value: Mapping[str, Any], at: Sequence[str | int] = ()) -> M:
    """The same for an already parsed object that stands at `at` in the body (options, query parameters)."""
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        raise validation_failed(model, error, at) from error


def validation_failed(model: type[BaseModel], error: ValidationError, at: Sequence[str | int] = ()) -> ApiError:
    """pydantic's issues as the API reports them: all of them, and `rule` is the path of the first."""
    raw = error.errors(include_url=False)
    if raw[0]["type"] == "json_invalid":
        return refuse("body.json", platform_response=[issue("json_invalid", [], raw[0]["msg"], "JSON", "text")])
    issues, hints = [], []
    for entry in raw:
        path = [*at, *_plain(entry["loc"])]
        if entry["type"] == "union_tag_not_found":
            entry, path = entry | {"type": "missing", "msg": "Field required"}, [*path, "platform"]  # noqa: PLW2901
        elif entry["type"] == "union_tag_invalid":
            path.append("platform")
        issues.append(
            issue(entry["type"], path, entry["msg"], _expected(entry["type"], entry.get("ctx", {})), _received(entry))
        )
        if entry["type"] == "extra_forbidden":
            hints.append(_did_you_mean(model, entry["loc"], path))
    return schema_error(issues, " ".join(hints) or None)


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
    "string_pattern_mismatch": "a string of the documented form",
    "literal_error": "one of the documented values",
    "union_tag_invalid": "a media id or a media item",
    "model_type": "object",
    "model_attributes_type": "object",
    "dict_type": "object",
    "list_type": "array",
    "bool_type": "boolean",
    "int_type": "integer",
}


def _expected(kind: str, ctx: Mapping[str, Any]) -> str:
    if "expected" in ctx:
        return str(ctx["expected"])
    for name in ("min_length", "max_length", "ge", "le", "gt", "lt", "pattern"):
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

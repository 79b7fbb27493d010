"""What requests may carry, once. (What is wrong with one is said in `issues`; answers are in `answers`.)"""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from socialpub import platforms
from socialpub.base.error_codes import ERRORS

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

TEXT_MAX = 100_000
TARGETS_MAX = 25
MEDIA_MAX = 40  # entries of one list: no platform takes as many (TikTok 35), so its own rule says how many it does
FILTER_MAX = 50  # values of one filter
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
NANOS = 1_000_000  # in a millisecond


def parse_instant(value: object) -> int:
    """Epoch milliseconds, rounded down, of an RFC 3339 date-time with an offset; ValueError says what is wrong."""
    return _nanoseconds(value) // NANOS


def parse_upper(value: object) -> int:
    """The same rounded up: what is before the instant is before this, for it is there in whole milliseconds."""
    return -(-_nanoseconds(value) // NANOS)


def _nanoseconds(value: object) -> int:
    if not isinstance(value, str):
        raise PydanticCustomError("datetime_type", "Input should be a date-time string with a time zone")
    match = _INSTANT.fullmatch(value)
    if match is None:
        raise PydanticCustomError(
            "datetime_format", "Input should be an RFC 3339 date-time with a time zone, such as 2026-05-04T15:30:00Z"
        )
    try:
        seconds = (_moment(match) - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError) as error:
        raise PydanticCustomError("datetime_value", "Input is not a date-time that exists") from error
    return seconds * 1000 * NANOS + int((match[7] or "").ljust(9, "0"))


def _moment(match: re.Match[str]) -> datetime:
    """The whole second."""
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    zone = UTC
    if match[9]:
        if int(match[11]) > 59:
            raise ValueError("minutes of an offset")
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        zone = timezone(-offset if match[9] == "-" else offset)
    return datetime(year, month, day, hour, minute, second, tzinfo=zone).astimezone(UTC)


LINK = "^(https://|at://|urn:)[!-~]+$"  # what may be shown as an address: never a script, nor anything that is hidden


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("string_nul", "Text must not contain U+0000")
    return text


_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})
Instant = Annotated[int, BeforeValidator(parse_instant), _DATE_TIME]
Upper = Annotated[int, BeforeValidator(parse_upper), _DATE_TIME]
Uuid = Annotated[
    str, StringConstraints(pattern=UUID_PATTERN, to_lower=True), WithJsonSchema({"type": "string", "format": "uuid"})
]
MediaId = Annotated[str, StringConstraints(pattern=MEDIA_ID_PATTERN)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_MAX), AfterValidator(_no_nul)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=10_000), AfterValidator(_no_nul)]  # for 64 KiB bodies
if TYPE_CHECKING:
    PlatformName = str
    ErrorCode = str
else:
    PlatformName = Literal[tuple(platforms.PLATFORMS)]
    ErrorCode = Literal[tuple(ERRORS)]
PostStatus = Literal["queued", "validated", "publishing", "published", "failed", "rejected", "canceled"]
AccountStatus = Literal["active", "expiring", "revoked"]
DateTime = Annotated[str, _DATE_TIME]


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


def _any_of(name: str, *others: str) -> dict[str, Any]:
    """The documented schema's demand for at least one of these fields.

    Not as `anyOf`: beside properties that makes code generators split the type, or drop it.
    """
    asked: dict[str, Any] = {"required": [name]}
    return {"if": {"not": asked}, "then": _any_of(*others)} if others else asked


class FirstComment(Request):
    """A reply that is posted below the new post; Bluesky only, elsewhere ignored with a warning."""

    text: Text


MEDIA_SOURCES = ("mediaId", "url", "bytesBase64")


class MediaItem(Request):
    """One media item: `kind` and exactly one source."""

    model_config = ConfigDict(
        json_schema_extra=_any_of(*MEDIA_SOURCES)
        | {"not": {"anyOf": [{"required": list(pair)} for pair in itertools.combinations(MEDIA_SOURCES, 2)]}}
    )

    kind: Literal["image", "video"]
    media_id: Maybe[MediaId] = absent()
    """An uploaded file."""
    url: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_no_nul)]] = absent()
    """A public https address, fetched when the post is published."""
    bytes_base64: Maybe[str] = absent()
    """The file itself in standard base64; the whole body may have 48 MiB. Larger ones: POST /v1/media."""
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

MediaList = Annotated[list[MediaEntry], Field(max_length=MEDIA_MAX)]

_OPTIONS = tuple(platform.options for platform in platforms.PLATFORMS.values())
Options = Annotated[Union[_OPTIONS], Field(discriminator="platform")]  # type: ignore[valid-type]


class Target(Request):
    """Where to publish, and what is different there. It names an `accountId` or a `platform`."""

    model_config = ConfigDict(json_schema_extra=_any_of("accountId", "platform"))

    account_id: Maybe[Uuid] = absent()
    platform: Maybe[PlatformName] = absent()
    """Stands for the one connected account of this platform."""
    options: Maybe[Options] = absent()
    """What only this platform has."""
    text: Maybe[Text] = absent()
    """In place of the default text."""
    media: Maybe[MediaList] = absent()
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
    media: Maybe[MediaList] = absent()
    """The media of every target that has none of its own: items, or ids of uploaded files."""
    publish_now: Maybe[bool] = absent()
    """Publish now, and say so; it excludes `scheduledAt`."""
    scheduled_at: Maybe[Instant] = absent()
    """Publish then: a date-time with a time zone, at least 1 second ahead. Without it the batch is published now."""
    first_comment: Maybe[FirstComment] = absent()
    """For immediate posts only."""
    profile_id: Maybe[Uuid] = absent()
    """Look for accounts in this profile only. A key that is bound to a profile needs none."""
    on_duplicate: Maybe[Literal["warn", "refuse"]] = absent()
    """What to do about a text that its account had within the last 24 hours; what the server does else is a setting."""


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

    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[PostStatus], Field(max_length=FILTER_MAX)]] = absent()
    error_code: Maybe[Annotated[list[ErrorCode], Field(max_length=FILTER_MAX)]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Posts a page."""
    q: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = absent()
    """Posts whose text holds this, in upper or lower case; `%` and `_` are ordinary characters."""
    after: Maybe[Instant] = absent()
    """Posts created after this instant, exclusive."""
    before: Maybe[Upper] = absent()
    """Posts created before this instant, exclusive."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before; an empty one is as if absent."""
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
    """`nextCursor` of the page before; an empty one is as if absent."""
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
    """The query of GET /v1/accounts; lists are repeated or comma-separated."""

    profile_id: Maybe[str] = absent()
    """Accounts of this profile; an unknown, malformed or empty one has none."""
    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[AccountStatus], Field(max_length=FILTER_MAX)]] = absent()


class Narrowing(Request):
    """The query of a route of one resource."""

    profile_id: Maybe[Uuid] = absent()
    """Look in this profile only: what belongs to another is not found."""


class SettleRequest(Request):
    """What you found when you looked at the account."""

    published: bool
    """Whether the post is there."""
    uri: Maybe[Annotated[str, StringConstraints(pattern=LINK, max_length=2048), AfterValidator(_no_nul)]] = absent()

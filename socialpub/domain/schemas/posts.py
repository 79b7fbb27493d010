"""Schemas of posts and batches."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Union

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag
from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.domain.schemas.common import (
    FILTER_MAX,
    PLAN_TOKEN_PATTERN,
    AltText,
    DateTime,
    ErrorCode,
    ExternalId,
    FileAddress,
    Instant,
    InstantRoundedUp,
    Link,
    Maybe,
    MediaId,
    PlatformName,
    RequestModel,
    Text,
    Uuid,
    absent,
)
from socialpub.domain.schemas.errors import ErrorBody, PlatformResponse, WarningBody
from socialpub.platforms.contract import TextUnit
from socialpub.platforms.kit.options import LINE_FEEDS
from socialpub.store.rows import MediaKind, PostStatus

TARGETS_MAX = 25
MEDIA_MAX = 40  # per list; no platform accepts as many (TikTok 35), so its own rule reports the limit
PIECES_MAX = 24  # of a thread, after the first


BatchStatus = Literal["queued", "published", "partial_failed", "failed"]
PostsOrder = Literal["createdAt", "scheduledAt"]


# --- Requests ------------------------------------------------------------------------------------------------------


def _require_any(name: str, *others: str) -> dict[str, Any]:
    """Build the JSON Schema demand for at least one of these fields.

    Not `anyOf`: beside properties it makes code generators split or drop the type.
    """
    asked: dict[str, Any] = {"required": [name]}
    return {"if": {"not": asked}, "then": _require_any(*others)} if others else asked


class FirstComment(RequestModel):
    """Reply posted below the new post. Bluesky only; elsewhere ignored with a warning."""

    text: Text


MEDIA_SOURCES = ("mediaId", "url", "bytesBase64")


class MediaItem(RequestModel):
    """Media item: `kind` and exactly one source."""

    model_config = ConfigDict(
        json_schema_extra=_require_any(*MEDIA_SOURCES)
        | {"not": {"anyOf": [{"required": list(pair)} for pair in itertools.combinations(MEDIA_SOURCES, 2)]}}
    )

    kind: MediaKind
    media_id: Maybe[MediaId] = absent()
    """An uploaded file."""
    url: Maybe[FileAddress] = absent()
    """A public https address, fetched when the post is published."""
    bytes_base64: Maybe[str] = absent()
    """The file in standard base64. The request body may have 16 MiB; for larger files use POST /v1/media."""
    alt_text: Maybe[AltText] = absent()
    """A description of the item for people who cannot see it."""

    @property
    def sources(self) -> int:
        return sum(source is not None for source in (self.media_id, self.url, self.bytes_base64))


def _media_tag(value: object) -> str:
    return "<id>" if isinstance(value, str) else "<item>"


MediaEntry = Annotated[
    Union[Annotated[MediaId, Tag("<id>")], Annotated[MediaItem, Tag("<item>")]], Discriminator(_media_tag)
]
MediaList = Annotated[list[MediaEntry], Field(max_length=MEDIA_MAX)]
_OPTIONS = tuple(platform.options for platform in platforms.PLATFORMS.values())
Options = Annotated[Union[_OPTIONS], Field(discriminator="platform")]  # type: ignore[valid-type]


class ThreadPiece(RequestModel):
    """Piece of a thread after the first: a reply to the piece before it."""

    text: Text
    media: Maybe[MediaList] = absent()
    """Its own media; the first piece's are not repeated."""


Thread = Annotated[list[ThreadPiece], Field(min_length=1, max_length=PIECES_MAX)]


class Target(RequestModel):
    """Account to publish on, with its differences. Give an `accountId` or a `platform`."""

    model_config = ConfigDict(json_schema_extra=_require_any("accountId", "platform"))

    account_id: Maybe[Uuid] = absent()
    platform: Maybe[PlatformName] = absent()
    """Instead of `accountId`: the only connected account of this platform."""
    options: Maybe[Options] = absent()
    """Options of the target's platform."""
    text: Maybe[Text] = absent()
    """Replaces the default text."""
    media: Maybe[MediaList] = absent()
    """Replaces the default media; an empty list means none."""
    first_comment: Maybe[FirstComment] = absent()
    """Replaces the default first comment."""
    thread: Maybe[Thread] = absent()
    """Replaces the default thread."""


class BatchRequest(RequestModel):
    """Content, targets and time of a batch. Unknown fields and null are refused."""

    # Counted by the rules `targets.required` and `targets.max`; the schema only documents it.
    targets: Annotated[list[Target], Field(json_schema_extra={"minItems": 1, "maxItems": TARGETS_MAX})]
    """1 to 25."""
    text: Maybe[Text] = absent()
    """The text of targets without their own. Line breaks (CRLF, CR) are sent as LF."""
    media: Maybe[MediaList] = absent()
    """The media of targets without their own: items, or ids of uploaded files."""
    publish_now: Maybe[bool] = absent()
    """Publish now, explicitly; excludes `scheduledAt` and `slot`."""
    scheduled_at: Maybe[Instant] = absent()
    """When to publish: a date-time with a time zone, at least 1 second ahead. Default: now."""
    slot: Maybe[Literal["next"]] = absent()
    """In place of `scheduledAt`: the next free slot of the profile, at least a minute ahead. A slot is free while no
    post of the profile is queued for its time."""
    first_comment: Maybe[FirstComment] = absent()
    """Immediate posts only."""
    thread: Maybe[Thread] = absent()
    """1 to 24 pieces that follow the post, each as a reply to the piece before it. Bluesky, Threads and X only."""
    profile_id: Maybe[Uuid] = absent()
    """Look for accounts in this profile only. Not needed for a key bound to a profile."""
    on_duplicate: Maybe[Literal["warn", "refuse"]] = absent()
    """Warn about or refuse a text that its account has had within the last 24 hours. Default: the server's setting."""
    external_id: Maybe[ExternalId] = absent()
    """Your own id for the batch, unique in the organization until every post of the batch is canceled. Creating it
    again with the same content returns the batch as it is. Upper and lower case differ."""


PlanTokenText = Annotated[str, StringConstraints(pattern=PLAN_TOKEN_PATTERN)]


class PlanRequest(RequestModel):
    """Publish request that is a plan's token and nothing else."""

    plan: PlanTokenText


def _require_targets_or_plan(schema: dict[str, Any]) -> None:
    del schema["required"]
    schema.update(_require_any("targets", "plan"))


class PublishRequest(BatchRequest):
    """Content, targets and time of a batch, or a plan. Unknown fields and null are refused."""

    model_config = ConfigDict(json_schema_extra=_require_targets_or_plan)

    plan: Maybe[PlanTokenText] = absent()
    """The token of a plan, in place of all other fields: publishes what was checked when the plan was made."""


class ValidateRequest(BatchRequest):
    """Batch to check: the body of POST /v1/posts, and whether to check the media files."""

    deep: Maybe[bool] = absent()
    """False: skip the checks that need the media files."""
    plan: Maybe[bool] = absent()
    """True: if all is valid, return a token that publishes exactly this, once. Media must be uploaded files."""


class PostEditRequest(RequestModel):
    """New content and time of a post: at least one field. What is absent stays as it is."""

    model_config = ConfigDict(json_schema_extra=_require_any("scheduledAt", "text", "media", "options"))

    scheduled_at: Maybe[Instant] = absent()
    """A date-time with a time zone, at least 1 second ahead."""
    text: Maybe[Text] = absent()
    media: Maybe[MediaList] = absent()
    """Replaces all media; an empty list removes them. To change a description, send the items with their `altText`."""
    options: Maybe[Options] = absent()
    """Replaces all options; those that are absent get the account's defaults."""


class BatchEditRequest(RequestModel):
    """New content and time of the queued posts of a batch: at least one field."""

    model_config = ConfigDict(json_schema_extra=_require_any("scheduledAt", "text", "media"))

    scheduled_at: Maybe[Instant] = absent()
    """A date-time with a time zone, at least 1 second ahead; for every queued post."""
    text: Maybe[Text] = absent()
    """The text of posts without their own."""
    media: Maybe[MediaList] = absent()
    """The media of posts without their own; an empty list removes them."""


class RetryRequest(RequestModel):
    """Time of the retry."""

    scheduled_at: Maybe[Instant] = absent()
    """When to retry: a date-time with a time zone. Default: now."""


class SettleRequest(RequestModel):
    """Result of a person's check of the account on the platform."""

    published: bool
    """Whether the post is on the platform."""
    uri: Maybe[Link] = absent()
    """Where it is. Needed if the rest of a thread waits to reply to it."""


class PostFilterQuery(RequestModel):
    """Filters of posts; lists are repeated or comma-separated."""

    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[PostStatus], Field(max_length=FILTER_MAX)]] = absent()
    error_code: Maybe[Annotated[list[ErrorCode], Field(max_length=FILTER_MAX)]] = absent()
    q: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=200), LINE_FEEDS]] = absent()
    """Posts whose text contains this. Both are compared in Unicode NFKC, case-folded and without invisible characters:
    case and form make no difference, accents do. `%` and `_` are ordinary characters."""
    after: Maybe[Instant] = absent()
    """Posts created after this instant, exclusive."""
    before: Maybe[InstantRoundedUp] = absent()
    """Posts created before this instant, exclusive."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the previous page; an empty one is ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Posts to accounts of this profile."""
    batch_id: Maybe[Uuid] = absent()
    """Posts of one batch."""
    external_id: Maybe[Annotated[list[ExternalId], Field(max_length=FILTER_MAX)]] = absent()
    """Posts of the batches with these external ids."""
    external_id_prefix: Maybe[ExternalId] = absent()
    """Posts of batches whose external id begins with this."""
    account_id: Maybe[Uuid] = absent()
    """Posts to one account, even if disconnected since."""
    scheduled_after: Maybe[Instant] = absent()
    """Posts scheduled for a time after this instant, exclusive; excludes immediate posts."""
    scheduled_before: Maybe[InstantRoundedUp] = absent()
    """Posts scheduled for a time before this instant, exclusive; excludes immediate posts."""


class PostsQuery(PostFilterQuery):
    """Query of GET /v1/posts."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Posts per page."""
    order: PostsOrder = "createdAt"
    """`createdAt`: newest first. `scheduledAt`: only scheduled posts, earliest first."""


class BatchesQuery(PostFilterQuery):
    """Query of GET /v1/batches: batches with at least one such post."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Batches per page."""
    order: ClassVar[PostsOrder] = "createdAt"


# --- Responses -----------------------------------------------------------------------------------------------------


class MediaRef(TypedDict):
    """Media item of a post: a file by its `mediaId`, or an address."""

    kind: MediaKind
    mediaId: NotRequired[str]
    url: NotRequired[str]
    altText: NotRequired[str]


class PostAccount(TypedDict):
    """Account of a post."""

    id: str
    platform: PlatformName
    platformAccountId: str
    """The platform's own id of the account."""
    displayName: str | None


class PostBody(TypedDict):
    """Post: one target of one batch."""

    id: str
    batchId: str
    """The id returned by POST /v1/posts."""
    externalId: str | None
    """The caller's own id for the batch."""
    profileId: str
    accountId: str
    account: PostAccount
    platform: PlatformName
    status: PostStatus
    text: str
    mediaRefs: list[MediaRef]
    """The media items as sent; a bare id becomes `{kind, mediaId}`, inline bytes become a `mediaId`."""
    scheduledAt: DateTime | None
    """When the post will be published; null for an immediate post."""
    nextAttemptAt: DateTime | None
    """The time of the next attempt, if one is scheduled."""
    publishedAt: DateTime | None
    platformUri: str | None
    """The post's address in the platform's own form."""
    platformCid: str | None
    """The hash of the post's content; Bluesky only."""
    url: str | None
    """The post's public web address."""
    error: NotRequired[ErrorBody]
    """Why the post failed. Still present while a retry is scheduled."""
    warnings: list[WarningBody]
    threadOf: str | None
    """The id of the first post of its thread; null for that post, and without a thread."""
    threadPosition: int | None
    """Its place in the thread, from 0; null without a thread."""
    createdAt: DateTime
    updatedAt: DateTime


class PostedComment(TypedDict):
    """Reply posted below the post."""

    text: str
    uri: str | None
    cid: str | None


class AttemptBody(TypedDict):
    """Attempt to publish a post."""

    id: str
    attemptNumber: int
    startedAt: DateTime
    finishedAt: DateTime | None
    succeeded: bool | None
    """Null while the attempt runs."""
    errorCode: ErrorCode | None
    errorMessage: str | None
    platformResponse: PlatformResponse
    """Of a failed attempt, at most 16 KiB; otherwise null."""


class PostDetail(PostBody):
    """Post with its options, its first comment and all attempts."""

    options: dict[str, Any]
    """The target's `options`, with the account's defaults at the time of acceptance."""
    firstComment: PostedComment | None
    attempts: list[AttemptBody]


class PostPage(TypedDict):
    """Page of the post log, newest first."""

    data: list[PostBody]
    nextCursor: str | None
    """The `cursor` of the next page; null on the last one."""


class PieceResult(TypedDict):
    """Result of a piece of a thread after the first."""

    postId: str
    status: PostStatus
    uri: NotRequired[str]
    """The piece's address in the platform's own form."""
    error: NotRequired[ErrorBody]
    """Why this piece failed."""


class Result(TypedDict):
    """Result of one target."""

    accountId: str
    platform: PlatformName
    postId: str
    status: PostStatus
    uri: NotRequired[str]
    """The post's address in the platform's own form."""
    cid: NotRequired[str]
    """The hash of the post's content; Bluesky only."""
    url: NotRequired[str]
    """The post's public web address."""
    firstCommentUri: NotRequired[str]
    firstCommentCid: NotRequired[str]
    warnings: NotRequired[list[WarningBody]]
    error: NotRequired[ErrorBody]
    """Why this target failed."""
    thread: NotRequired[list[PieceResult]]
    """The pieces of its thread after the first, in order."""


class BatchBody(TypedDict):
    """Batch, as POST /v1/posts returns it."""

    id: str
    """The id of the batch. GET /v1/posts filters by it (`batchId`)."""
    status: BatchStatus
    """`queued`: scheduled, or still being published without failures so far. `published`, `failed`: every target.
    `partial_failed`: some targets failed."""
    createdAt: DateTime
    results: list[Result]
    """One for each target, in the order of the request."""
    scheduledAt: NotRequired[DateTime]
    """When the batch will be published; absent for an immediate one."""
    externalId: NotRequired[str]
    """The caller's own id for the batch; absent without one."""


CurrentBatchStatus = Literal["queued", "published", "partial_failed", "failed", "canceled"]


class CurrentBatch(TypedDict):
    """Batch as it is now, with the posts that the key may read."""

    id: str
    status: CurrentBatchStatus
    """`queued` while any post is open. Then `canceled` if all are, else as in the response of a publish request; a
    canceled post of a scheduled batch counts neither as published nor as failed."""
    createdAt: DateTime
    results: list[Result]
    """One for each target, in the order of the request."""
    externalId: NotRequired[str]
    """Your own id of the batch, if it has one."""
    scheduledAt: NotRequired[DateTime]
    """The time of the batch as it was last set; absent for an immediate one. Posts that were moved have their own."""


class BatchPage(TypedDict):
    """Page of batches, newest first."""

    data: list[CurrentBatch]
    nextCursor: str | None
    """The `cursor` of the next page; null on the last one."""


class CanceledBatch(TypedDict):
    """Batch whose queued posts were canceled."""

    id: str
    status: CurrentBatchStatus
    canceled: int
    """How many posts were canceled."""


class CanceledBody(TypedDict):
    """Canceled post."""

    id: str
    status: Literal["canceled"]


class TextCount(TypedDict):
    """Length of a text as the platform counts it."""

    length: int
    limit: int | None
    """Null: not documented by the platform."""
    unit: TextUnit


class PieceValidation(TypedDict):
    """Preflight result of a piece of a thread after the first."""

    valid: bool
    text: TextCount


class ValidationResult(TypedDict):
    """Preflight result of one target."""

    targetIndex: int
    accountId: str
    platform: PlatformName
    valid: bool
    text: TextCount
    errors: list[ErrorBody]
    """Of the target and of every piece of its thread."""
    warnings: list[WarningBody]
    thread: NotRequired[list[PieceValidation]]
    """The pieces of its thread after the first, in order."""


class PlanBody(TypedDict):
    """Token that publishes what was checked, once."""

    token: str
    """The `plan` of POST /v1/posts."""
    expiresAt: DateTime


class ValidationBody(TypedDict):
    """Preflight result of a batch; nothing was published."""

    valid: bool
    results: list[ValidationResult]
    plan: NotRequired[PlanBody]
    """If asked for, and if all is valid."""

"""Posts: what is asked to be published, and what is said of it."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag
from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.domain.shapes.common import (
    FILTER_MAX,
    AltText,
    DateTime,
    ErrorCode,
    FileAddress,
    Instant,
    Link,
    Maybe,
    MediaId,
    PlatformName,
    Request,
    Text,
    Unit,
    Upper,
    Uuid,
    absent,
)
from socialpub.domain.shapes.errors import ErrorBody, PlatformResponse, WarningBody
from socialpub.platforms.kit.options import LINE_FEEDS
from socialpub.store.rows import MediaKind, PostStatus

TARGETS_MAX = 25
MEDIA_MAX = 40  # entries of one list: no platform takes as many (TikTok 35), so its own rule says how many it does


BatchStatus = Literal["queued", "published", "partial_failed", "failed"]
PostsOrder = Literal["createdAt", "scheduledAt"]


# --- Requests ------------------------------------------------------------------------------------------------------


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

    kind: MediaKind
    media_id: Maybe[MediaId] = absent()
    """An uploaded file."""
    url: Maybe[FileAddress] = absent()
    """A public https address, fetched when the post is published."""
    bytes_base64: Maybe[str] = absent()
    """The file itself in standard base64; the whole body may have 48 MiB. Larger ones: POST /v1/media."""
    alt_text: Maybe[AltText] = absent()
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
    """The text of every target that has none of its own. Its line breaks (CRLF, CR) are kept and sent as LF."""
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


class SettleRequest(Request):
    """What you found when you looked at the account."""

    published: bool
    """Whether the post is there."""
    uri: Maybe[Link] = absent()


class PostsQuery(Request):
    """The query of GET /v1/posts; lists are repeated or comma-separated."""

    platform: Maybe[Annotated[list[PlatformName], Field(max_length=FILTER_MAX)]] = absent()
    status: Maybe[Annotated[list[PostStatus], Field(max_length=FILTER_MAX)]] = absent()
    error_code: Maybe[Annotated[list[ErrorCode], Field(max_length=FILTER_MAX)]] = absent()
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Posts a page."""
    q: Maybe[Annotated[str, StringConstraints(min_length=1, max_length=200), LINE_FEEDS]] = absent()
    """Posts whose text contains this. Both are compared in Unicode's NFKC, casefolded and without invisible characters:
    case and form make no difference, an accent does. `%` and `_` are ordinary characters."""
    after: Maybe[Instant] = absent()
    """Posts created after this instant, exclusive."""
    before: Maybe[Upper] = absent()
    """Posts created before this instant, exclusive."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before; an empty one is as if absent."""
    profile_id: Maybe[Uuid] = absent()
    """The posts to accounts of this profile."""
    batch_id: Maybe[Uuid] = absent()
    """The posts of one batch."""
    account_id: Maybe[Uuid] = absent()
    """The posts to one account, which may have been disconnected since."""
    scheduled_after: Maybe[Instant] = absent()
    """Posts scheduled for a time after this instant, exclusive; none that were published at once."""
    scheduled_before: Maybe[Upper] = absent()
    """Posts scheduled for a time before this instant, exclusive; none that were published at once."""
    order: PostsOrder = "createdAt"
    """`createdAt`: newest first. `scheduledAt`: only posts that were scheduled, the earliest time first."""


# --- Answers -------------------------------------------------------------------------------------------------------


class MediaRef(TypedDict):
    """A media item of a post: a file by its `mediaId`, or an address."""

    kind: MediaKind
    mediaId: NotRequired[str]
    url: NotRequired[str]
    altText: NotRequired[str]


class PostAccount(TypedDict):
    """The account that a post goes to."""

    id: str
    platform: PlatformName
    platformAccountId: str
    """The platform's own id of the account."""
    displayName: str | None


class PostBody(TypedDict):
    """One row of the post log: one target of one batch."""

    id: str
    batchId: str
    """The id that POST /v1/posts answered."""
    profileId: str
    accountId: str
    account: PostAccount
    platform: PlatformName
    status: PostStatus
    text: str
    mediaRefs: list[MediaRef]
    """The media items as they were sent; a bare id becomes `{kind, mediaId}`, inline bytes become a `mediaId`."""
    scheduledAt: DateTime | None
    """When it is to be published; null for an immediate post."""
    nextAttemptAt: DateTime | None
    """When it is tried again, while it waits for that."""
    publishedAt: DateTime | None
    platformUri: str | None
    """The post's address in the platform's own form."""
    platformCid: str | None
    """The hash of the post's content; Bluesky only."""
    url: str | None
    """The post's public web address."""
    error: NotRequired[ErrorBody]
    """Why it failed; kept while a retry waits."""
    warnings: list[WarningBody]
    createdAt: DateTime
    updatedAt: DateTime


class PostedComment(TypedDict):
    """The reply that was posted below the post."""

    text: str
    uri: str | None
    cid: str | None


class AttemptBody(TypedDict):
    """One run at publishing a post."""

    id: str
    attemptNumber: int
    startedAt: DateTime
    finishedAt: DateTime | None
    succeeded: bool | None
    """Null while it runs."""
    errorCode: ErrorCode | None
    errorMessage: str | None
    platformResponse: PlatformResponse
    """Of a failed attempt, at most 16 KiB; else null."""


class PostDetail(PostBody):
    """One post with its first comment and every attempt at publishing it."""

    firstComment: PostedComment | None
    attempts: list[AttemptBody]


class PostPage(TypedDict):
    """One page of the post log, newest first."""

    data: list[PostBody]
    nextCursor: str | None
    """Send it as `cursor` for the next page; null on the last one."""


class Result(TypedDict):
    """What became of one target."""

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


class BatchBody(TypedDict):
    """The batch: what POST /v1/posts answers."""

    id: str
    """Ties the posts of the batch together; see `batchId` of GET /v1/posts."""
    status: BatchStatus
    """`queued`: scheduled, or still being published and nothing has failed. `published`, `failed`: every target.
    `partial_failed`: something has failed, and not everything."""
    createdAt: DateTime
    results: list[Result]
    """One for each target, in the order of the request."""
    scheduledAt: NotRequired[DateTime]
    """When the batch is to be published; absent for an immediate one."""


class CanceledBody(TypedDict):
    """A post that will not be published."""

    id: str
    status: Literal["canceled"]


class TextCount(TypedDict):
    """A text's length as the platform counts it."""

    length: int
    limit: int | None
    """Null: the platform documents none."""
    unit: Unit


class ValidationResult(TypedDict):
    """What preflight says about one target."""

    targetIndex: int
    accountId: str
    platform: PlatformName
    valid: bool
    text: TextCount
    errors: list[ErrorBody]
    warnings: list[WarningBody]


class ValidationBody(TypedDict):
    """What preflight says about a batch; nothing was stored or published."""

    valid: bool
    results: list[ValidationResult]

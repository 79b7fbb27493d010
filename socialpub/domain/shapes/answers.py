"""The API's answers, once: what every body that this server sends looks like. OpenAPI is generated from these models.

An answer may gain fields later, so readers ignore what they do not know. A field that may be absent is a `Maybe`;
one that is always there but may be empty is `… | None`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from socialpub.domain.shapes.schemas import AccountStatus, DateTime, ErrorCode, Maybe, PlatformName, PostStatus, absent

Severity = Literal["error", "warning"]
Unit = Literal["graphemes", "weighted", "utf16", "characters"]


class Answer(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


# --- Errors ------------------------------------------------------------------------------------------------------


class ErrorBody(Answer):
    """What went wrong with one post or target."""

    code: ErrorCode
    """Switch on this."""
    message: str
    """For people; it may change, do not switch on it."""
    rule: Maybe[str] = absent()
    """The rule that was broken, or the path of the first request field that is wrong."""
    platform: Maybe[PlatformName] = absent()
    platform_version: Maybe[str] = absent()
    """The version of the platform's API that was called."""
    platform_response: Maybe[Any] = absent()
    """The platform's raw answer; for a request that does not match its schema, every issue; for preflight, every
    failure of every target."""
    remediation: Maybe[str] = absent()
    """What to do next, in one sentence."""
    retry_after: Maybe[int] = absent()
    """In results and posts: for how many seconds the platform asks to be left alone, where it says so."""
    doc_url: str
    """The page of the code."""
    rule_url: Maybe[str] = absent()
    """The page of the rule; there whenever `rule` is."""


class EnvelopeError(ErrorBody):
    """What went wrong with a request."""

    request_id: str
    """Also in the header `X-Request-Id`; name it when you ask the operator."""
    trace_id: Maybe[str] = absent()
    """The trace id of the request's `traceparent`, when it had a valid one."""


class ErrorEnvelope(Answer):
    """The body of every answer that is not a success."""

    error: EnvelopeError


class WarningBody(Answer):
    """Something to know about a post that was accepted or published all the same."""

    code: str
    message: str


# --- Posts -------------------------------------------------------------------------------------------------------


class PostAccount(Answer):
    """The account that a post goes to."""

    id: str
    platform: PlatformName
    platform_account_id: str
    """The platform's own id of the account."""
    display_name: str | None


class PostBody(Answer):
    """One row of the post log: one target of one batch."""

    id: str
    batch_id: str
    """The id that POST /v1/posts answered."""
    profile_id: str
    account_id: str
    account: PostAccount
    platform: PlatformName
    status: PostStatus
    text: str
    media_refs: list[Any]
    """The media items as they were sent; a bare id becomes `{kind, mediaId}`, inline bytes become a `mediaId`."""
    scheduled_at: DateTime | None
    """When it is to be published; null for an immediate post."""
    next_attempt_at: DateTime | None
    """When it is tried again, while it waits for that."""
    published_at: DateTime | None
    platform_uri: str | None
    """The post's address in the platform's own form."""
    platform_cid: str | None
    """The hash of the post's content; Bluesky only."""
    url: str | None
    """The post's public web address."""
    error: Maybe[ErrorBody] = absent()
    """Why it failed; kept while a retry waits."""
    warnings: list[WarningBody]
    created_at: DateTime
    updated_at: DateTime


class PostedComment(Answer):
    """The reply that was posted below the post."""

    text: str
    uri: str | None
    cid: str | None


class AttemptBody(Answer):
    """One run at publishing a post."""

    id: str
    attempt_number: int
    started_at: DateTime
    finished_at: DateTime | None
    succeeded: bool | None
    """Null while it runs."""
    error_code: ErrorCode | None
    error_message: str | None
    platform_response: Any
    """The platform's raw answer to a failed attempt, at most 16 KiB; else null."""


class PostDetail(PostBody):
    """One post with its first comment and every attempt at publishing it."""

    first_comment: PostedComment | None
    attempts: list[AttemptBody]


class PostPage(Answer):
    """One page of the post log, newest first."""

    data: list[PostBody]
    next_cursor: str | None
    """Send it as `cursor` for the next page; null on the last one."""


class Result(Answer):
    """What became of one target."""

    account_id: str
    platform: PlatformName
    post_id: str
    status: PostStatus
    uri: Maybe[str] = absent()
    """The post's address in the platform's own form."""
    cid: Maybe[str] = absent()
    """The hash of the post's content; Bluesky only."""
    url: Maybe[str] = absent()
    """The post's public web address."""
    first_comment_uri: Maybe[str] = absent()
    first_comment_cid: Maybe[str] = absent()
    warnings: Maybe[list[WarningBody]] = absent()
    error: Maybe[ErrorBody] = absent()
    """Why this target failed."""


class BatchBody(Answer):
    """The batch: what POST /v1/posts answers."""

    id: str
    """Ties the posts of the batch together; see `batchId` of GET /v1/posts."""
    status: Literal["queued", "published", "partial_failed", "failed"]
    """`queued`: scheduled, or still being published and nothing has failed. `published`, `failed`: every target.
    `partial_failed`: something has failed, and not everything."""
    created_at: DateTime
    results: list[Result]
    """One for each target, in the order of the request."""
    scheduled_at: Maybe[DateTime] = absent()
    """When the batch is to be published; absent for an immediate one."""


class CanceledBody(Answer):
    """A post that will not be published."""

    id: str
    status: Literal["canceled"]


class TextCount(Answer):
    """A text's length as the platform counts it."""

    length: int
    limit: int | None
    """Null: the platform documents none."""
    unit: Unit


class ValidationResult(Answer):
    """What preflight says about one target."""

    target_index: int
    account_id: str
    platform: PlatformName
    valid: bool
    text: TextCount
    errors: list[ErrorBody]
    warnings: list[WarningBody]


class ValidationBody(Answer):
    """What preflight says about a batch; nothing was stored or published."""

    valid: bool
    results: list[ValidationResult]


# --- Accounts and profiles ---------------------------------------------------------------------------------------


class PinterestBlock(Answer):
    """What only Pinterest accounts have."""

    default_board_id: str | None
    """The board of targets that name none."""
    default_board_name: str | None


class InstagramBlock(Answer):
    """What only Instagram accounts have, as the platform reports it."""

    kind: str | None
    account_type: str | None
    granted_scopes: list[str] | None


class Attention(Answer):
    """What the platform refuses the account although its token is good: a missing permission, a suspension."""

    code: ErrorCode
    message: str
    """What is wrong and what the platform says of it, for people."""
    at: DateTime


class AccountBody(Answer):
    """A connected account; never its secrets."""

    id: str
    profile_id: str
    platform: PlatformName
    platform_account_id: str
    """The platform's own id of the account."""
    display_name: str | None
    status: AccountStatus
    """`expiring`: the token ends soon and cannot be refreshed by itself. `revoked`: reconnect the account."""
    created_at: DateTime
    updated_at: DateTime
    token_expires_at: DateTime | None
    attention: Maybe[Attention] = absent()
    """Why the platform refused a post of this account; absent when all is well, and again once a post succeeds."""
    pinterest: Maybe[PinterestBlock] = absent()
    instagram: Maybe[InstagramBlock] = absent()


class AccountList(Answer):
    """The connected accounts, oldest first."""

    data: list[AccountBody]


class ProfileBody(Answer):
    """A part of an organization that owns accounts."""

    id: str
    name: str
    slug: str
    """The name as it can stand in an address; unique in the organization."""
    created_at: DateTime
    updated_at: DateTime


class MediaBody(Answer):
    """A stored file."""

    id: str
    url: str
    """Public: whoever has this address can read the file."""
    content_type: str
    """What the bytes are."""
    size_bytes: int
    sha256: str
    kind: Literal["image", "video"]
    width: int | None
    """In pixels, as it is shown; null where it could not be read."""
    height: int | None
    duration_ms: int | None
    """Of a video."""
    profile_id: str | None
    """Null for a file that serves every profile."""
    alt_text: str | None
    created_at: DateTime


class MediaPage(Answer):
    """One page of stored files, newest first."""

    data: list[MediaBody]
    next_cursor: str | None
    """Send it as `cursor` for the next page; null on the last one."""


class DeletedBody(Answer):
    """Something that is gone."""

    id: str
    deleted: Literal[True]


class KeyBody(Answer):
    """An API key's record; the key itself is stored nowhere."""

    id: str
    name: str
    prefix: str
    last4: str
    profile_id: str | None
    """The profile that the key is bound to; null: the whole organization."""
    created_at: DateTime
    last_used_at: DateTime | None
    revoked_at: DateTime | None


class MintedKeyBody(KeyBody):
    """A new API key, with the key: shown this once."""

    key: str


class KeyList(Answer):
    """The keys of the organization, newest first."""

    data: list[KeyBody]


class RevokedKeyBody(Answer):
    """A key that works no more."""

    id: str
    revoked_at: DateTime


class ProfileList(Answer):
    """The profiles, oldest first."""

    data: list[ProfileBody]

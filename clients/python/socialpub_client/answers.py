"""Answers of the API. `make client` generates this file from its OpenAPI document.

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


ERROR_CODES = (
    "validation_failed",
    "preflight_failed",
    "platform_auth_failed",
    "platform_rejected",
    "platform_unavailable",
    "platform_not_enabled",
    "internal_error",
    "unauthenticated",
    "unauthorized",
    "not_found",
    "idempotency_conflict",
    "rate_limited",
    "quota_exceeded",
)

PLATFORMS = (
    "bluesky",
    "facebook",
    "instagram",
    "linkedin",
    "pinterest",
    "threads",
    "tiktok",
    "twitter",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(_Answer):
    """Connected account, without secrets."""

    id: str
    """The id of the account; send it as `accountId`."""
    profile_id: str
    """The id of the profile that owns the account."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    platform_account_id: str
    """The platform's own id of the account."""
    display_name: str | None
    """The name that the platform shows for the account; null where it has none."""
    status: str
    """`expiring`: the token ends soon and cannot be refreshed automatically. `revoked`: reconnect the account. One
    of `active`, `expiring`, `revoked`.
    """
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""
    token_expires_at: datetime | None
    """When the account's access token expires; null where it does not or is not known."""
    attention: Attention | None = None
    """Why the platform refused a post of this account. Absent if all is well, and again once a post succeeds."""
    groups: tuple[str, ...] | None = None
    """Names of the groups that the account is in, as the dashboard's composer saves them. Absent without one."""
    pinterest: PinterestBlock | None = None
    """Pinterest accounts only."""
    instagram: InstagramBlock | None = None
    """Instagram accounts only."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            profile_id=data["profileId"],
            platform=data["platform"],
            platform_account_id=data["platformAccountId"],
            display_name=data["displayName"],
            status=data["status"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            token_expires_at=None if data["tokenExpiresAt"] is None else _time(data["tokenExpiresAt"]),
            attention=None if data.get("attention") is None else Attention.parse(data["attention"]),
            groups=None if data.get("groups") is None else tuple(data["groups"]),
            pinterest=None if data.get("pinterest") is None else PinterestBlock.parse(data["pinterest"]),
            instagram=None if data.get("instagram") is None else InstagramBlock.parse(data["instagram"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLink(_Answer):
    """Link by which a person without a login approves or returns one draft."""

    url: str
    """Shown only once. Anyone who has it can decide on this draft."""
    expires_at: datetime
    """When the token expires."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            url=data["url"],
            expires_at=_time(data["expiresAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(_Part):
    """Attempt to publish a post."""

    id: str
    """The id of this item."""
    attempt_number: int
    """The number of the attempt, counted from 1."""
    started_at: datetime
    """When the attempt began."""
    finished_at: datetime | None
    """When the attempt ended; null while it runs."""
    succeeded: bool | None
    """Null while the attempt runs."""
    error_code: str | None
    """The error code of a failed attempt, else null."""
    error_message: str | None
    """The error message of a failed attempt, else null."""
    platform_response: Any
    """Of a failed attempt, at most 16 KiB; otherwise null."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            attempt_number=data["attemptNumber"],
            started_at=_time(data["startedAt"]),
            finished_at=None if data["finishedAt"] is None else _time(data["finishedAt"]),
            succeeded=data["succeeded"],
            error_code=data["errorCode"],
            error_message=data["errorMessage"],
            platform_response=data["platformResponse"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(_Part):
    """Refusal by the platform despite a valid token: a missing permission, a suspension."""

    code: str
    """Why the account needs attention."""
    message: str
    """The problem and the platform's explanation, for people."""
    at: datetime
    """When it was first noticed."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            message=data["message"],
            at=_time(data["at"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchData(_Answer):
    """Batch, as POST /v1/posts returns it."""

    id: str
    """The id of the batch. GET /v1/posts filters by it (`batchId`)."""
    status: str
    """`queued`: scheduled, or still being published without failures so far. `published`, `failed`: every target.
    `partial_failed`: some targets failed. One of `queued`, `published`, `partial_failed`, `failed`.
    """
    created_at: datetime
    """When it was created."""
    results: tuple[Result, ...]
    """One for each target, in the order of the request."""
    scheduled_at: datetime | None = None
    """When the batch will be published; absent for an immediate one."""
    external_id: str | None = None
    """The caller's own id for the batch; absent without one."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            status=data["status"],
            created_at=_time(data["createdAt"]),
            results=tuple(Result.parse(each) for each in data["results"]),
            scheduled_at=None if data.get("scheduledAt") is None else _time(data["scheduledAt"]),
            external_id=data.get("externalId"),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Board(_Part):
    """Board of an account."""

    id: str
    """The id of the board on its platform."""
    name: str
    """The name."""
    privacy: str
    """Who can see the board."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            name=data["name"],
            privacy=data["privacy"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardList(_Answer):
    """Boards of an account."""

    data: tuple[Board, ...]
    """The boards."""
    default_board_id: str | None
    """The id of the board for pins that name none; null where none is chosen."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            data=tuple(Board.parse(each) for each in data["data"]),
            default_board_id=data["defaultBoardId"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller(_Answer):
    """Caller: what the key or session belongs to and may do."""

    organization: Named
    """The organization that the key or user belongs to."""
    profile: Named | None
    """The profile that the key is bound to; null: the whole organization."""
    key: CallerKey | None
    """Null for a session."""
    user: CallerUser | None
    """Null for a key."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            organization=Named.parse(data["organization"]),
            profile=None if data["profile"] is None else Named.parse(data["profile"]),
            key=None if data["key"] is None else CallerKey.parse(data["key"]),
            user=None if data["user"] is None else CallerUser.parse(data["user"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerKey(_Part):
    """API key of the caller."""

    id: str
    """The id of this item."""
    name: str
    """The name."""
    prefix: str
    """The first characters of the key, which say what it is for."""
    last4: str
    """The last four characters of the key."""
    scopes: tuple[str, ...]
    """What the key may do. One of `posts:read`, `posts:plan`, `posts:write`, `media`, `accounts:read`, `webhooks`."""
    accounts: tuple[str, ...] | None
    """The accounts that the key is limited to; null: all."""
    expires_at: datetime | None
    """When the key stops working; null: never."""
    created_at: datetime
    """When it was created."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            name=data["name"],
            prefix=data["prefix"],
            last4=data["last4"],
            scopes=tuple(data["scopes"]),
            accounts=None if data["accounts"] is None else tuple(data["accounts"]),
            expires_at=None if data["expiresAt"] is None else _time(data["expiresAt"]),
            created_at=_time(data["createdAt"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerUser(_Part):
    """Signed-in user."""

    id: str
    """The id of this item."""
    email: str
    """The address that the user signs in with."""
    role: str
    """`owner`, `admin` or `member`."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            email=data["email"],
            role=data["role"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled(_Answer):
    """Canceled post."""

    id: str
    """The id of this item."""
    status: str
    """Always `canceled`."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            status=data["status"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CanceledBatch(_Answer):
    """Batch whose queued posts were canceled."""

    id: str
    """The id of this item."""
    status: str
    """The state of the post. One of `queued`, `published`, `partial_failed`, `failed`, `canceled`."""
    canceled: int
    """How many posts were canceled."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            status=data["status"],
            canceled=data["canceled"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(_Answer):
    """Notification channel."""

    id: str
    """The id of this item."""
    to: ShownTarget
    """Where notifications go; secrets are shortened."""
    events: tuple[str, ...]
    """Empty: the default types."""
    description: str | None
    """A note for people; null where there is none."""
    active: bool
    """False: nothing is sent. A channel is disabled after every message has failed for 5 days."""
    profile_id: str | None
    """The profile whose events are sent; null: the whole organization's."""
    accounts: tuple[str, ...] | None
    """The accounts that the API key which created it is limited to: their events are sent, and those of no account.
    Null: the events of every account.
    """
    last_delivery_at: datetime | None
    """The time of the last successful delivery."""
    last_failure_reason: str | None
    """Why the latest attempt failed; null after a successful delivery."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            to=ShownTarget.parse(data["to"]),
            events=tuple(data["events"]),
            description=data["description"],
            active=data["active"],
            profile_id=data["profileId"],
            accounts=None if data["accounts"] is None else tuple(data["accounts"]),
            last_delivery_at=None if data["lastDeliveryAt"] is None else _time(data["lastDeliveryAt"]),
            last_failure_reason=data["lastFailureReason"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTestResult(_Answer):
    """Result of a test message, sent now."""

    delivered: bool
    """Whether the receiver accepted the message."""
    status: int | None
    """The status of the response (for e-mail: the mail server's code); null without a response."""
    duration_ms: int
    """How long the call took, in milliseconds."""
    response_body: str | None
    """The first 2 KiB of the response, without the channel's secrets."""
    non_retryable: bool
    """Whether a real message would not be retried."""
    error: str | None
    """Why it failed, for people; null if delivered."""
    error_name: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `smtp_4xx`, `smtp_5xx`, `smtp_login`, `smtp_tls`, `smtp_settings`,
    `timeout`, `unreachable`, `address` or `answer_lost`; null if delivered.
    """
    sent_text: str
    """The text sent, before formatting for the receiver."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            delivered=data["delivered"],
            status=data["status"],
            duration_ms=data["durationMs"],
            response_body=data["responseBody"],
            non_retryable=data["nonRetryable"],
            error=data["error"],
            error_name=data["errorName"],
            sent_text=data["sentText"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeInfo(_Part):
    """Error code."""

    code: str
    """The error code, as in `error.code`."""
    status: int
    """The HTTP status, unless the rule has its own."""
    message: str
    """What is wrong, in one sentence."""
    remediation: str
    """What to do about it."""
    doc_url: str
    """The page of this error code on this server."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            status=data["status"],
            message=data["message"],
            remediation=data["remediation"],
            doc_url=data["docUrl"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultBoard(_Answer):
    """Default board of an account."""

    id: str
    """The id of this item."""
    default_board_id: str
    """The id of the board for pins that name none; null where none is chosen."""
    default_board_name: str
    """The name of the default board; null where none is chosen."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            default_board_id=data["defaultBoardId"],
            default_board_name=data["defaultBoardName"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(_Answer):
    """Confirmation of a deletion."""

    id: str
    """The id of this item."""
    deleted: bool
    """Always true."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            deleted=data["deleted"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(_Answer):
    """Delivery of one event to one endpoint."""

    id: str
    """The id of this item."""
    endpoint_id: str
    """The id of the webhook endpoint."""
    event_id: str
    """The id of the event. It is the same in every delivery of it."""
    type: str
    """The type of the event."""
    status: str
    """Whether the delivery is pending, succeeded or failed. One of `pending`, `succeeded`, `failed`."""
    attempt_count: int
    """How many attempts have been made so far."""
    next_attempt_at: datetime | None
    """The time of the next attempt; null if there is none."""
    last_status_code: int | None
    """The HTTP status of the last response; null if there was none."""
    last_error: str | None
    """Why the last attempt failed; null where none has failed."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            endpoint_id=data["endpointId"],
            event_id=data["eventId"],
            type=data["type"],
            status=data["status"],
            attempt_count=data["attemptCount"],
            next_attempt_at=None if data["nextAttemptAt"] is None else _time(data["nextAttemptAt"]),
            last_status_code=data["lastStatusCode"],
            last_error=data["lastError"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt(_Part):
    """Call to the endpoint."""

    id: str
    """Sent in the header `…-Delivery-Id`."""
    started_at: datetime
    """When the call began."""
    duration_ms: int
    """How long the call took, in milliseconds."""
    status_code: int | None
    """The HTTP status of the response; null if there was none."""
    error: str | None
    """Why the attempt failed; null after a 2xx response."""
    response_body: str | None
    """The first 2 KiB of the response."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            started_at=_time(data["startedAt"]),
            duration_ms=data["durationMs"],
            status_code=data["statusCode"],
            error=data["error"],
            response_body=data["responseBody"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDetail(_Answer):
    """Delivery with the event and all calls."""

    id: str
    """The id of this item."""
    endpoint_id: str
    """The id of the webhook endpoint."""
    event_id: str
    """The id of the event. It is the same in every delivery of it."""
    type: str
    """The type of the event."""
    status: str
    """Whether the delivery is pending, succeeded or failed. One of `pending`, `succeeded`, `failed`."""
    attempt_count: int
    """How many attempts have been made so far."""
    next_attempt_at: datetime | None
    """The time of the next attempt; null if there is none."""
    last_status_code: int | None
    """The HTTP status of the last response; null if there was none."""
    last_error: str | None
    """Why the last attempt failed; null where none has failed."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""
    event: Json
    """The event as it is sent to the endpoint."""
    attempts: tuple[DeliveryAttempt, ...]
    """Every attempt, oldest first."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            endpoint_id=data["endpointId"],
            event_id=data["eventId"],
            type=data["type"],
            status=data["status"],
            attempt_count=data["attemptCount"],
            next_attempt_at=None if data["nextAttemptAt"] is None else _time(data["nextAttemptAt"]),
            last_status_code=data["lastStatusCode"],
            last_error=data["lastError"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            event=data["event"],
            attempts=tuple(DeliveryAttempt.parse(each) for each in data["attempts"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(_Answer):
    """Draft of a publish request."""

    id: str
    """The id of this item."""
    title: str | None
    """The title of the pin."""
    content: Json
    """The publish request so far, with times in UTC. Inline bytes have become a `mediaId`."""
    status: str
    """`approved` ends with the next change of the content, and the draft is a `draft` again. One of `draft`,
    `proposed`, `approved`, `published`.
    """
    note: str | None
    """Why it was returned, until it is proposed or approved again."""
    problems: tuple[DraftProblem, ...]
    """Why publishing would be refused now. In the response to a write: as of the last check."""
    created_by: DraftAuthor
    """The author of the draft."""
    updated_by: DraftAuthor
    """The author of the last change or decision."""
    batch_id: str | None
    """The batch, once published."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            title=data["title"],
            content=data["content"],
            status=data["status"],
            note=data["note"],
            problems=tuple(DraftProblem.parse(each) for each in data["problems"]),
            created_by=DraftAuthor.parse(data["createdBy"]),
            updated_by=DraftAuthor.parse(data["updatedBy"]),
            batch_id=data["batchId"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftAuthor(_Part):
    """Author of a draft, of a change or of a decision."""

    type: str
    """`link`: the person who has the approval link. One of `user`, `key`, `link`."""
    id: str | None
    """The id of the user or API key; null for a link."""
    name: str | None
    """The user's e-mail address or the key's name, if it still exists."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            type=data["type"],
            id=data["id"],
            name=data["name"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftProblem(_Part):
    """Reason why publishing the draft would be refused, as POST /v1/posts/validate reports it."""

    code: str
    """The stable error code, for use in your code."""
    message: str
    """A description for people. It may change."""
    rule: str | None = None
    """The broken rule, or the path of the first invalid request field."""
    platform: str | None = None
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    platform_version: str | None = None
    """The platform's API version that was called."""
    platform_response: Any = None
    """Details: what is wrong with the request, or the platform's response."""
    remediation: str | None = None
    """What to do next, in one sentence."""
    retry_after: int | None = None
    """In results and posts: the seconds to wait, as requested by the platform."""
    doc_url: str
    """The documentation of the code."""
    rule_url: str | None = None
    """The documentation of the rule; present whenever `rule` is."""
    target_index: int | None = None
    """The target; absent if the problem is not of one target."""
    account_id: str | None = None
    """The id of the connected account."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            message=data["message"],
            rule=data.get("rule"),
            platform=data.get("platform"),
            platform_version=data.get("platformVersion"),
            platform_response=data.get("platformResponse"),
            remediation=data.get("remediation"),
            retry_after=data.get("retryAfter"),
            doc_url=data["docUrl"],
            rule_url=data.get("ruleUrl"),
            target_index=data.get("targetIndex"),
            account_id=data.get("accountId"),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(_Answer):
    """Webhook endpoint."""

    id: str
    """The id of this item."""
    url: str
    """The address that events are sent to."""
    events: tuple[str, ...]
    """Empty: all types."""
    description: str | None
    """A note for people; null where there is none."""
    active: bool
    """False: nothing is sent. An endpoint is disabled after every delivery has failed for 5 days, or at once after a
    410 response (event `webhook.disabled`).
    """
    profile_id: str | None
    """The profile whose events are sent; null: the whole organization's."""
    accounts: tuple[str, ...] | None
    """The accounts that the API key which created it is limited to: their events are sent, and those of no account.
    Null: the events of every account.
    """
    last_delivery_at: datetime | None
    """The time of the last successful delivery."""
    last_failure_reason: str | None
    """Why the latest attempt failed; null after a successful delivery."""
    previous_secret_until: datetime | None
    """When the previous secret stops signing; null if there is none."""
    previous_secret_deliveries: int
    """Deliveries since the rotation that the receiver refused with the new secret and accepted with the previous
    one. While it grows, the receiver does not know the new secret yet.
    """
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            url=data["url"],
            events=tuple(data["events"]),
            description=data["description"],
            active=data["active"],
            profile_id=data["profileId"],
            accounts=None if data["accounts"] is None else tuple(data["accounts"]),
            last_delivery_at=None if data["lastDeliveryAt"] is None else _time(data["lastDeliveryAt"]),
            last_failure_reason=data["lastFailureReason"],
            previous_secret_until=None if data["previousSecretUntil"] is None else _time(data["previousSecretUntil"]),
            previous_secret_deliveries=data["previousSecretDeliveries"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeError(_Part):
    """Error of a request."""

    code: str
    """The stable error code, for use in your code."""
    message: str
    """A description for people. It may change."""
    rule: str | None = None
    """The broken rule, or the path of the first invalid request field."""
    platform: str | None = None
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    platform_version: str | None = None
    """The platform's API version that was called."""
    platform_response: Any = None
    """Details: what is wrong with the request, or the platform's response."""
    remediation: str | None = None
    """What to do next, in one sentence."""
    retry_after: int | None = None
    """In results and posts: the seconds to wait, as requested by the platform."""
    doc_url: str
    """The documentation of the code."""
    rule_url: str | None = None
    """The documentation of the rule; present whenever `rule` is."""
    request_id: str
    """Also in the header `X-Request-Id`. Quote it when you contact the operator."""
    trace_id: str | None = None
    """The trace id of the request's `traceparent`, if it had a valid one."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            message=data["message"],
            rule=data.get("rule"),
            platform=data.get("platform"),
            platform_version=data.get("platformVersion"),
            platform_response=data.get("platformResponse"),
            remediation=data.get("remediation"),
            retry_after=data.get("retryAfter"),
            doc_url=data["docUrl"],
            rule_url=data.get("ruleUrl"),
            request_id=data["requestId"],
            trace_id=data.get("traceId"),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail(_Part):
    """Error of one post or target."""

    code: str
    """The stable error code, for use in your code."""
    message: str
    """A description for people. It may change."""
    rule: str | None = None
    """The broken rule, or the path of the first invalid request field."""
    platform: str | None = None
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    platform_version: str | None = None
    """The platform's API version that was called."""
    platform_response: Any = None
    """Details: what is wrong with the request, or the platform's response."""
    remediation: str | None = None
    """What to do next, in one sentence."""
    retry_after: int | None = None
    """In results and posts: the seconds to wait, as requested by the platform."""
    doc_url: str
    """The documentation of the code."""
    rule_url: str | None = None
    """The documentation of the rule; present whenever `rule` is."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            message=data["message"],
            rule=data.get("rule"),
            platform=data.get("platform"),
            platform_version=data.get("platformVersion"),
            platform_response=data.get("platformResponse"),
            remediation=data.get("remediation"),
            retry_after=data.get("retryAfter"),
            doc_url=data["docUrl"],
            rule_url=data.get("ruleUrl"),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus(_Answer):
    """Liveness: the process responds."""

    status: str
    """Always `ok`: the process runs."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            status=data["status"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstagramBlock(_Part):
    """Fields of Instagram accounts only, as the platform reports them."""

    kind: str | None
    """Which kind this is."""
    account_type: str | None
    """The type of the account on its platform, for example `BUSINESS` or `CREATOR`; null where unknown."""
    granted_scopes: tuple[str, ...] | None
    """The permissions that were granted when the account was connected."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            kind=data["kind"],
            account_type=data["accountType"],
            granted_scopes=None if data["grantedScopes"] is None else tuple(data["grantedScopes"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile(_Answer):
    """Stored file."""

    id: str
    """The id of this item."""
    url: str
    """Public: anyone with this address can read the file."""
    content_type: str
    """The actual type of the bytes."""
    size_bytes: int
    """The size of the file, in bytes."""
    sha256: str
    """The SHA-256 of the file, in hexadecimal."""
    kind: str
    """Whether the file is an image, a video or a document. One of `image`, `video`, `document`."""
    width: int | None
    """In pixels, as displayed; null if unreadable."""
    height: int | None
    """In pixels, as it is shown; null where it could not be read."""
    duration_ms: int | None
    """Videos only."""
    profile_id: str | None
    """Null for a file of every profile."""
    alt_text: str | None
    """What the file shows, for people who cannot see it; null where none was given."""
    created_at: datetime
    """When it was created."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            url=data["url"],
            content_type=data["contentType"],
            size_bytes=data["sizeBytes"],
            sha256=data["sha256"],
            kind=data["kind"],
            width=data["width"],
            height=data["height"],
            duration_ms=data["durationMs"],
            profile_id=data["profileId"],
            alt_text=data["altText"],
            created_at=_time(data["createdAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimit(_Part):
    """Media allowed in one post."""

    images: int
    """The maximum number of images."""
    videos: int
    """The maximum number of videos."""
    documents: int
    """The maximum number of documents; they are published alone."""
    mixed: bool
    """Whether one post may mix images and videos."""
    types: tuple[str, ...]
    """The accepted content types."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            images=data["images"],
            videos=data["videos"],
            documents=data["documents"],
            mixed=data["mixed"],
            types=tuple(data["types"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRef(_Part):
    """Media item of a post: a file by its `mediaId`, or an address."""

    kind: str
    """Whether the item is an image, a video or a document. One of `image`, `video`, `document`."""
    media_id: str | None = None
    """The id of the file."""
    url: str | None = None
    """The address that the file is fetched from when the post is published."""
    alt_text: str | None = None
    """What the file shows, for people who cannot see it; null where none was given."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            kind=data["kind"],
            media_id=data.get("mediaId"),
            url=data.get("url"),
            alt_text=data.get("altText"),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(_Part):
    """Organization or profile of the caller."""

    id: str
    """The id of this item."""
    name: str
    """The name."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            name=data["name"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification(_Part):
    """Message to people on one channel."""

    id: str
    """The id of this item."""
    channel_id: str
    """The id of the notification channel."""
    type: str
    """The type of the first event it covers."""
    count: int
    """The number of events it covers."""
    title: str
    """The title of the notification."""
    text: str
    """The text of the notification."""
    status: str
    """Whether the notification is pending, sent or failed. One of `pending`, `succeeded`, `failed`."""
    attempt_count: int
    """How many attempts have been made so far."""
    next_attempt_at: datetime | None
    """The time of the next attempt; null if there is none."""
    last_status_code: int | None
    """The HTTP status of the last response; null if there was none."""
    last_error: str | None
    """Why the last attempt failed; null where none has failed."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            channel_id=data["channelId"],
            type=data["type"],
            count=data["count"],
            title=data["title"],
            text=data["text"],
            status=data["status"],
            attempt_count=data["attemptCount"],
            next_attempt_at=None if data["nextAttemptAt"] is None else _time(data["nextAttemptAt"]),
            last_status_code=data["lastStatusCode"],
            last_error=data["lastError"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceResult(_Part):
    """Result of a piece of a thread after the first."""

    post_id: str
    """The id of the post: one target of the batch."""
    status: str
    """The state of the post. One of `queued`, `validated`, `publishing`, `published`, `failed`, `rejected`,
    `canceled`.
    """
    uri: str | None = None
    """The piece's address in the platform's own form."""
    error: ErrorDetail | None = None
    """Why this piece failed."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            post_id=data["postId"],
            status=data["status"],
            uri=data.get("uri"),
            error=None if data.get("error") is None else ErrorDetail.parse(data["error"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceValidation(_Part):
    """Preflight result of a piece of a thread after the first."""

    valid: bool
    """Whether publishing would accept this target."""
    text: TextCount
    """The text of the post."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            valid=data["valid"],
            text=TextCount.parse(data["text"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinterestBlock(_Part):
    """Fields of Pinterest accounts only."""

    default_board_id: str | None
    """The board of targets that name none."""
    default_board_name: str | None
    """The name of the default board; null where none is chosen."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            default_board_id=data["defaultBoardId"],
            default_board_name=data["defaultBoardName"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(_Part):
    """Token that publishes what was checked, once."""

    token: str
    """The `plan` of POST /v1/posts."""
    expires_at: datetime
    """When the token expires."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            token=data["token"],
            expires_at=_time(data["expiresAt"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformInfo(_Part):
    """Platform with a summary of its limits; the rules list all of them."""

    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    label: str
    """The display name."""
    state: str
    """`pending`: the platform must approve this server's app first. One of `stable`, `trial`, `pending`."""
    api_version: str
    """The API version of the platform that this server calls."""
    sunset_at: str | None
    """When the platform ends that version, if announced."""
    text: TextLimit
    """The limit of a post's text."""
    media: MediaLimit
    """How many files a post may carry, and of which types."""
    first_comment: bool
    """Whether `firstComment` is posted; otherwise it is ignored, with a warning."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            platform=data["platform"],
            label=data["label"],
            state=data["state"],
            api_version=data["apiVersion"],
            sunset_at=data["sunsetAt"],
            text=TextLimit.parse(data["text"]),
            media=MediaLimit.parse(data["media"]),
            first_comment=data["firstComment"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Post(_Answer):
    """Post: one target of one batch."""

    id: str
    """The id of this item."""
    batch_id: str
    """The id returned by POST /v1/posts."""
    external_id: str | None
    """The caller's own id for the batch."""
    profile_id: str
    """The id of the profile that owns the account."""
    account_id: str
    """The id of the connected account."""
    account: PostAccount
    """The account that the post is for."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    status: str
    """The state of the post. One of `queued`, `validated`, `publishing`, `published`, `failed`, `rejected`,
    `canceled`.
    """
    text: str
    """The text of the post."""
    media_refs: tuple[MediaRef, ...]
    """The media items as sent; a bare id becomes `{kind, mediaId}`, inline bytes become a `mediaId`."""
    scheduled_at: datetime | None
    """When the post will be published; null for an immediate post."""
    next_attempt_at: datetime | None
    """The time of the next attempt, if one is scheduled."""
    published_at: datetime | None
    """When the platform published the post; null where it has not."""
    platform_uri: str | None
    """The post's address in the platform's own form."""
    platform_cid: str | None
    """The hash of the post's content; Bluesky only."""
    url: str | None
    """The post's public web address."""
    error: ErrorDetail | None = None
    """Why the post failed. Still present while a retry is scheduled."""
    warnings: tuple[WarningDetail, ...]
    """Notes about the post that do not reject it."""
    thread_of: str | None
    """The id of the first post of its thread; null for that post, and without a thread."""
    thread_position: int | None
    """Its place in the thread, from 0; null without a thread."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            batch_id=data["batchId"],
            external_id=data["externalId"],
            profile_id=data["profileId"],
            account_id=data["accountId"],
            account=PostAccount.parse(data["account"]),
            platform=data["platform"],
            status=data["status"],
            text=data["text"],
            media_refs=tuple(MediaRef.parse(each) for each in data["mediaRefs"]),
            scheduled_at=None if data["scheduledAt"] is None else _time(data["scheduledAt"]),
            next_attempt_at=None if data["nextAttemptAt"] is None else _time(data["nextAttemptAt"]),
            published_at=None if data["publishedAt"] is None else _time(data["publishedAt"]),
            platform_uri=data["platformUri"],
            platform_cid=data["platformCid"],
            url=data["url"],
            error=None if data.get("error") is None else ErrorDetail.parse(data["error"]),
            warnings=tuple(WarningDetail.parse(each) for each in data["warnings"]),
            thread_of=data["threadOf"],
            thread_position=data["threadPosition"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostAccount(_Part):
    """Account of a post."""

    id: str
    """The id of this item."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    platform_account_id: str
    """The platform's own id of the account."""
    display_name: str | None
    """The name that the platform shows for the account; null where it has none."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            platform=data["platform"],
            platform_account_id=data["platformAccountId"],
            display_name=data["displayName"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostDetail(_Answer):
    """Post with its options, its first comment and all attempts."""

    id: str
    """The id of this item."""
    batch_id: str
    """The id returned by POST /v1/posts."""
    external_id: str | None
    """The caller's own id for the batch."""
    profile_id: str
    """The id of the profile that owns the account."""
    account_id: str
    """The id of the connected account."""
    account: PostAccount
    """The account that the post is for."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    status: str
    """The state of the post. One of `queued`, `validated`, `publishing`, `published`, `failed`, `rejected`,
    `canceled`.
    """
    text: str
    """The text of the post."""
    media_refs: tuple[MediaRef, ...]
    """The media items as sent; a bare id becomes `{kind, mediaId}`, inline bytes become a `mediaId`."""
    scheduled_at: datetime | None
    """When the post will be published; null for an immediate post."""
    next_attempt_at: datetime | None
    """The time of the next attempt, if one is scheduled."""
    published_at: datetime | None
    """When the platform published the post; null where it has not."""
    platform_uri: str | None
    """The post's address in the platform's own form."""
    platform_cid: str | None
    """The hash of the post's content; Bluesky only."""
    url: str | None
    """The post's public web address."""
    error: ErrorDetail | None = None
    """Why the post failed. Still present while a retry is scheduled."""
    warnings: tuple[WarningDetail, ...]
    """Notes about the post that do not reject it."""
    thread_of: str | None
    """The id of the first post of its thread; null for that post, and without a thread."""
    thread_position: int | None
    """Its place in the thread, from 0; null without a thread."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""
    options: Json
    """The target's `options`, with the account's defaults at the time of acceptance."""
    first_comment: PostedComment | None
    """The reply that is posted under the post; null where there is none."""
    attempts: tuple[Attempt, ...]
    """Every attempt, oldest first."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            batch_id=data["batchId"],
            external_id=data["externalId"],
            profile_id=data["profileId"],
            account_id=data["accountId"],
            account=PostAccount.parse(data["account"]),
            platform=data["platform"],
            status=data["status"],
            text=data["text"],
            media_refs=tuple(MediaRef.parse(each) for each in data["mediaRefs"]),
            scheduled_at=None if data["scheduledAt"] is None else _time(data["scheduledAt"]),
            next_attempt_at=None if data["nextAttemptAt"] is None else _time(data["nextAttemptAt"]),
            published_at=None if data["publishedAt"] is None else _time(data["publishedAt"]),
            platform_uri=data["platformUri"],
            platform_cid=data["platformCid"],
            url=data["url"],
            error=None if data.get("error") is None else ErrorDetail.parse(data["error"]),
            warnings=tuple(WarningDetail.parse(each) for each in data["warnings"]),
            thread_of=data["threadOf"],
            thread_position=data["threadPosition"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            options=data["options"],
            first_comment=None if data["firstComment"] is None else PostedComment.parse(data["firstComment"]),
            attempts=tuple(Attempt.parse(each) for each in data["attempts"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedComment(_Part):
    """Reply posted below the post."""

    text: str
    """The text of the comment."""
    uri: str | None
    """The URI of the post on its platform."""
    cid: str | None
    """The content id of the record, on platforms that have one."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            text=data["text"],
            uri=data["uri"],
            cid=data["cid"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFailure(_Part):
    """Rule broken by one target."""

    target_index: int
    """The position of the target in the request, counted from 0."""
    thread_position: int | None = None
    """The piece of the target's thread, from 1; absent for the first."""
    account_id: str
    """The id of the connected account."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    rule: str | None
    """The id of the rule, as in `error.rule`."""
    message: str
    """What is wrong, in one sentence."""
    remediation: str | None
    """What to do about it."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            target_index=data["targetIndex"],
            thread_position=data.get("threadPosition"),
            account_id=data["accountId"],
            platform=data["platform"],
            rule=data["rule"],
            message=data["message"],
            remediation=data["remediation"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(_Part):
    """Profile: a part of an organization that owns accounts."""

    id: str
    """The id of this item."""
    name: str
    """The name."""
    slug: str
    """The name in a form for addresses; unique in the organization."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            name=data["name"],
            slug=data["slug"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSlots(_Answer):
    """Slots of a profile."""

    profile_id: str
    """The id of the profile that owns the account."""
    zone: str
    """The IANA name of the time zone of the slots."""
    weekly: tuple[Slot, ...]
    """In the order of the week."""
    next: datetime | None
    """The next free slot; null if there is none within 52 weeks."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            profile_id=data["profileId"],
            zone=data["zone"],
            weekly=tuple(Slot.parse(each) for each in data["weekly"]),
            next=None if data["next"] is None else _time(data["next"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(_Answer):
    """Readiness: the server can work."""

    status: str
    """Always `ok`: the server is ready."""
    publishing: str
    """`paused`: posts are accepted for later, none is published. One of `active`, `paused`."""
    reason: str | None = None
    """Why publishing is paused. One of `clock`, `damaged`, `restored`."""
    canceling: int | None = None
    """Posts of disconnected accounts that are still to be canceled, if any."""
    silent: tuple[str, ...] | None = None
    """Platforms that did not respond to the last calls, if any. Their posts wait until they respond."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            status=data["status"],
            publishing=data["publishing"],
            reason=data.get("reason"),
            canceling=data.get("canceling"),
            silent=None if data.get("silent") is None else tuple(data["silent"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivered(_Answer):
    """Number of deliveries sent again."""

    count: int
    """How many deliveries were scheduled again."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            count=data["count"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(_Part):
    """Result of one target."""

    account_id: str
    """The id of the connected account."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    post_id: str
    """The id of the post: one target of the batch."""
    status: str
    """The state of the post. One of `queued`, `validated`, `publishing`, `published`, `failed`, `rejected`,
    `canceled`.
    """
    uri: str | None = None
    """The post's address in the platform's own form."""
    cid: str | None = None
    """The hash of the post's content; Bluesky only."""
    url: str | None = None
    """The post's public web address."""
    first_comment_uri: str | None = None
    """The URI of the first comment, where one was posted."""
    first_comment_cid: str | None = None
    """The content id of the first comment, on platforms that have one."""
    warnings: tuple[WarningDetail, ...] | None = None
    """Notes about the post that do not reject it."""
    error: ErrorDetail | None = None
    """Why this target failed."""
    thread: tuple[PieceResult, ...] | None = None
    """The pieces of its thread after the first, in order."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            account_id=data["accountId"],
            platform=data["platform"],
            post_id=data["postId"],
            status=data["status"],
            uri=data.get("uri"),
            cid=data.get("cid"),
            url=data.get("url"),
            first_comment_uri=data.get("firstCommentUri"),
            first_comment_cid=data.get("firstCommentCid"),
            warnings=None
            if data.get("warnings") is None
            else tuple(WarningDetail.parse(each) for each in data["warnings"]),
            error=None if data.get("error") is None else ErrorDetail.parse(data["error"]),
            thread=None if data.get("thread") is None else tuple(PieceResult.parse(each) for each in data["thread"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInfo(_Part):
    """Rule, as the code checks it."""

    rule: str
    """The id of the rule, as in `error.rule`."""
    platform: str | None
    """Null: a rule of this service. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    stage: str
    """When the rule applies. `request` and `cheap`: before anything is written; `deep`: once the media are
    available; `upstream`: by the platform; `publish`: while publishing; `connect`: when connecting an account;
    `retired`: never. One of `request`, `cheap`, `deep`, `upstream`, `connect`, `publish`, `retired`.
    """
    severity: str
    """`error` rejects the post; `warning` does not. One of `error`, `warning`."""
    limit: Any
    """The number that the rule checks against; null where it has none."""
    unit: str | None
    """The unit of `limit`; null where it has none."""
    message: str
    """What is wrong, in one sentence."""
    remediation: str
    """What to do about it."""
    source: str
    """Where the limit is documented."""
    rule_url: str
    """The page of this rule on this server."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            rule=data["rule"],
            platform=data["platform"],
            stage=data["stage"],
            severity=data["severity"],
            limit=data["limit"],
            unit=data["unit"],
            message=data["message"],
            remediation=data["remediation"],
            source=data["source"],
            rule_url=data["ruleUrl"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvent(_Part):
    """Sample event of a test. Its `data` is the type's example or the `data` that you sent."""

    id: str
    """Begins with `evt_`. Every delivery of the event has this id: use it to discard duplicates."""
    type: str
    """The type of the event."""
    created_at: datetime
    """When it was created."""
    organization_id: str
    """The id of the organization."""
    data: Json
    """Depends on `type`."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            type=data["type"],
            created_at=_time(data["createdAt"]),
            organization_id=data["organizationId"],
            data=data["data"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTarget(_Part):
    """Target of a channel. Of secrets only the last characters are shown."""

    kind: str
    """Which kind this is. One of `email`, `ntfy`, `slack`, `discord`, `telegram`."""
    address: str | None = None
    """The e-mail address."""
    url: str | None = None
    """The last characters of the chat's incoming webhook."""
    topic: str | None = None
    """The ntfy topic."""
    token: str | None = None
    """The last characters of the access token."""
    bot_token: str | None = None
    """The last characters of the bot's token."""
    chat_id: str | None = None
    """The id of the Telegram chat."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            kind=data["kind"],
            address=data.get("address"),
            url=data.get("url"),
            topic=data.get("topic"),
            token=data.get("token"),
            bot_token=data.get("botToken"),
            chat_id=data.get("chatId"),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedEndpoint(_Answer):
    """Webhook endpoint with its signing secret, shown only once."""

    id: str
    """The id of this item."""
    url: str
    """The address that events are sent to."""
    events: tuple[str, ...]
    """Empty: all types."""
    description: str | None
    """A note for people; null where there is none."""
    active: bool
    """False: nothing is sent. An endpoint is disabled after every delivery has failed for 5 days, or at once after a
    410 response (event `webhook.disabled`).
    """
    profile_id: str | None
    """The profile whose events are sent; null: the whole organization's."""
    accounts: tuple[str, ...] | None
    """The accounts that the API key which created it is limited to: their events are sent, and those of no account.
    Null: the events of every account.
    """
    last_delivery_at: datetime | None
    """The time of the last successful delivery."""
    last_failure_reason: str | None
    """Why the latest attempt failed; null after a successful delivery."""
    previous_secret_until: datetime | None
    """When the previous secret stops signing; null if there is none."""
    previous_secret_deliveries: int
    """Deliveries since the rotation that the receiver refused with the new secret and accepted with the previous
    one. While it grows, the receiver does not know the new secret yet.
    """
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was last changed."""
    signing_secret: str
    """The secret that signs deliveries. It is shown only once: store it now."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            id=data["id"],
            url=data["url"],
            events=tuple(data["events"]),
            description=data["description"],
            active=data["active"],
            profile_id=data["profileId"],
            accounts=None if data["accounts"] is None else tuple(data["accounts"]),
            last_delivery_at=None if data["lastDeliveryAt"] is None else _time(data["lastDeliveryAt"]),
            last_failure_reason=data["lastFailureReason"],
            previous_secret_until=None if data["previousSecretUntil"] is None else _time(data["previousSecretUntil"]),
            previous_secret_deliveries=data["previousSecretDeliveries"],
            created_at=_time(data["createdAt"]),
            updated_at=_time(data["updatedAt"]),
            signing_secret=data["signingSecret"],
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(_Part):
    """Slot of every week."""

    day: str
    """Day of the week. One of `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`."""
    time: str
    """Local time of 24 hours, such as `09:30`. A day on which the clock skips it has no slot; where it occurs twice,
    the slot is the first.
    """

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            day=data["day"],
            time=data["time"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCount(_Part):
    """Length of a text as the platform counts it."""

    length: int
    """The length of the text, in `unit`."""
    limit: int | None
    """Null: not documented by the platform."""
    unit: str
    """What is counted. One of `graphemes`, `weighted`, `utf16`, `characters`."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            length=data["length"],
            limit=data["limit"],
            unit=data["unit"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimit(_Part):
    """Maximum length of a text, in the platform's own unit."""

    limit: int | None
    """Null: not documented by the platform."""
    unit: str
    """What is counted. One of `graphemes`, `weighted`, `utf16`, `characters`."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            limit=data["limit"],
            unit=data["unit"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation(_Answer):
    """Preflight result of a batch; nothing was published."""

    valid: bool
    """Whether every target is valid."""
    results: tuple[ValidationResult, ...]
    """One entry for each target, in the order of the request."""
    plan: Plan | None = None
    """If asked for, and if all is valid."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            valid=data["valid"],
            results=tuple(ValidationResult.parse(each) for each in data["results"]),
            plan=None if data.get("plan") is None else Plan.parse(data["plan"]),
            raw=data,
            etag=etag,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationIssue(_Part):
    """Violation of a request's schema."""

    code: str
    """The kind of violation, such as `missing` or `extra_forbidden`."""
    expected: str
    """What the schema allows there."""
    received: str
    """The JSON type received, or `nothing`."""
    path: tuple[Any, ...]
    """The path in the request: field names and list indexes."""
    message: str
    """What is wrong, in one sentence."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            expected=data["expected"],
            received=data["received"],
            path=tuple(data["path"]),
            message=data["message"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult(_Part):
    """Preflight result of one target."""

    target_index: int
    """The position of the target in the request, counted from 0."""
    account_id: str
    """The id of the connected account."""
    platform: str
    """The platform of the account. One of `bluesky`, `facebook`, `instagram`, `linkedin`, `pinterest`, `threads`,
    `tiktok`, `twitter`.
    """
    valid: bool
    """Whether publishing would accept this target."""
    text: TextCount
    """The length of the text as the platform counts it."""
    errors: tuple[ErrorDetail, ...]
    """Of the target and of every piece of its thread."""
    warnings: tuple[WarningDetail, ...]
    """Notes about the post that do not reject it."""
    thread: tuple[PieceValidation, ...] | None = None
    """The pieces of its thread after the first, in order."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            target_index=data["targetIndex"],
            account_id=data["accountId"],
            platform=data["platform"],
            valid=data["valid"],
            text=TextCount.parse(data["text"]),
            errors=tuple(ErrorDetail.parse(each) for each in data["errors"]),
            warnings=tuple(WarningDetail.parse(each) for each in data["warnings"]),
            thread=None
            if data.get("thread") is None
            else tuple(PieceValidation.parse(each) for each in data["thread"]),
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningDetail(_Part):
    """Warning about a post that was nevertheless accepted or published."""

    code: str
    """The id of the warning."""
    message: str
    """What the warning says, in one sentence."""

    @classmethod
    def parse(cls, data: Json) -> Self:
        """Read the JSON object of an answer."""
        return cls(
            code=data["code"],
            message=data["message"],
            raw=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTestResult(_Answer):
    """Result of a sample event, sent now."""

    delivered: bool
    """Whether the receiver answered with 2xx."""
    status: int | None
    """The status of the response; null without one."""
    duration_ms: int
    """How long the call took, in milliseconds."""
    response_body: str | None
    """The first 2 KiB of the response."""
    delivery_id: str
    """The id of the delivery attempt."""
    non_retryable: bool
    """Whether a real delivery would not be retried."""
    error_name: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `timeout`, `unreachable`, `address` or `answer_lost`; null if delivered."""
    sent_event: SampleEvent
    """The type of the event that was sent."""

    @classmethod
    def parse(cls, data: Json, etag: str = "") -> Self:
        """Read the JSON object of an answer."""
        return cls(
            delivered=data["delivered"],
            status=data["status"],
            duration_ms=data["durationMs"],
            response_body=data["responseBody"],
            delivery_id=data["deliveryId"],
            non_retryable=data["nonRetryable"],
            error_name=data["errorName"],
            sent_event=SampleEvent.parse(data["sentEvent"]),
            raw=data,
            etag=etag,
        )

"""What can go wrong, as tables, and the one exception that says it.

    ApiError               everything a caller may see; its code picks the row, the row picks the status
    ├── built by refuse()  a service rule (`post.status`, `body.json`, …): code and status from SERVICE_RULES
    ├── built by a platform row (`platforms.rules`): `<platform>.<check>`
    └── built by `base.net` and a connector's REPLIES: what an upstream said, with its `outcome`

ERRORS and SERVICE_RULES are the catalogue: the envelope, `/v1/errors`, `/v1/rules`, the docs and the tests read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote


class Outcome(StrEnum):
    """What is known after one upstream call: a closed set (reliability: rules 4 and 6)."""

    OK = "ok"
    NOT_SENT = "not_sent"  # the platform cannot have acted on it
    REJECTED = "rejected"  # the platform said no, and meant it
    THROTTLED = "throttled"  # refused before execution; try later
    AMBIGUOUS = "ambiguous"  # it may have happened; only looking tells


@dataclass(frozen=True)
class ErrorRow:
    """One error code: its HTTP status, what a post row becomes, and what to tell a person."""

    code: str
    status: int
    message: str
    remediation: str
    post_status: str = "rejected"


def _rows(*rows: ErrorRow) -> dict[str, ErrorRow]:
    return {row.code: row for row in rows}


ERRORS: dict[str, ErrorRow] = _rows(
    ErrorRow(
        "validation_failed",
        400,
        "The request does not match the schema, or breaks a rule of the batch.",
        "Correct the field that `rule` names and send the request again.",
    ),
    ErrorRow(
        "preflight_failed",
        400,
        "The content breaks a documented limit of a platform, so nothing was sent to any platform.",
        "Change the content as `platformResponse` says for each target and send the request again.",
    ),
    ErrorRow(
        "platform_auth_failed",
        424,
        "The platform refused the account's authorization.",
        "Reconnect the account.",
    ),
    ErrorRow(
        "platform_rejected",
        422,
        "The platform refused the content.",
        "Read `platformResponse`, change the content and publish it again.",
    ),
    ErrorRow(
        "platform_unavailable",
        503,
        "The platform could not be reached or is overloaded.",
        "Try again later.",
        post_status="failed",
    ),
    ErrorRow(
        "platform_not_enabled",
        403,
        "This platform is not enabled on this server.",
        "Ask the operator of this server to enable the platform.",
    ),
    ErrorRow(
        "internal_error",
        500,
        "Something went wrong on this server.",
        "Try again; if it happens again, give the operator the requestId.",
        post_status="failed",
    ),
    ErrorRow(
        "unauthenticated",
        401,
        "The API key is missing, malformed, revoked or unknown.",
        "Send `Authorization: Bearer <API_KEY>` with a key that is not revoked.",
    ),
    ErrorRow(
        "unauthorized",
        403,
        "The caller is known but may not do this.",
        "Use the dashboard, or a user whose role allows it.",
    ),
    ErrorRow(
        "not_found",
        404,
        "Nothing with this address or id exists in the caller's organization and profile.",
        "Check the id and the key's scope.",
    ),
    ErrorRow(
        "idempotency_conflict",
        409,
        "This Idempotency-Key belongs to another request.",
        "Use a new Idempotency-Key for a new request; repeat the exact same request to get its answer again.",
    ),
    ErrorRow(
        "rate_limited",
        429,
        "Too many requests in the last minute.",
        "Wait as long as `Retry-After` says.",
    ),
    ErrorRow(
        "quota_exceeded",
        402,
        "The monthly post quota is used up.",
        "Wait for the next month or move to a larger tier.",
    ),
)


@dataclass(frozen=True)
class ServiceRule:
    """A rule of the service itself (not of a platform): id, error code, status where it differs, words.

    `stage` is where it is decided: "request" (before anything is written), "deep" (per target, once the bytes are
    known) or "publish" (only ever in a post's own `error`).
    """

    rule: str
    code: str
    message: str
    remediation: str
    status: int | None = None
    stage: str = "request"
    retired: bool = False
    severity: str = "error"


def _service(*rows: ServiceRule) -> dict[str, ServiceRule]:
    return {row.rule: row for row in rows}


_V = "validation_failed"

SERVICE_RULES: dict[str, ServiceRule] = _service(
    # The batch, in the order in which the rules are checked.
    ServiceRule("body.json", _V, "The body is not valid JSON.", "Send one JSON object, encoded as UTF-8."),
    ServiceRule("targets.required", _V, "`targets` is empty.", "Name at least one target."),
    ServiceRule("targets.max", _V, "`targets` has more than 25 entries.", "Split the batch: at most 25 targets each."),
    ServiceRule(
        "mode_conflict",
        _V,
        "`publishNow` and `scheduledAt` exclude each other.",
        "Send `scheduledAt` to schedule, or `publishNow: true` to publish now, not both.",
    ),
    ServiceRule(
        "scheduledAt.future",
        _V,
        "`scheduledAt` is less than 1 second in the future.",
        "Choose a later time, or leave `scheduledAt` out to publish now.",
    ),
    ServiceRule(
        "scheduledAt.no_first_comment",
        _V,
        "A scheduled post cannot carry `firstComment`.",
        "Remove `firstComment`, or publish immediately.",
    ),
    ServiceRule(
        "scheduledAt.no_bluesky_reply",
        _V,
        "A scheduled post cannot be a reply.",
        "Remove the reply options, or publish immediately.",
    ),
    ServiceRule(
        "scheduledAt.text_only",
        _V,
        "Retired: scheduled posts once had to be text only; they now accept text and media.",
        "Nothing to do: this rule is never emitted.",
        retired=True,
    ),
    ServiceRule(
        "profile.scope_mismatch",
        _V,
        "The batch names another profile than the key is bound to.",
        "Leave `profileId` out, or use a key of that profile.",
    ),
    ServiceRule(
        "target.account.not_connected",
        _V,
        "No account of this platform is connected in the scope of this request.",
        "Connect an account of this platform first, or name another profile.",
    ),
    ServiceRule(
        "target.account.ambiguous",
        _V,
        "More than one account of this platform is connected.",
        "Name the account by `accountId`.",
    ),
    ServiceRule(
        "targets.account.platform_mismatch",
        _V,
        "`accountId` and `platform` of a target disagree.",
        "Leave `platform` out, or make it the account's own.",
    ),
    ServiceRule(
        "targets.options.platform_mismatch",
        _V,
        "`options.platform` is not the platform of the target's account.",
        "Make `options.platform` the account's own platform.",
    ),
    # Other requests.
    ServiceRule("cursor", _V, "This cursor was not made by this list.", "Start again without `cursor`."),
    ServiceRule(
        "idempotency_key.length",
        _V,
        "The Idempotency-Key is not 1 to 128 printable ASCII characters long.",
        "Use a short unique key, for example a UUID.",
    ),
    ServiceRule(
        "idempotency_key.body_mismatch",
        "idempotency_conflict",
        "This Idempotency-Key was used for a request with another body.",
        "Use a new key for a new request.",
        status=409,
    ),
    ServiceRule(
        "idempotency_key.in_progress",
        "idempotency_conflict",
        "The first request with this Idempotency-Key is still running.",
        "Wait a few seconds and send the same request again.",
        status=409,
    ),
    ServiceRule(
        "http.method",
        _V,
        "This address does not take this method.",
        "Use one of the methods that `Allow` names.",
        status=405,
    ),
    ServiceRule(
        "http.body_size",
        _V,
        "The body is larger than this address accepts.",
        "Send less; upload media with POST /v1/media.",
        status=413,
    ),
    ServiceRule(
        "http.request",
        _V,
        "The request line or its headers are malformed.",
        "Send a well-formed HTTP/1.1 request.",
    ),
    ServiceRule(
        "http.timeout",
        _V,
        "The request was not complete in time.",
        "Send headers and body without pauses.",
        status=408,
    ),
    ServiceRule(
        "api_key.profile_scope",
        "not_found",
        "The key is bound to another profile.",
        "Leave `profileId` out, or use a key of that profile.",
    ),
    ServiceRule("csrf", "unauthorized", "The CSRF token is missing or wrong.", "Load the page again and repeat."),
    ServiceRule(
        "post.status",
        _V,
        "The post is not in a state that allows this.",
        "Read the post: only a `queued` post can be moved or canceled.",
        status=409,
    ),
    ServiceRule(
        "post.scheduledAt.window",
        _V,
        "The post's time has come; it can no longer be moved or canceled.",
        "Read the post to see what became of it.",
        status=409,
    ),
    ServiceRule(
        "post.retry.status",
        _V,
        "Only a `failed` or `rejected` post can be tried again.",
        "Read the post's status.",
        status=409,
    ),
    ServiceRule(
        "post.retry.unsettled",
        _V,
        "It is not known whether this post is live, so it is not sent again.",
        "Look at the account, then say what you found with POST /v1/posts/{id}/settle.",
        status=409,
    ),
    ServiceRule(
        "post.settle.status",
        _V,
        "Nothing about this post is unknown.",
        "Read the post's status and error.",
        status=409,
    ),
    ServiceRule(
        "account.platform",
        _V,
        "This operation does not exist for the account's platform.",
        "Name an account of the platform that the address names.",
    ),
    ServiceRule(
        "connect.state",
        _V,
        "This connect attempt is unknown, used or expired.",
        "Start connecting again.",
    ),
    ServiceRule(
        "pinterest.board.unknown",
        _V,
        "The account has no board with this id.",
        "List the account's boards and use one of their ids.",
    ),
    ServiceRule("webhook.url.scheme", _V, "A webhook URL must be https.", "Use an https URL."),
    ServiceRule(
        "webhook.url.address",
        _V,
        "The webhook URL points to a private or special address.",
        "Use a public address.",
    ),
    ServiceRule(
        "profile.delete.not_empty",
        _V,
        "The profile still owns accounts.",
        "Disconnect its accounts first.",
        status=409,
    ),
    ServiceRule(
        "profile.slug.unique",
        _V,
        "Another profile of the organization has this slug.",
        "Choose another name.",
        status=409,
    ),
    # Media of every platform.
    ServiceRule(
        "media.source",
        _V,
        "A media item names none or more than one of `mediaId`, `url`, `bytesBase64`.",
        "Give exactly one of `mediaId`, `url`, `bytesBase64`.",
    ),
    ServiceRule(
        "media.base64_invalid",
        _V,
        "`bytesBase64` is empty or not base64.",
        "Encode the file's bytes as standard base64.",
    ),
    ServiceRule(
        "media.unknown",
        "not_found",
        "The scope holds no media with this id.",
        "Upload the file first, or use an id of this profile.",
    ),
    ServiceRule(
        "media.kind_mismatch",
        "preflight_failed",
        "`kind` disagrees with what the bytes are.",
        "Correct `kind`.",
        stage="deep",
    ),
    ServiceRule(
        "media.url.disallowed",
        "preflight_failed",
        "The media URL is not one this server fetches: https, no credentials in it, a public address.",
        "Use a public https URL, or upload the file.",
        stage="deep",
    ),
    ServiceRule(
        "media.type_unsupported",
        _V,
        "The file is none of JPEG, PNG, WebP, GIF, MP4, QuickTime, WebM.",
        "Convert the file first.",
    ),
    ServiceRule(
        "media.type_mismatch",
        _V,
        "The declared content type is another than the bytes'.",
        "Declare the type that the file has, or none.",
    ),
    ServiceRule(
        "media.size_max",
        _V,
        "The file is larger than this server accepts.",
        "Send a smaller file.",
        status=413,
    ),
    ServiceRule(
        "media.pixels_max",
        _V,
        "The image has more than 50,000,000 pixels.",
        "Scale the image down.",
    ),
    ServiceRule(
        "media.unreadable",
        _V,
        "The file begins like its type but cannot be read.",
        "Check the file; it may be cut short.",
    ),
    ServiceRule("media.content_type", _V, "The body is not multipart/form-data.", "Send the file as a part `file`."),
    ServiceRule("media.parse_failed", _V, "The multipart body is broken.", "Let an HTTP library build the body."),
    ServiceRule("media.missing_file", _V, "The multipart body has no part `file`.", "Send the file as a part `file`."),
    ServiceRule("media.empty_body", _V, "The file has 0 bytes.", "Send a file with content."),
    ServiceRule("media.single_file", _V, "The multipart body has more than one file.", "Send one file a request."),
    ServiceRule(
        "media.in_use",
        _V,
        "A queued post needs this media.",
        "Cancel or reschedule the post first.",
        status=409,
    ),
    # Money, storage, publishing.
    ServiceRule(
        "billing.posts.monthly_cap",
        "quota_exceeded",
        "The monthly post quota does not cover this batch.",
        "Wait for the next month or move to a larger tier.",
        status=402,
    ),
    ServiceRule(
        "service.paused",
        "internal_error",
        "Publishing is paused on this server.",
        "Ask the operator to resume it; scheduled posts are accepted meanwhile.",
        status=503,
    ),
    ServiceRule(
        "service.stopping",
        "internal_error",
        "The server is stopping.",
        "Send the request again in a few seconds.",
        status=503,
    ),
    ServiceRule(
        "storage.unavailable",
        "internal_error",
        "Nothing can be written at the moment.",
        "Send the request again later; nothing was changed.",
        status=503,
    ),
    ServiceRule(
        "publish.outcome_unknown",
        "platform_unavailable",
        "The post was sent and its answer was lost. It may be live.",
        "Look at the account on the platform, then say what you found with POST /v1/posts/{id}/settle.",
        stage="publish",
    ),
    ServiceRule(
        "schedule.overdue",
        "internal_error",
        "The server was down when the post was due, for longer than the grace time.",
        "Publish it now with POST /v1/posts/{id}/retry, or leave it.",
        stage="publish",
    ),
    ServiceRule(
        "account.reconnect_required",
        "platform_auth_failed",
        "The account's authorization was revoked or has expired.",
        "Reconnect the account, then try the post again.",
        stage="publish",
    ),
    ServiceRule(
        "account.disconnected",
        "platform_auth_failed",
        "The account was disconnected before the post was published.",
        "Connect the account again, then try the post again.",
        stage="publish",
    ),
)

UPSTREAM_BODY_MAX = 16 * 1024


@dataclass(eq=False)
class ApiError(Exception):
    """Anything that a caller of the API may see; turned into the envelope in one place (`web.app`).

    `status` defaults to the row of `code` (or of a service rule). `outcome`, `stale_token`, `duplicate` and `retryable`
    are for `domain.publish` only: what one upstream call is known to have done, that the access token needs a refresh,
    that the platform says it has the post already, and whether a scheduled post is tried again.
    """

    code: str
    message: str = ""
    rule: str | None = None
    platform: str | None = None
    platform_version: str | None = None
    platform_response: Any = None
    remediation: str | None = None
    status: int = 0
    retry_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome | None = None
    stale_token: bool = False
    duplicate: bool = False
    retryable: bool = True  # False: trying again by itself would not help (credits used up, a retired version)

    def __post_init__(self) -> None:
        row = ERRORS[self.code]
        self.message = self.message or row.message
        self.remediation = row.remediation if self.remediation is None else self.remediation
        self.status = self.status or row.status
        super().__init__(self.message)

    def body(self, base_url: str) -> dict[str, Any]:
        """The error object as results, events and rows carry it: no requestId, absent fields left out."""
        optional = {
            "rule": self.rule,
            "platform": self.platform,
            "platformVersion": self.platform_version,
            "platformResponse": self.platform_response,
            "remediation": self.remediation or None,
        }
        body = {"code": self.code, "message": self.message}
        body |= {name: value for name, value in optional.items() if value is not None}
        body["docUrl"] = doc_url(base_url, self.code)
        if self.rule:
            body["ruleUrl"] = rule_url(base_url, self.rule)
        return body


def refuse(
    rule: str,
    message: str | None = None,
    *,
    remediation: str | None = None,
    platform_response: Any = None,
    retry_after: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ApiError:
    """The error of a service rule, ready to raise; KeyError for an id that has no row."""
    row = SERVICE_RULES[rule]
    return ApiError(
        row.code,
        message or row.message,
        rule=rule,
        remediation=remediation or row.remediation,
        platform_response=platform_response,
        status=row.status or 0,
        retry_after=retry_after,
        headers=headers or {},
    )


def envelope(error: ApiError, base_url: str, request_id: str, trace_id: str | None = None) -> dict[str, Any]:
    """The body of every non-2xx answer: `{"error": {…}}`."""
    body = error.body(base_url) | {"requestId": request_id}
    if trace_id:
        body["traceId"] = trace_id
    return {"error": body}


def doc_url(base_url: str, code: str) -> str:
    return f"{base_url}/docs/errors/{code}"


RULE_PATH_MAX = 200


def rule_url(base_url: str, rule: str) -> str:
    """The page of a rule, or of a request field; of a longer path its beginning, so that the link is never dead."""
    return f"{base_url}/docs/rules/{quote(rule[:RULE_PATH_MAX], safe='.')}"

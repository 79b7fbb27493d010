"""Schemas of errors and warnings."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from socialpub.base.errors import ApiError, doc_url, rule_url
from socialpub.base.key_scopes import KeyScopeName
from socialpub.domain.schemas.common import DateTime, ErrorCode, PlatformName, cast_present, without_none
from socialpub.platforms.contract import PublishWarning

# --- Content of `platformResponse` ---------------------------------------------------------------------------------


class ValidationIssue(TypedDict):
    """Violation of a request's schema."""

    code: str
    """The kind of violation, such as `missing` or `extra_forbidden`."""
    expected: str
    received: str
    """The JSON type received, or `nothing`."""
    path: list[Any]
    """The path in the request: field names and list indexes."""
    message: str


class PreflightFailure(TypedDict):
    """Rule broken by one target."""

    targetIndex: int
    threadPosition: NotRequired[int]
    """The piece of the target's thread, from 1; absent for the first."""
    accountId: str
    platform: PlatformName
    rule: str | None
    message: str
    remediation: str | None


class AccountCandidate(TypedDict):
    """Account that a target without an `accountId` may mean."""

    id: str
    displayName: str | None


class AccountCandidates(TypedDict):
    """Accounts that a target without an `accountId` may mean."""

    candidates: list[AccountCandidate]


class RepeatedText(TypedDict):
    """Target whose account already has its text, from the last 24 hours or the same request."""

    targetIndex: int
    threadPosition: NotRequired[int]
    """The piece of the target's thread, from 1; absent for the first."""
    accountId: str
    platform: PlatformName
    postId: NotRequired[str]
    """The post with the same text."""
    sameAsTarget: NotRequired[int]
    """The index of the earlier target with the same text in this request."""


class TakenExternalId(TypedDict):
    """Batch that has the external id, and its posts."""

    batchId: str
    postIds: list[str]
    """Empty if they were deleted after their retention."""


class QuotaUse(TypedDict):
    """Monthly quota of posts, and the amount the request needs."""

    period: str
    """The month, `YYYY-MM`, in UTC."""
    quota: int | None
    postsCount: int
    cost: int
    """The number of posts in the request."""
    resetAt: DateTime


class UpstreamAnswer(TypedDict):
    """HTTP response of a platform or media address, without secrets and possibly shortened."""

    status: int
    body: NotRequired[Any]
    """Parsed if JSON, otherwise text."""
    url: NotRequired[str]
    """The media address that was fetched."""


class MissingScope(TypedDict):
    """Scope that the operation needs, and those of the API key."""

    needed: KeyScopeName
    """The scope that the operation needs."""
    has: list[KeyScopeName]
    """The scopes of the key, without those that they contain."""


PLATFORM_RESPONSES: dict[str, Any] = {
    "validation_failed": list[ValidationIssue],
    "preflight_failed": list[PreflightFailure],
    "target.account.ambiguous": AccountCandidates,
    "post.duplicate": list[RepeatedText],
    "external_id.taken": TakenExternalId,
    "billing.posts.monthly_cap": QuotaUse,
    "api_key.scope": MissingScope,
}
"""Type of `platformResponse` by rule, otherwise by code; for other errors, the platform's response."""

PlatformResponse = TypeAliasType(
    "PlatformResponse",
    Annotated[
        Any,
        Field(
            description="What is known beyond the code. Its type follows from `rule`, else `code`: a list of "
            "`ValidationIssue` for `validation_failed`, a list of `PreflightFailure` for `preflight_failed` of a "
            "request, a list of `RepeatedText` for `post.duplicate`, `AccountCandidates` for "
            "`target.account.ambiguous`, `TakenExternalId` for `external_id.taken`, `QuotaUse` for "
            "`billing.posts.monthly_cap`, `MissingScope` for `api_key.scope`; for a platform's refusal an "
            "`UpstreamAnswer` or the platform's own JSON. It is of no single type, and for people and logs otherwise."
        ),
    ],
)


# --- Errors --------------------------------------------------------------------------------------------------------


class ErrorBody(TypedDict):
    """Error of one post or target."""

    code: ErrorCode
    """The stable error code, for use in your code."""
    message: str
    """A description for people. It may change."""
    rule: NotRequired[str]
    """The broken rule, or the path of the first invalid request field."""
    platform: NotRequired[PlatformName]
    platformVersion: NotRequired[str]
    """The platform's API version that was called."""
    platformResponse: NotRequired[PlatformResponse]
    """Details: what is wrong with the request, or the platform's response."""
    remediation: NotRequired[str]
    """What to do next, in one sentence."""
    retryAfter: NotRequired[int]
    """In results and posts: the seconds to wait, as requested by the platform."""
    docUrl: str
    """The documentation of the code."""
    ruleUrl: NotRequired[str]
    """The documentation of the rule; present whenever `rule` is."""


class EnvelopeError(ErrorBody):
    """Error of a request."""

    requestId: str
    """Also in the header `X-Request-Id`. Quote it when you contact the operator."""
    traceId: NotRequired[str]
    """The trace id of the request's `traceparent`, if it had a valid one."""


class ErrorEnvelope(TypedDict):
    """Body of every response that is not a success."""

    error: EnvelopeError


class WarningBody(TypedDict):
    """Warning about a post that was nevertheless accepted or published."""

    code: str
    message: str


def build_error_body(error: ApiError, base_url: str) -> ErrorBody:
    """Build the error object of results, events and rows, without absent fields."""
    shown: ErrorBody = {
        "code": error.code,
        "message": error.message,
        "rule": cast_present(error.rule),
        "platform": cast_present(error.platform),
        "platformVersion": cast_present(error.platform_version),
        "platformResponse": cast_present(error.platform_response),
        "remediation": cast_present(error.remediation or None),
        "docUrl": doc_url(base_url, error.code),
        "ruleUrl": cast_present(rule_url(base_url, error.rule) if error.rule else None),
    }
    return without_none(shown, "rule", "platform", "platformVersion", "platformResponse", "remediation", "ruleUrl")


def build_envelope(error: ApiError, base_url: str, request_id: str, trace_id: str | None = None) -> ErrorEnvelope:
    """Build the body of an error response: `{"error": {…}}`."""
    shown: EnvelopeError = {
        **build_error_body(error, base_url),
        "requestId": request_id,
        "traceId": cast_present(trace_id),
    }
    return {"error": without_none(shown, "traceId")}


def build_warning_body(warning: PublishWarning) -> WarningBody:
    return {"code": warning.code, "message": warning.message}

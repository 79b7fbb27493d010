"""How the API says what went wrong, and what is only worth knowing."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from socialpub.base.errors import ApiError, doc_url, rule_url
from socialpub.domain.shapes.common import DateTime, ErrorCode, PlatformName, some, without_none
from socialpub.platforms.contract import Warning

# --- What `platformResponse` holds ---------------------------------------------------------------------------------


class ValidationIssue(TypedDict):
    """One violation of a request's schema."""

    code: str
    """The kind of violation, such as `missing` or `extra_forbidden`."""
    expected: str
    received: str
    """The JSON type that was sent, or `nothing`."""
    path: list[Any]
    """Where in the request: names of fields, and indexes of lists."""
    message: str


class PreflightFailure(TypedDict):
    """One rule that one target breaks."""

    targetIndex: int
    accountId: str
    platform: PlatformName
    rule: str | None
    message: str
    remediation: str | None


class AccountCandidate(TypedDict):
    """An account that a target without an `accountId` may mean."""

    id: str
    displayName: str | None


class AccountCandidates(TypedDict):
    """The accounts that a target without an `accountId` may mean."""

    candidates: list[AccountCandidate]


class RepeatedText(TypedDict):
    """A target whose text its account has already, from the last 24 hours or in the same request."""

    targetIndex: int
    accountId: str
    platform: PlatformName
    postId: NotRequired[str]
    """The post that has the text."""
    sameAsTarget: NotRequired[int]
    """The index of the earlier target that has the text, where it is in the same request."""


class QuotaUse(TypedDict):
    """The month's quota of posts, and what the request would need of it."""

    period: str
    """The month, `YYYY-MM`, in UTC."""
    quota: int | None
    postsCount: int
    cost: int
    """How many posts the request would add."""
    resetAt: DateTime


class UpstreamAnswer(TypedDict):
    """The HTTP response of a platform or of a media address, as far as it is kept: without secrets."""

    status: int
    body: NotRequired[Any]
    """Parsed JSON where it was JSON, else text."""
    url: NotRequired[str]
    """The media address that was fetched."""


PLATFORM_RESPONSES: dict[str, Any] = {
    "validation_failed": list[ValidationIssue],
    "preflight_failed": list[PreflightFailure],
    "target.account.ambiguous": AccountCandidates,
    "post.duplicate": list[RepeatedText],
    "billing.posts.monthly_cap": QuotaUse,
}
"""The type of `platformResponse` by rule, or else by code; of other errors it is what the platform answered."""

PlatformResponse = TypeAliasType(
    "PlatformResponse",
    Annotated[
        Any,
        Field(
            description="What is known beyond the code. Its type follows from `rule`, else `code`: a list of "
            "`ValidationIssue` for `validation_failed`, a list of `PreflightFailure` for `preflight_failed` of a "
            "request, a list of `RepeatedText` for `post.duplicate`, `AccountCandidates` for "
            "`target.account.ambiguous`, `QuotaUse` for `billing.posts.monthly_cap`; for a platform's refusal an "
            "`UpstreamAnswer` or the platform's own JSON. It is of no single type, and for people and logs otherwise."
        ),
    ],
)


# --- Errors --------------------------------------------------------------------------------------------------------


class ErrorBody(TypedDict):
    """What went wrong with one post or target."""

    code: ErrorCode
    """Switch on this."""
    message: str
    """For people; it may change, do not switch on it."""
    rule: NotRequired[str]
    """The rule that was broken, or the path of the first request field that is wrong."""
    platform: NotRequired[PlatformName]
    platformVersion: NotRequired[str]
    """The version of the platform's API that was called."""
    platformResponse: NotRequired[PlatformResponse]
    """Details beyond the code: what is wrong with the request, or what the platform answered."""
    remediation: NotRequired[str]
    """What to do next, in one sentence."""
    retryAfter: NotRequired[int]
    """In results and posts: for how many seconds the platform asks to be left alone, where it says so."""
    docUrl: str
    """The page of the code."""
    ruleUrl: NotRequired[str]
    """The page of the rule; there whenever `rule` is."""


class EnvelopeError(ErrorBody):
    """What went wrong with a request."""

    requestId: str
    """Also in the header `X-Request-Id`; name it when you ask the operator."""
    traceId: NotRequired[str]
    """The trace id of the request's `traceparent`, when it had a valid one."""


class ErrorEnvelope(TypedDict):
    """The body of every answer that is not a success."""

    error: EnvelopeError


class WarningBody(TypedDict):
    """Something to know about a post that was accepted or published all the same."""

    code: str
    message: str


def error_body(error: ApiError, base_url: str) -> ErrorBody:
    """The error object as results, events and rows carry it: absent fields left out."""
    shown: ErrorBody = {
        "code": error.code,
        "message": error.message,
        "rule": some(error.rule),
        "platform": some(error.platform),
        "platformVersion": some(error.platform_version),
        "platformResponse": some(error.platform_response),
        "remediation": some(error.remediation or None),
        "docUrl": doc_url(base_url, error.code),
        "ruleUrl": some(rule_url(base_url, error.rule) if error.rule else None),
    }
    return without_none(shown, "rule", "platform", "platformVersion", "platformResponse", "remediation", "ruleUrl")


def envelope(error: ApiError, base_url: str, request_id: str, trace_id: str | None = None) -> ErrorEnvelope:
    """The body of every answer that is not a success: `{"error": {…}}`."""
    shown: EnvelopeError = {
        **error_body(error, base_url),
        "requestId": request_id,
        "traceId": some(trace_id),
    }
    return {"error": without_none(shown, "traceId")}


def warning_body(warning: Warning) -> WarningBody:
    return {"code": warning.code, "message": warning.message}

"""How the API says what went wrong, and what is only worth knowing."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError, doc_url, rule_url
from socialpub.domain.shapes.common import ErrorCode, PlatformName, some, without_none
from socialpub.platforms.contract import Warning


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
    platformResponse: NotRequired[Any]
    """The platform's raw answer; for a request that does not match its schema, every issue; for preflight, every
    failure of every target."""
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

"""How the API says what went wrong, and what is only worth knowing."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from socialpub.domain.shapes.common import ErrorCode, PlatformName


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

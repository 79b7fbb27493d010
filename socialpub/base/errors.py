"""What can go wrong: the one exception that says it. (How it is shown: `domain.schemas.errors`.)

    ApiError               everything a caller may see; its code picks the row, the row picks the status
    ├── built by refuse()  a service rule (`post.status`, `body.json`, …): code and status from SERVICE_RULES
    ├── built by a platform row (`platforms.rules`): `<platform>.<check>`
    └── built by `base.http` and a connector's REPLIES: what an upstream said, with its `outcome`

Its words stand in `error_codes` and `service_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from socialpub.base.error_codes import ERRORS
from socialpub.base.service_rules import SERVICE_RULES


class Outcome(StrEnum):
    """What is known after one upstream call: a closed set (reliability: rules 4 and 6)."""

    OK = "ok"
    NOT_SENT = "not_sent"  # the platform cannot have acted on it
    REJECTED = "rejected"  # the platform said no, and meant it
    THROTTLED = "throttled"  # refused before execution; try later
    AMBIGUOUS = "ambiguous"  # it may have happened; only looking tells


@dataclass(eq=False)
class ApiError(Exception):
    """Anything that a caller of the API may see; turned into the envelope in one place (`web.app`).

    `status` defaults to the row of `code` (or of a service rule). `outcome`, `stale_token`, `token_refused`,
    `duplicate`, `absent` and `retryable` are for `domain` only: what one upstream call is known to have done, that the
    access token needs a refresh, that the platform takes the token no more (without it a `platform_auth_failed` is a
    refusal of permission), that it says it has the post already, that it says nothing came of what it was given, and
    whether a scheduled post is tried again.
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
    token_refused: bool = False
    used: str = ""  # the digest of the tokens that the call was made with
    app_in_doubt: bool = False  # a refused renewal that may as well be about this server's own credentials
    duplicate: bool = False
    absent: bool = False
    unanswered: bool = False  # no connection came about, or no answer within its time
    held_back: bool = False  # not even tried, because the upstream has not answered of late
    retryable: bool = True  # False: trying again by itself would not help (credits used up, a retired version)

    def __post_init__(self) -> None:
        row = ERRORS[self.code]
        self.message = self.message or row.message
        self.remediation = row.remediation if self.remediation is None else self.remediation
        self.status = self.status or row.status
        super().__init__(self.message)


def is_storage_unavailable(error: BaseException) -> bool:
    """Return whether an error says that the database cannot be used now, which the store has logged."""
    return isinstance(error, ApiError) and error.rule == "storage.unavailable"


def rule_error(
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


def doc_url(base_url: str, code: str) -> str:
    return f"{base_url}/docs/errors/{code}"


RULE_PATH_MAX = 200


def rule_url(base_url: str, rule: str) -> str:
    """The page of a rule, or of a request field; of a longer path its beginning, so that the link is never dead."""
    return f"{base_url}/docs/rules/{quote(rule[:RULE_PATH_MAX], safe='.')}"

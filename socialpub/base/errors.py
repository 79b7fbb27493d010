"""ApiError, the one exception that callers of the API may see, and how it is built.

Service rules are built by `rule_error`, platform rules by `platforms.contract.rules`, upstream failures by `base.http`
and the connectors, with an `outcome`. Texts are in `error_codes` and `service_rules`; `domain.schemas.errors` renders
the envelope.
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
    """The known result of one upstream call: a closed set (reliability: rules 4 and 6)."""

    OK = "ok"
    NOT_SENT = "not_sent"  # the platform cannot have received it
    REJECTED = "rejected"  # the platform refused it
    THROTTLED = "throttled"  # refused before execution; try later
    AMBIGUOUS = "ambiguous"  # it may have been executed; only a look-up can tell


@dataclass(eq=False)
class ApiError(Exception):
    """An error that a caller of the API may see; `web.app` turns it into the envelope.

    `status` defaults to the status of `code` (or of the service rule). The fields from `outcome` on are for `domain`
    only and describe an upstream call. `stale_token`: the access token needs a refresh. `token_refused`: the platform
    no longer accepts the token; without it, `platform_auth_failed` is a missing permission. `duplicate`: the platform
    says that it already has the post. `absent`: it says that nothing was created. `retryable`: a scheduled post is
    tried again. `prepare_again`: what was prepared is of no use to the next attempt.
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
    app_in_doubt: bool = False  # a refused refresh whose cause may be the app's credentials
    duplicate: bool = False
    absent: bool = False
    prepare_again: bool = False
    unanswered: bool = False  # no connection, or no response in time
    held_back: bool = False  # not sent: the circuit breaker is open
    retryable: bool = True  # False: a retry cannot help (credits used up, a retired version)

    def __post_init__(self) -> None:
        row = ERRORS[self.code]
        self.message = self.message or row.message
        self.remediation = row.remediation if self.remediation is None else self.remediation
        self.status = self.status or row.status
        super().__init__(self.message)


def is_storage_unavailable(error: BaseException) -> bool:
    """Return whether an error says that the database is unavailable, which is logged."""
    return isinstance(error, ApiError) and error.rule == "storage.unavailable"


def rule_error(
    rule: str,
    message: str | None = None,
    *,
    remediation: str | None = None,
    platform_response: Any = None,
    retry_after: int | None = None,
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> ApiError:
    """Return the error of a service rule, ready to raise; raise KeyError for an unknown id.

    `status`: the HTTP status, for a rule that has more than one.
    """
    row = SERVICE_RULES[rule]
    return ApiError(
        row.code,
        message or row.message,
        rule=rule,
        remediation=remediation or row.remediation,
        platform_response=platform_response,
        status=status or row.status or 0,
        retry_after=retry_after,
        headers=headers or {},
    )


def doc_url(base_url: str, code: str) -> str:
    return f"{base_url}/docs/errors/{code}"


RULE_PATH_MAX = 200


def rule_url(base_url: str, rule: str) -> str:
    """Return the URL of the page of a rule or request field.

    Long paths are cut to RULE_PATH_MAX characters, so that the link works.
    """
    return f"{base_url}/docs/rules/{quote(rule[:RULE_PATH_MAX], safe='.')}"

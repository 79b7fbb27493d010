"""Rule of the catalog, with input and result of its check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract.content import ConnectorAccount, Draft
from socialpub.platforms.contract.results import PublishWarning


@dataclass(frozen=True)
class RuleContext:
    """Rule context beside the content: this server's address, and the account's recent posts.

    `recent_posts`: our own posts to the account in the 24 hours before this one is due; 0 if no rule needs it.
    """

    base_url: str = ""
    allow_private_networks: bool = False
    recent_posts: int = 0


@dataclass(frozen=True)
class RuleInput:
    """Target as the rules see it."""

    draft: Draft
    account: ConnectorAccount
    site: Any  # the platform's own Site subclass
    around: RuleContext = RuleContext()


@dataclass(frozen=True)
class RuleViolation:
    """Violation of a rule: a sentence on what was found, and the media item (from 0).

    `warning`: instead of an error, give the warning with this code (gray area, unreadable fact).
    """

    found: str = ""
    item: int | None = None
    warning: str = ""
    remediation: str = ""  # replaces the rule's


RuleCheck = Callable[["Rule", RuleInput], Iterable[RuleViolation]]
"""(rule, subject) → violations; none: the rule passes. Pure."""


@dataclass(frozen=True)
class Rule:
    """Row of the rule catalog: a check, or (without `check`) an id decided elsewhere.

    Without a check, an upstream rule is what the platform's refusal may carry, and a deep one (`….reachable`) a failed
    fetch. A deep check judges media bytes only. Preflight, error texts, `/v1/rules`, `/docs/rules/{id}`, counters and
    test parameters all read this row. `message` and `remediation` are sentences, in which `{limit}` is replaced.
    """

    id: str
    stage: Literal["cheap", "deep", "upstream", "connect"]
    message: str
    remediation: str
    source: str  # documentation of the limit
    check: RuleCheck | None = None
    limit: int | float | str | tuple[str, ...] | None = None
    unit: str | None = None
    severity: Literal["error", "warning"] = "error"
    needs_recent_posts: bool = False  # the check needs `RuleContext.recent_posts`
    code: str = ""  # of the error; default: preflight_failed for cheap and deep, otherwise platform_rejected

    def __post_init__(self) -> None:
        default = "preflight_failed" if self.stage in ("cheap", "deep") else "platform_rejected"
        object.__setattr__(self, "code", self.code or default)
        for name in ("message", "remediation"):
            object.__setattr__(self, name, getattr(self, name).replace("{limit}", _format_limit(self.limit)))

    @property
    def platform(self) -> str:
        return self.id.partition(".")[0]

    def error(
        self,
        version: str = "",
        found: str = "",
        *,
        platform_response: Any = None,
        retry_after: int | None = None,
        outcome: Outcome | None = None,
    ) -> ApiError:
        """Build the error of this rule: its message, then the sentence `found`."""
        return ApiError(
            self.code,
            f"{self.message} {found}".strip(),
            rule=self.id,
            platform=self.platform,
            platform_version=version or None,
            platform_response=platform_response,
            remediation=self.remediation,
            retry_after=retry_after,
            outcome=outcome,
        )

    def warning(self, found: str = "") -> PublishWarning:
        """Build the warning of this rule; its code is the rule's id."""
        return PublishWarning(self.id, f"{self.message} {found}".strip())


def _format_limit(limit: int | float | str | tuple[str, ...] | None) -> str:
    if isinstance(limit, tuple):
        return ", ".join(limit)
    return f"{limit:,}" if isinstance(limit, int | float) else limit or ""

"""One row of the catalogue of rules, and what its check sees and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract.content import Account, Draft
from socialpub.platforms.contract.results import Warning


@dataclass(frozen=True)
class Surroundings:
    """What a few rules ask beside the content: where this server stands, and how busy the account was.

    `recent_posts`: posts to the account in the 24 hours before this one is due, by our own log; 0 where no row asks.
    """

    base_url: str = ""
    allow_private_networks: bool = False
    recent_posts: int = 0


@dataclass(frozen=True)
class Subject:
    """One target as the rules see it."""

    draft: Draft
    account: Account
    site: Any  # the platform's own Site subclass
    around: Surroundings = Surroundings()


@dataclass(frozen=True)
class Hit:
    """One place where a draft breaks a rule: what was found, as a sentence, and which media item (0 is the first).

    `warning`: not a breach, the warning with this code is given instead (a grey zone, a fact that could not be read).
    """

    found: str = ""
    item: int | None = None
    warning: str = ""
    remediation: str = ""  # in place of the row's


Check = Callable[["Rule", Subject], Iterable[Hit]]
"""(rule, subject) → the hits; none: the rule passes. Pure."""


@dataclass(frozen=True)
class Rule:
    """One row of the catalogue: a check, or (without `check`) an id that something else decides.

    Without a check: an upstream row is what the platform's own refusal may carry, a deep one (`….reachable`) what the
    fetch of the media found. A check that is deep judges what the bytes of media are, and nothing where there are none.
    Preflight, an error's rule, message and remediation, `/v1/rules`, `/docs/rules/{id}`,
    the counters and the tests' parameters all read the row. `message` and `remediation` are whole sentences;
    `{limit}` in them becomes the row's limit.
    """

    id: str
    stage: Literal["cheap", "deep", "upstream", "connect"]
    message: str
    remediation: str
    source: str  # where the limit is documented
    check: Check | None = None
    limit: int | float | str | tuple[str, ...] | None = None
    unit: str | None = None
    severity: Literal["error", "warning"] = "error"
    asks_log: bool = False  # the check asks how busy the account was (`Surroundings.recent_posts`)
    code: str = ""  # of the error; default: preflight_failed for cheap and deep, platform_rejected for the rest
    checked: str = "2026-11-20"

    def __post_init__(self) -> None:
        default = "preflight_failed" if self.stage in ("cheap", "deep") else "platform_rejected"
        object.__setattr__(self, "code", self.code or default)
        for name in ("message", "remediation"):
            object.__setattr__(self, name, getattr(self, name).replace("{limit}", _shown(self.limit)))

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
        """The error that this row is: its message, then `found` (what was there, as a sentence)."""
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

    def warning(self, found: str = "") -> Warning:
        """The same as a warning: its code is the row's id."""
        return Warning(self.id, f"{self.message} {found}".strip())


def _shown(limit: int | float | str | tuple[str, ...] | None) -> str:
    if isinstance(limit, tuple):
        return ", ".join(limit)
    return f"{limit:,}" if isinstance(limit, int | float) else limit or ""

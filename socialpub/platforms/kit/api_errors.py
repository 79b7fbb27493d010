"""Errors from unsuccessful responses, uniform across platforms and free of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.base.observability import redaction
from socialpub.platforms.contract import NO_BODY, Json, Platform, Replies, Rule, Upstream, Verdict, bounds, build_error


def to_text(value: object) -> str:
    """Convert an id, name or code to text; empty unless text or number."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def to_id(value: object) -> str:
    """Convert an id to text; empty if it is missing or cannot be used (`contract.bounds`)."""
    text = to_text(value)
    return text if bounds.is_id(text) else ""


def to_address(value: object) -> str:
    """Return a URL; empty if it is missing or cannot be used."""
    return value if bounds.is_address(value) else ""


def to_count(value: object) -> int | None:
    """Parse a number or its digits; None if negative or beyond COUNT_MAX."""
    text = to_text(value)
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(bounds.COUNT_MAX)) else None
    return None if count is None or count > bounds.COUNT_MAX else count


def to_record(value: object) -> Json:
    """Return a JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def to_records(value: object) -> list[Json]:
    """Return the objects of a JSON list; none unless it is one."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def find_status(error: ApiError) -> int | None:
    """Return the HTTP status of a platform's refusal."""
    return to_record(error.platform_response).get("status")


def redact_response(up: Upstream, reply: UpstreamResponse, *more: str) -> UpstreamResponse:
    """Redact the secrets of the connection, and `more`, from a response."""
    return reply.with_content(redaction.redact_response(reply.content, (*list_secrets(up), *filter(None, more))))


def list_secrets(up: Upstream) -> tuple[str, ...]:
    """List the secrets to redact from errors."""
    return tuple(filter(None, (up.tokens.access, up.tokens.refresh, up.site.client_secret)))


@dataclass(frozen=True)
class ErrorFactory:
    """Error factory of one platform. `words`: the verb of each step, such as "accept the post"."""

    platform: Platform
    replies: Replies
    words: Mapping[str, str]

    def rule(self, suffix: str) -> Rule:
        """Find the platform's rule with this suffix."""
        wanted = f"{self.platform.name}.{suffix}"
        return next(rule for rule in self.platform.rules if rule.id == wanted)

    def build_violation(
        self, up: Upstream, suffix: str, outcome: Outcome, found: str = "", said: Any = None
    ) -> ApiError:
        """Build the error of a rule violated by something other than an error response."""
        version = self.platform.pinned(up.site)
        return self.rule(suffix).error(version, found[: bounds.MESSAGE_MAX], platform_response=said, outcome=outcome)

    def build_reported(self, up: Upstream, step: str, found: Verdict, reply: UpstreamResponse, said: str) -> ApiError:
        """Build the error of a redacted, classified response, with its text."""
        said = said[:300] or f"it responded with status {reply.status_code}."
        return self.build_classified(up, found, reply, f"{self.platform.label} did not {self.words[step]}: {said}")

    def build_classified(self, up: Upstream, found: Verdict, reply: UpstreamResponse, message: str) -> ApiError:
        """Build the error of a classified response; the text of its rule comes first."""
        if found.rule:
            row = self.rule(found.rule.partition(".")[2])
            found = replace(found, remediation=found.remediation or row.remediation)
            message = f"{row.message} {message}"
        return build_error(self.platform, self.platform.pinned(up.site), found, reply, message)

    def build_unusable(self, up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> ApiError:
        """Build the error of an incomplete 2xx response, by its row in REPLIES (`NO_BODY`).

        Without a row: ambiguous for a mutating call, otherwise not sent. The body is not shown, because it may hold
        tokens.
        """
        found = self.replies.get((step, 200, NO_BODY))
        outcome = found.outcome if found else Outcome.AMBIGUOUS if mutating else Outcome.NOT_SENT
        why = f"its response {reply.unread}" if reply.unread else "its response is unreadable"
        label = self.platform.label
        said = f"{label} was asked to {self.words[step]} and responded with status {reply.status_code}, but {why}."
        return self.build_unavailable(up, said, outcome, {"status": reply.status_code})

    def build_unavailable(self, up: Upstream, message: str, outcome: Outcome, said: Any = None) -> ApiError:
        return ApiError(
            "platform_unavailable",
            message,
            platform=self.platform.name,
            platform_version=self.platform.pinned(up.site) or None,
            platform_response=said,
            outcome=outcome,
        )

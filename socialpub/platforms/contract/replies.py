"""Table that classifies platform responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract.declaration import Platform


@dataclass(frozen=True)
class Verdict:
    """Meaning of an upstream response. `stale_token`: refresh the token, repeat the step.

    `token_refused`: the token is refused for good and the account must be reconnected; so is a stale token that cannot
    be refreshed. Any other `platform_auth_failed` refuses a permission: this post fails, the account keeps working, and
    its owner is notified. `duplicate`: refused because the platform has the post already, perhaps by an earlier send,
    which is looked up. `prepare_again`: the platform has lost what was prepared.
    """

    outcome: Outcome
    code: str = "platform_rejected"
    rule: str | None = None
    remediation: str | None = None
    stale_token: bool = False
    token_refused: bool = False
    duplicate: bool = False
    prepare_again: bool = False


Replies = Mapping[tuple[str, int, str | None], Verdict]
"""(step, HTTP status, platform's error name or None for any) → Verdict; step "*" matches every step. (step, 200,
NO_BODY) matches any 2xx whose body lacks required data or is unreadable."""
NO_BODY = "no body"
UNNAMED = Verdict(Outcome.AMBIGUOUS, "platform_unavailable")
"""The platform accepted the post under an unknown id: `settle` looks it up, nothing is sent again."""
_THROTTLED = Verdict(Outcome.THROTTLED, "platform_unavailable")


def find_name(replies: Replies, step: str, status: int, names: Iterable[str]) -> str | None:
    """Return the first of an error's names that has a row at this step."""
    return next((name for name in names if (step, status, name) in replies or ("*", status, name) in replies), None)


def classify(replies: Replies, step: str, status: int, name: str | None, *, mutating: bool) -> Verdict:
    """Look up the verdict of a response. Unlisted ones are ambiguous for a mutating call.

    A call that changes nothing in public can be repeated, so there it counts as not sent.
    """
    for key in ((step, status, name), (step, status, None), ("*", status, name), ("*", status, None)):
        if key in replies:
            return replies[key]
    if mutating:
        return Verdict(Outcome.AMBIGUOUS, "platform_unavailable")
    if status == 429:
        return _THROTTLED
    if 400 <= status < 500:
        return Verdict(Outcome.REJECTED, "platform_rejected")
    return Verdict(Outcome.NOT_SENT, "platform_unavailable")


def build_error(platform: Platform, version: str, verdict: Verdict, reply: UpstreamResponse, message: str) -> ApiError:
    """Build the ApiError of an unsuccessful response, with it unredacted: the caller redacts."""
    return ApiError(
        verdict.code,
        message,
        rule=verdict.rule,
        platform=platform.name,
        platform_version=version or None,
        platform_response={"status": reply.status_code, "body": reply.shown()},
        remediation=verdict.remediation,
        retry_after=reply.retry_after,
        outcome=verdict.outcome,
        stale_token=verdict.stale_token,
        token_refused=verdict.token_refused or verdict.stale_token,
        duplicate=verdict.duplicate,
        prepare_again=verdict.prepare_again,
    )

"""What a platform's answers mean: the table that sorts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import Reply
from socialpub.platforms.contract.declaration import Platform


@dataclass(frozen=True)
class Verdict:
    """What one upstream answer means. `stale_token`: refresh the access token once and repeat the step.

    `token_refused`: it is the token that is refused, for good, and the account has to be connected again; a stale token
    that cannot be refreshed is one. Every other `platform_auth_failed` refuses a permission: this post is over, the
    account works on, and its owner is told.

    `duplicate`: refused since the platform has the post already, perhaps by an earlier send of it, which is looked for.
    """

    outcome: Outcome
    code: str = "platform_rejected"
    rule: str | None = None
    remediation: str | None = None
    stale_token: bool = False
    token_refused: bool = False
    duplicate: bool = False


Replies = Mapping[tuple[str, int, str | None], Verdict]
"""(step, HTTP status, the platform's own error name or None for any) → Verdict; step "*" is every step.

(step, 200, NO_BODY) is any 2xx whose body lacks what the connector needs of it, or could not be read.
"""
NO_BODY = "no body"
UNNAMED = Verdict(Outcome.AMBIGUOUS, "platform_unavailable")
"""The platform has what it was sent, and its name there is not known: `settle` looks for it, nothing is sent again."""
_THROTTLED = Verdict(Outcome.THROTTLED, "platform_unavailable")


def verdict(replies: Replies, step: str, status: int, name: str | None, *, mutating: bool) -> Verdict:
    """The row for an answer. What is not in the table is ambiguous for a mutating call.

    A call that changes nothing in public may simply be made again, so there it counts as not sent.
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


def refusal(platform: Platform, version: str, found: Verdict, reply: Reply, message: str) -> ApiError:
    """The ApiError of an answer that was not the hoped-for one, with the raw answer (the caller filters secrets)."""
    body = reply.json()
    raw = body if body is not None else reply.content[:2048].decode("utf-8", "replace")
    return ApiError(
        found.code,
        message,
        rule=found.rule,
        platform=platform.name,
        platform_version=version or None,
        platform_response={"status": reply.status, "body": raw},
        remediation=found.remediation,
        retry_after=reply.retry_after,
        outcome=found.outcome,
        stale_token=found.stale_token,
        token_refused=found.token_refused or found.stale_token,
        duplicate=found.duplicate,
    )

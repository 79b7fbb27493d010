"""Errors for posts whose outcome is unknown or proven absent."""

from __future__ import annotations

from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain.publishing import intents
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import Absent, Platform, Unknown
from socialpub.store.rows import AccountRow, IntentRow, PostRow


def end_sentence(text: str) -> str:
    """Add the full stop that a platform's words may lack, before another sentence."""
    return f"{text}." if text[-1:].isalnum() else text


def build_absent_error(platform: Platform) -> ApiError:
    """Build the error of a post proven absent."""
    return ApiError(
        "platform_unavailable",
        f"{platform.label} did not publish the post: a later check did not find it there.",
    )


def build_unknown_error(
    snapshot: RunSnapshot, platform: Platform, intent: IntentRow, found: Absent | Unknown
) -> ApiError:
    """Build the error of a lost or ambiguous response, after lookups found nothing."""
    sent = f"The post was sent to {platform.label} at {format_iso(intent['sent_at'])}"
    answer = intents.find_reply(intent)
    if answer is None:
        message = f"{sent}, but no response came. It may be published."
        return _build_error(snapshot.post, snapshot.account, platform, message, found.evidence)
    reply = end_sentence(answer["message"])
    message = f"{sent}. {reply} This does not tell whether the post was published. It may be published."
    return _build_error(snapshot.post, snapshot.account, platform, message, answer["response"])


def build_duplicate_error(snapshot: RunSnapshot, platform: Platform, error: ApiError) -> ApiError:
    """Build the error of a duplicate that an earlier send may have made."""
    message = f"{end_sentence(error.message)} An earlier attempt may have published it; socialpub could not find out."
    return _build_error(snapshot.post, snapshot.account, platform, message, error.platform_response)


def build_unreported_error(post: PostRow, account: AccountRow, error: ApiError) -> ApiError:
    """Build the error of a post the platform accepted, whose result `error` hides."""
    platform = platforms.platform(post["platform"])
    message = f"{platform.label} received the post but did not report its outcome. {error.message}"
    return _build_error(post, account, platform, message, error.platform_response)


def _build_error(post: PostRow, account: AccountRow, platform: Platform, message: str, evidence: Any) -> ApiError:
    name = account["display_name"] or account["platform_account_id"]
    return rule_error(
        "publish.outcome_unknown",
        message,
        remediation=(
            f"{platform.unknown_outcome_advice or f'Check {name} on {platform.label}.'} If the post is there, send "
            f'{{"published": true}} to POST /v1/posts/{post["id"]}/settle; if it is not, {{"published": false}}, then '
            f"retry it."
        ),
        platform_response=evidence or None,
    )

"""Message texts by event type: plain text, each value on one line and shortened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from socialpub import platforms
from socialpub.base.observability import redaction
from socialpub.base.runtime import format_iso
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.domain.server import instance
from socialpub_client.terminal_text import escape_controls

_LINK = re.compile(r"https?://[^\s<>\"|`\\]{1,500}", re.ASCII)
HOME_PAGE, ACCOUNTS_PAGE, POSTS_PAGE, DRAFTS_PAGE, WEBHOOKS_PAGE = "/", "/accounts", "/posts", "/drafts", "/webhooks"
KEYS_PAGE = "/settings/keys"
NAME_MAX = 80
REASON_MAX = 400


@dataclass(frozen=True)
class Message:
    """Message to people. `links`: closest page first. `urgent`: action is required."""

    title: str
    text: str
    links: tuple[str, ...]
    urgent: bool = False


@dataclass(frozen=True)
class MessageTemplate:
    """Text of one event type; names in braces are event values (`_build_values`)."""

    title: str
    what: str
    todo: str = ""
    urgent: bool = False


@dataclass(frozen=True)
class MessageContext:
    """Event of a message.

    `name`: account name. `count`: number of occurrences. `follows`: notified before. `since`: first occurrence.
    """

    type: str
    data: Mapping[str, Any]
    name: str | None
    count: int
    follows: bool
    since: int


_RECONNECT_ADVICE = "Reconnect this account."
_PAYMENT_ADVICE = "Check the payment method of the subscription."
_ACCOUNT_NAME = "{account} on {platform}"

# Looked up by the error's rule, then its code, then the event type.
TEMPLATES: dict[str, MessageTemplate] = {
    "post.queued": MessageTemplate(
        "A post is scheduled", f"A post to {_ACCOUNT_NAME} is scheduled for {{scheduledAt}}."
    ),
    "post.validated": MessageTemplate("A post was accepted", f"A post to {_ACCOUNT_NAME} passed all checks."),
    "post.published": MessageTemplate("A post was published", f"A post to {_ACCOUNT_NAME} was published."),
    "post.rejected": MessageTemplate(
        "A post to {platform} was rejected",
        f"A post to {_ACCOUNT_NAME} was rejected. It is not retried.",
        "{remediation}",
        urgent=True,
    ),
    "post.failed": MessageTemplate(
        "A post to {platform} failed",
        f"A post to {_ACCOUNT_NAME} failed. It is not retried.",
        "{remediation}",
        urgent=True,
    ),
    "publish.outcome_unknown": MessageTemplate(
        "A post to {platform} has an unknown outcome",
        f"A post to {_ACCOUNT_NAME} was sent, but the response was lost. It is not sent again until you answer.",
        "Check the account on {platform}, then tell socialpub whether the post is there.",
        urgent=True,
    ),
    "platform_auth_failed": MessageTemplate(
        "An account on {platform} needs attention",
        f"Posts to {_ACCOUNT_NAME} are rejected.",
        "{remediation}",
        urgent=True,
    ),
    "post.canceled": MessageTemplate("A post was canceled", f"A post to {_ACCOUNT_NAME} was canceled."),
    "post.rescheduled": MessageTemplate(
        "A post was rescheduled", f"A post to {_ACCOUNT_NAME} is now scheduled for {{scheduledAt}}."
    ),
    "post.edited": MessageTemplate(
        "A scheduled post was changed", f"The content of a post to {_ACCOUNT_NAME} was changed before its time."
    ),
    "draft.proposed": MessageTemplate(
        "A draft awaits approval",
        "{by} proposed the draft {title}.",
        "Approve it, or return it with a note.",
        urgent=True,
    ),
    "draft.approved": MessageTemplate("A draft was approved", "{by} approved the draft {title}.", "Publish it."),
    "draft.returned": MessageTemplate(
        "A draft was returned", "{by} returned the draft {title}. {note}", "Change the draft and propose it again."
    ),
    "token.expiring": MessageTemplate(
        "An account on {platform} needs attention soon",
        f"Access to {_ACCOUNT_NAME} expires at {{expiresAt}}. Posts after that are rejected.",
        _RECONNECT_ADVICE,
        urgent=True,
    ),
    "token.revoked": MessageTemplate(
        "An account on {platform} needs attention",
        f"Access to {_ACCOUNT_NAME} expired. Posts are rejected until you reconnect it.",
        _RECONNECT_ADVICE,
        urgent=True,
    ),
    "version.deprecated": MessageTemplate(
        "{platform} ends a version of its API",
        "{platform} ends version {currentPin} of its API at {sunsetAt}.",
        "Upgrade this server before then.",
    ),
    "key.expiring": MessageTemplate(
        "An API key expires soon",
        "The API key {name} ({prefix}…{last4}) stops working at {expiresAt}.",
        "Create a new key and use it instead.",
        urgent=True,
    ),
    "webhook.disabled": MessageTemplate(
        "A webhook endpoint was turned off",
        "The webhook endpoint {name} gets no more deliveries.",
        "Correct the receiver, send a test event, then turn the endpoint on.",
        urgent=True,
    ),
    "subscription.activated": MessageTemplate(
        "A subscription started", "The organization is in tier {tier} until {periodEnd}."
    ),
    "subscription.cancelled": MessageTemplate("A subscription was cancelled", "Tier {tier} ends at {effectiveAt}."),
    "subscription.tier_changed": MessageTemplate(
        "The tier has changed", "The organization moved from tier {previousTier} to {tier}."
    ),
    "quota.warning": MessageTemplate(
        "Most of this month's posts are used", "{postsCount} of {quota} posts are used. The quota resets at {resetAt}."
    ),
    "quota.exceeded": MessageTemplate(
        "This month's posts are used up",
        "All {quota} posts of the month are used. The quota resets at {resetAt}.",
        "Wait until then, or move to a larger tier.",
        urgent=True,
    ),
    "billing.payment_failed": MessageTemplate(
        "A payment failed", "A payment for tier {tier} failed.", _PAYMENT_ADVICE, urgent=True
    ),
    "billing.delinquent": MessageTemplate(
        "The subscription is past due",
        "No payment arrived. The organization is now in tier {tier}.",
        _PAYMENT_ADVICE,
        urgent=True,
    ),
    "billing.recovered": MessageTemplate("A failed payment was recovered", "The organization is in tier {tier}."),
    PAUSED_TYPE: MessageTemplate(
        "Publishing is paused",
        "This server publishes nothing at the moment. {reason}",
        "When you have checked this, the operator runs: {command}",
        urgent=True,
    ),
}

_PAUSE_REASONS = {
    "clock": "Its clock cannot be trusted: it jumped, or the server was down for long.",
    "damaged": "Its database file is damaged or could not be checked.",
    "restored": "Its database was restored or copied, so it may not know which posts were published since. "
    "If this server is only a copy, you need not do anything.",
}

SAMPLE_TEMPLATE = MessageTemplate(
    "Test message", "This is a test. You will get messages about your organization's posts and accounts here."
)


def compose(context: MessageContext, base_url: str) -> Message:
    """Compose the message of an event."""
    words, values = _find_template(context), _build_values(context)
    title = words.title.format_map(values)
    lines = [words.what.format_map(values).strip()]
    if context.follows:
        title = f"{title} ({context.count} more)"
        times = "once more" if context.count == 1 else f"{context.count} more times"
        lines.append(f"This happened {times} since {_format_time(format_iso(context.since))}.")
    lines += [f"{label}: {text}" for label, text in _build_advice(context, words, values) if text]
    return Message(title, "\n".join(lines), _list_links(context, base_url), words.urgent)


def compose_sample(base_url: str, context: MessageContext | None) -> Message:
    """Compose a test message; with an event, that event's message."""
    if context is None:
        return Message(SAMPLE_TEMPLATE.title, SAMPLE_TEMPLATE.what, (f"{base_url}{HOME_PAGE}",))
    shown = compose(context, base_url)
    return replace(shown, title=f"{SAMPLE_TEMPLATE.title}: {shown.title}")


def _find_template(context: MessageContext) -> MessageTemplate:
    error = _get_error(context)
    return next(TEMPLATES[key] for key in (error.get("rule"), error.get("code"), context.type) if key in TEMPLATES)


_TYPES_WITH_REASON = ("token.revoked", "webhook.disabled")


def _build_advice(context: MessageContext, words: MessageTemplate, values: Mapping[str, str]) -> list[tuple[str, str]]:
    error = _get_error(context)
    why = error.get("message") or context.data.get("reason" if context.type in _TYPES_WITH_REASON else "", "")
    return [("Why", _shorten(why, REASON_MAX)), ("What to do", words.todo.format_map(values))]


def _get_error(context: MessageContext) -> Mapping[str, Any]:
    error: Mapping[str, Any] = context.data.get("error", {})
    return error


def _list_links(context: MessageContext, base_url: str) -> tuple[str, ...]:
    """List our page, the public post, and the error's documentation."""
    error = _get_error(context)
    named = (f"{base_url}{_page_path(context)}", context.data.get("url"), error.get("ruleUrl") or error.get("docUrl"))
    return tuple(link for link in named if isinstance(link, str) and _LINK.fullmatch(link))


def _page_path(context: MessageContext) -> str:
    if context.type.startswith("token.") or _get_error(context).get("code") == "platform_auth_failed":
        return ACCOUNTS_PAGE
    if context.type.startswith("post."):
        return POSTS_PAGE if context.follows else f"{POSTS_PAGE}/{context.data['id']}"
    if context.type.startswith("draft."):
        return f"{DRAFTS_PAGE}/{context.data['id']}"
    if context.type.startswith("webhook."):
        return f"{WEBHOOKS_PAGE}/{context.data['endpointId']}"
    if context.type.startswith("key."):
        return KEYS_PAGE
    return HOME_PAGE


# --- Values --------------------------------------------------------------------------------------------------------


def _build_values(context: MessageContext) -> Mapping[str, str]:
    data = context.data
    shown = {name: _format_value(name, value) for name, value in data.items() if not isinstance(value, dict | list)}
    platform = str(data.get("platform", ""))
    known = {
        "platform": platforms.PLATFORMS[platform].label if platform in platforms.PLATFORMS else platform,
        "account": _shorten(context.name or data.get("displayName") or data.get("platformAccountId") or "an account"),
        "name": _shorten(data.get("description") or data.get("name") or data.get("endpointId") or ""),
        "remediation": _shorten(_get_error(context).get("remediation", ""), REASON_MAX),
    }
    if context.type == PAUSED_TYPE:
        reason = str(data.get("reason"))
        known |= {"reason": _PAUSE_REASONS.get(reason, ""), "command": instance.get_resume_command(reason)}
    return shown | known | (_build_draft_values(data) if context.type.startswith("draft.") else {})


_UNNAMED_AUTHORS = {"user": "A former member", "key": "An API key", "link": "The person with the approval link"}


def _build_draft_values(data: Mapping[str, Any]) -> dict[str, str]:
    by, title, note = data["by"], data["title"], data.get("note")
    return {
        "by": _shorten(by["name"] or _UNNAMED_AUTHORS[by["type"]]),
        "title": f"“{_shorten(title)}”" if title else "without a title",
        "note": f"Note: {_shorten(note, REASON_MAX)}" if note else "",
    }


def _format_value(name: str, value: object) -> str:
    if name.endswith("At") or name in ("periodStart", "periodEnd", "since"):
        return _format_time(value) if isinstance(value, str) else "a time that is not known yet"
    return "" if value is None else _shorten(value)


def _format_time(text: str) -> str:
    """Format a date-time for people: `2026-05-04 15:30 UTC`."""
    return f"{text[:10]} {text[11:16]} UTC"


def _shorten(value: object, most: int = NAME_MAX) -> str:
    """Redact a value, put it on one line and shorten it."""
    text = escape_controls(redaction.redact(" ".join(str(value).split())))
    return text if len(text) <= most else text[: most - 1] + "…"

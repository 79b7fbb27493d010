"""Texts of error pages. Programs get the JSON envelope instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from socialpub.base.error_codes import ERRORS


@dataclass(frozen=True)
class ErrorText:
    """The title and text of an error page."""

    title: str
    words: str


RETRY_HINT = "Try again in a moment. No change was made."
ERROR_TEXTS = {
    "not_found": ErrorText("Page not found", "The page was deleted, or the address is wrong."),
    "unauthorized": ErrorText(
        "Your role does not allow this", "Ask an owner of your organization to do it, or to change your role."
    ),
    "unauthenticated": ErrorText("You are signed out", "Sign in and try again. No change was made."),
    "csrf": ErrorText(
        "This page is out of date",
        "You signed in or out elsewhere since this page was loaded, so no change was made. Go back, reload the page "
        "and try again.",
    ),
    "rate_limited": ErrorText("Too many requests", "Wait a minute and try again."),
    "internal_error": ErrorText(
        "Something went wrong on this server",
        "The error is in the server's log. Try again. If it happens again, give the operator of this server the "
        "request ID below.",
    ),
    "storage.unavailable": ErrorText("The server cannot save changes now", RETRY_HINT),
    "service.stopping": ErrorText("The server is restarting", RETRY_HINT),
    "http.method": ErrorText("This address has no page", "It only accepts forms."),
    "http.request": ErrorText("The server did not understand this request", "Go back, reload the page and try again."),
    "http.content_encoding": ErrorText("The server cannot read this request", "Send the form without compression."),
    "http.body_size": ErrorText("This form is too large", "Shorten the text and send it again."),
}
ACTION_TEXTS = {
    "post.status": "Nothing was changed: the post is not scheduled any more.",
    "post.retry.status": "Nothing was changed: the post has not failed, or is retried already.",
    "post.retry.unsettled": "Its outcome is unknown. Check the account, then say whether it was published.",
    "post.retry.thread": "It follows by itself once the piece of its thread before it is published. Retry that one.",
    "post.settle.status": "Nothing was changed: its outcome is known.",
}
"""Texts for people who pressed a button, by the rule that refused it."""
PROGRAM_REMEDIES = {ERRORS[code].remediation for code in ("validation_failed", "not_found")}
"""Remedies that only help the author of a request."""
HOME_LINK = {"address": "/", "text": "Back to the overview"}


def find(error: Mapping[str, Any]) -> ErrorText:
    """Return the text for the error's rule or code, else the error's own message."""
    known = ERROR_TEXTS.get(error.get("rule", "")) or ERROR_TEXTS.get(error["code"])
    specific = error["code"] == "not_found" and error["message"] != "There is nothing at this address."
    if known is not None and not specific:
        return known
    remedy = to_remedy(error.get("remediation"))
    return ErrorText(error["message"], remedy or (known.words if known else "Go back and change what you entered."))


def to_remedy(remediation: str | None) -> str:
    """Return an error's remediation if it helps people, else ""."""
    return "" if remediation is None or remediation in PROGRAM_REMEDIES else remediation

"""Texts of error pages. Programs get the JSON envelope instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from socialpub.base.error_codes import ERRORS
from socialpub.domain.schemas.posts import MEDIA_MAX, TARGETS_MAX

_INDEX = re.compile(r"\.[0-9]+(?=\.)")


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
RULE_TEXTS = {
    "targets": "Choose at least one account.",
    "targets.required": "Choose at least one account.",
    "targets.max": f"Choose at most {TARGETS_MAX} accounts.",
    "targets.accountId": "An account is missing. Choose the accounts again.",
    "target.account.not_connected": "No account of one of its platforms is connected. Connect one, or choose others.",
    "target.account.ambiguous": "Several accounts of one of its platforms are connected. Choose which.",
    "targets.account.platform_mismatch": "An account is on another platform than planned. Choose the accounts again.",
    "targets.options.platform_mismatch": "The options of an account are for another platform. Choose them again.",
    "mode_conflict": "More than one time to publish is planned. Choose one.",
    "scheduledAt.future": "This time is in the past. Choose a later one, or publish now.",
    "scheduledAt.no_first_comment": "A post with a first comment cannot be scheduled. Publish it now.",
    "scheduledAt.no_bluesky_reply": "A reply cannot be scheduled. Publish it now.",
    "slots.none": "There is no free slot. Choose a time, or define slots in the settings of the profile.",
    "slots.profile": "Slots belong to a profile. Choose accounts of one profile, or a time.",
    "text": "Write a text or add a file.",
    "media": f"A post takes at most {MEDIA_MAX} files.",
    "media.missing_file": "Choose a file first.",
    "external_id.taken": "Another post has its external ID already.",
    "draft.status": "Nothing was changed: the draft was published, or someone else decided on it.",
    "draft.changed": "Nothing was changed: the draft was changed in the meantime. Look at it again.",
    "draft.incomplete": "Nothing was changed: the draft does not say yet what is published where.",
    "post.status": "Nothing was changed: the post is not scheduled any more.",
    "post.retry.status": "Nothing was changed: the post has not failed, or is retried already.",
    "post.retry.unsettled": "Its outcome is unknown. Check the account, then say whether it was published.",
    "post.retry.thread": "It follows by itself once the piece of its thread before it is published. Retry that one.",
    "post.settle.status": "Nothing was changed: its outcome is known.",
}
"""Texts for people, by the rule that refused what they wrote or did; its own text names fields of the API."""
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


def find_words(rule: str | None) -> str:
    """Return the text for a rule, whichever target or piece it is about; "" if it has none."""
    return RULE_TEXTS.get(_INDEX.sub("", rule or ""), "")


def to_remedy(remediation: str | None) -> str:
    """Return an error's remediation if it helps people, else ""."""
    return "" if remediation is None or remediation in PROGRAM_REMEDIES else remediation

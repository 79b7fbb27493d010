"""Errors in words for owners: what has happened, what to do, and a way on. Programs get the envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trouble:
    """What the page of an error says above everything else."""

    title: str
    words: str


AGAIN = "Try again in a moment. No change was made."
TROUBLES = {
    "not_found": Trouble("Page not found", "The page was deleted, or the address is wrong."),
    "unauthorized": Trouble(
        "Your role does not allow this", "Ask an owner of your organization to do it, or to change your role."
    ),
    "unauthenticated": Trouble("You are signed out", "Sign in and try again. No change was made."),
    "csrf": Trouble(
        "This page is out of date",
        "You signed in or out elsewhere since this page was loaded, so no change was made. Go back, reload the page "
        "and try again.",
    ),
    "rate_limited": Trouble("Too many requests", "Wait a minute and try again."),
    "internal_error": Trouble(
        "Something went wrong on this server",
        "The error is in the server's log. Try again. If it happens again, give the operator of this server the "
        "request ID below.",
    ),
    "storage.unavailable": Trouble("The server cannot save changes now", AGAIN),
    "service.stopping": Trouble("The server is restarting", AGAIN),
    "http.method": Trouble("This address has no page", "It only accepts forms."),
    "http.request": Trouble("The server did not understand this request", "Go back, reload the page and try again."),
    "http.content_encoding": Trouble("The server cannot read this request", "Send the form without compression."),
    "http.body_size": Trouble("This form is too large", "Shorten the text and send it again."),
}
HOME = {"address": "/", "text": "Back to the overview"}


def told(error: Mapping[str, Any]) -> Trouble:
    """By its rule, or its code; else in the error's own words, which were written for people."""
    known = TROUBLES.get(error.get("rule", "")) or TROUBLES.get(error["code"])
    specific = error["code"] == "not_found" and error["message"] != "There is nothing at this address."
    if known is not None and not specific:
        return known
    return Trouble(error["message"], error.get("remediation", ""))

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


AGAIN = "Try again in a moment. Nothing was done by halves."
TROUBLES = {
    "not_found": Trouble("There is nothing here", "It was deleted, or the address is not quite right."),
    "unauthorized": Trouble(
        "Your role does not allow this", "Ask an owner of your organization to do it, or to change your role."
    ),
    "unauthenticated": Trouble("You are signed out", "Sign in, and do it once more: it was not done."),
    "csrf": Trouble(
        "This page was open for too long",
        "You have signed in or out elsewhere since it was loaded, so what you sent was not done. Go back, reload the "
        "page, and send it again.",
    ),
    "rate_limited": Trouble("That was too often", "Wait a minute, and try again."),
    "internal_error": Trouble(
        "Something went wrong in this server",
        "It is not your fault, and it is written down in the server's log. Try again; if it stays, tell whoever runs "
        "this server, with the request id below.",
    ),
    "storage.unavailable": Trouble("The server cannot write just now", AGAIN),
    "service.stopping": Trouble("The server is restarting", AGAIN),
    "http.method": Trouble("There is nothing to see here", "This address takes a form, and shows no page."),
    "http.request": Trouble("The server did not understand this", "Go back, reload the page, and try again."),
    "http.content_encoding": Trouble("The server cannot read this", "Turn off what packs the forms that you send."),
    "http.body_size": Trouble("That was too much at once", "Shorten what you have written, and send it again."),
}
HOME = {"address": "/", "text": "To the overview"}


def told(error: Mapping[str, Any]) -> Trouble:
    """By its rule, or its code; else in the error's own words, which were written for people."""
    known = TROUBLES.get(error.get("rule", "")) or TROUBLES.get(error["code"])
    specific = error["code"] == "not_found" and error["message"] != "There is nothing at this address."
    if known is not None and not specific:
        return known
    return Trouble(error["message"], error.get("remediation", ""))

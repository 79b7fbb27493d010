"""Threads profiles through Meta's Threads API."""

from __future__ import annotations

from typing import Literal

from socialpub.platforms.base import CONTAINER, Account, Cap, Counter, Draft, Platform, Site
from socialpub.platforms.options import DigitId, Options
from socialpub.platforms.text import threads_length
from socialpub.platforms.threads_rules import RULES, TEXT_MAX


class ThreadsSite(Site):
    """The hosts of the Threads API."""

    api_base: str = "https://graph.threads.net"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://threads.net/oauth/authorize"
    token_url: str = "https://graph.threads.net/oauth/access_token"


class ThreadsOptions(Options):
    """`replyToId`: the post that this one answers."""

    platform: Literal["threads"] = "threads"
    reply_to_id: DigitId = ""


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(threads_length(draft.text), TEXT_MAX, "characters")


PLATFORM = Platform(
    name="threads",
    label="Threads",
    send_class=CONTAINER,
    options=ThreadsOptions,
    rules=RULES,
    caps=(Cap(250, 86_400),),
    count=_count,
    site=ThreadsSite,
    version="v1.0",
    media={
        "images": 20,
        "videos": 20,
        "mixed": True,
        "types": ("image/jpeg", "image/png", "video/mp4", "video/quicktime"),
    },
)

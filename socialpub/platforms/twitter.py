"""X (formerly Twitter) through API v2."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from socialpub.platforms.base import NO_KEY, Account, Cap, Counter, Draft, Platform, Site
from socialpub.platforms.options import DigitId, Options
from socialpub.platforms.twitter_rules import RULES, text_max
from socialpub.platforms.twitter_text import weighted_length


class TwitterSite(Site):
    """The hosts of X."""

    api_base: str = "https://api.x.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://x.com/i/oauth2/authorize"
    token_url: str = "https://api.x.com/2/oauth2/token"


class TwitterOptions(Options):
    """The post that this one answers, or the one that it quotes."""

    platform: Literal["twitter"] = "twitter"
    reply_to_tweet_id: DigitId = ""
    quote_tweet_id: DigitId = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if {"reply_to_tweet_id", "quote_tweet_id"} <= self.model_fields_set:
            raise ValueError("replyToTweetId and quoteTweetId exclude each other")
        return self


def _count(draft: Draft, account: Account) -> Counter:
    return Counter(weighted_length(draft.text), text_max(account), "weighted")


PLATFORM = Platform(
    name="twitter",
    label="X",
    send_class=NO_KEY,
    options=TwitterOptions,
    rules=RULES,
    caps=(Cap(100, 900), Cap(10_000, 86_400, shared=True)),
    count=_count,
    site=TwitterSite,
    version="v2",
    alt_text=("image",),
    media={
        "images": 4,
        "videos": 1,
        "mixed": False,
        "types": (
            "image/jpeg",
            "image/png",
            "image/webp",
            "image/gif",
            "video/mp4",
            "video/quicktime",
            "video/webm",
        ),
    },
)

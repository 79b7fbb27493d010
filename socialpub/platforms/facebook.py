"""Facebook Pages through Meta's Graph API."""

from __future__ import annotations

from typing import Literal

from socialpub.platforms.base import NO_KEY, Account, Counter, Draft, Platform, Site
from socialpub.platforms.facebook_rules import RULES, TEXT_MAX
from socialpub.platforms.options import AbsoluteUrl, Options
from socialpub.platforms.rules import ignored_option
from socialpub.platforms.text import graphemes


class FacebookSite(Site):
    """The hosts of the Graph API."""

    api_base: str = "https://graph.facebook.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://www.facebook.com/v26.0/dialog/oauth"
    token_url: str = "https://graph.facebook.com/v26.0/oauth/access_token"
    upload_base: str = "https://rupload.facebook.com"
    """Where the bytes of videos go (resumable uploads): a bare origin."""


class FacebookOptions(Options):
    """`link`: the page that the post shows as a card."""

    platform: Literal["facebook"] = "facebook"
    link: AbsoluteUrl = ""


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(graphemes(draft.text), TEXT_MAX, "graphemes")


PLATFORM = Platform(
    name="facebook",
    label="Facebook",
    send_class=NO_KEY,
    options=FacebookOptions,
    rules=RULES,
    count=_count,
    site=FacebookSite,
    version="v26.0",
    alt_text=("image",),
    notices=(ignored_option("link", "a post with media shows the media", lambda draft: bool(draft.items)),),
    media={
        "images": 10,
        "videos": 1,
        "mixed": False,
        "types": (
            "image/jpeg",
            "image/png",
            "image/gif",
            "image/webp",
            "video/mp4",
            "video/quicktime",
            "video/webm",
        ),
    },
)

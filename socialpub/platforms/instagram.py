"""Instagram professional accounts through the Instagram API with Instagram Login."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from socialpub.platforms.base import CONTAINER, Account, Cap, Counter, Draft, Platform, Site
from socialpub.platforms.instagram_rules import RULES, TEXT_MAX
from socialpub.platforms.options import AbsoluteUrl, Options
from socialpub.platforms.rules import ignored_option
from socialpub.platforms.text import graphemes


class InstagramSite(Site):
    """The hosts of the Instagram API, and how many hashtags are advised."""

    api_base: str = "https://graph.instagram.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://www.instagram.com/oauth/authorize"
    token_url: str = "https://api.instagram.com/oauth/access_token"
    hashtags_advised: int = Field(5, ge=0)
    """A caption with more hashtags than this gets a warning."""


class InstagramOptions(Options):
    """Of a single video (a reel): its cover, and whether it shows in the feed too."""

    platform: Literal["instagram"] = "instagram"
    share_to_feed: bool = True
    cover_url: AbsoluteUrl = ""


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(graphemes(draft.text), TEXT_MAX, "graphemes")


def _no_reel(draft: Draft) -> bool:
    return [item.kind for item in draft.items] != ["video"]


PLATFORM = Platform(
    name="instagram",
    label="Instagram",
    send_class=CONTAINER,
    options=InstagramOptions,
    rules=RULES,
    caps=(Cap(50, 86_400),),
    count=_count,
    site=InstagramSite,
    version="v26.0",
    alt_text=("image",),
    notices=(
        ignored_option("coverUrl", "only a single video has a cover", _no_reel),
        ignored_option("shareToFeed", "only a single video can stay out of the feed", _no_reel),
    ),
    option_images=("coverUrl",),
    media={"images": 10, "videos": 10, "mixed": True, "types": ("image/jpeg", "video/mp4", "video/quicktime")},
)

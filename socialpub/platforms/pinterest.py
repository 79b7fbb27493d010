"""Pinterest pins through API v5."""

from __future__ import annotations

from typing import Literal

from socialpub.platforms.base import NO_KEY, Account, Cap, Counter, Draft, Notice, Platform, Site
from socialpub.platforms.options import AbsoluteUrl, Options
from socialpub.platforms.pinterest_rules import RULES, TEXT_MAX
from socialpub.platforms.rules import ignored_option
from socialpub.platforms.text import graphemes


class PinterestSite(Site):
    """The hosts of Pinterest; with Trial access `api_base` is https://api-sandbox.pinterest.com."""

    api_base: str = "https://api.pinterest.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://www.pinterest.com/oauth/"
    token_url: str = "https://api.pinterest.com/v5/oauth/token"


class PinterestOptions(Options):
    """The board, where the pin leads, its title, and the cover of a video."""

    platform: Literal["pinterest"] = "pinterest"
    board_id: str = ""
    destination_url: str = ""
    title: str = ""
    cover_image_url: AbsoluteUrl = ""


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(graphemes(draft.text), TEXT_MAX, "graphemes")


def _no_video(draft: Draft) -> bool:
    return all(item.kind != "video" for item in draft.items)


def _later_alt_texts(draft: Draft) -> bool:
    return any(item.alt_text for item in draft.items[1:])


PLATFORM = Platform(
    name="pinterest",
    label="Pinterest",
    send_class=NO_KEY,
    options=PinterestOptions,
    rules=RULES,
    caps=(Cap(1_000, 86_400),),
    count=_count,
    site=PinterestSite,
    version="v5",
    notices=(
        ignored_option("coverImageUrl", "only a video has a cover", _no_video),
        Notice("alt_text_ignored", "A pin has one, that of its first item.", _later_alt_texts),
    ),
    media={
        "images": 5,
        "videos": 1,
        "mixed": False,
        "types": ("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "video/quicktime"),
    },
    unreachable={"image": "pinterest.image_url.reachable", "video": "pinterest.video.reachable"},
)

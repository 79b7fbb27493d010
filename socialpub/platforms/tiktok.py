"""TikTok: drafts uploaded to the creator's inbox (Content Posting API, `video.upload`)."""

from __future__ import annotations

from typing import Literal

from socialpub.platforms.base import CONTAINER, Account, Counter, Draft, Notice, Platform, Site
from socialpub.platforms.options import Options
from socialpub.platforms.rules import ignored_option
from socialpub.platforms.text import utf16_units
from socialpub.platforms.tiktok_rules import RULES, TEXT_MAX

_SETTINGS = (
    "privacy",
    "disableComment",
    "disableDuet",
    "disableStitch",
    "brandContentToggle",
    "brandOrganicToggle",
)


class TiktokSite(Site):
    """The hosts of TikTok; off until its approval is there."""

    enabled: bool = False
    """Set this once TikTok has approved the app; until then nobody can connect."""
    api_base: str = "https://open.tiktokapis.com"
    """Where the API is: a bare origin."""
    authorize_url: str = "https://www.tiktok.com/v2/auth/authorize/"
    token_url: str = "https://open.tiktokapis.com/v2/oauth/token/"
    verified_url_prefixes: tuple[str, ...] = ()
    """The URL prefixes verified with TikTok, from which it fetches photos; empty: not checked."""


class TiktokOptions(Options):
    """Post settings (the inbox cannot carry them), and the title of photos."""

    platform: Literal["tiktok"] = "tiktok"
    privacy: Literal["public_to_everyone", "mutual_follow_friend", "self_only"] = "public_to_everyone"
    disable_comment: bool = False
    disable_duet: bool = False
    disable_stitch: bool = False
    brand_content_toggle: bool = False
    brand_organic_toggle: bool = False
    title: str = ""


def _has_video(draft: Draft) -> bool:
    return any(item.kind == "video" for item in draft.items)


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(utf16_units(draft.text), None if _has_video(draft) else TEXT_MAX, "utf16")


def _has_settings(draft: Draft) -> bool:
    return any(name in draft.options for name in _SETTINGS)


PLATFORM = Platform(
    name="tiktok",
    label="TikTok",
    send_class=CONTAINER,
    options=TiktokOptions,
    rules=RULES,
    count=_count,
    site=TiktokSite,
    state="pending",
    version="v2",
    alt_text=(),
    notices=(
        Notice(
            "tiktok_inbox_options_ignored",
            "The post settings are left to the creator, who chooses them when confirming the draft.",
            _has_settings,
        ),
        Notice(
            "tiktok_inbox_options_ignored",
            "The text of a video stays here; the creator writes it when confirming the draft.",
            lambda draft: _has_video(draft) and draft.text != "",
        ),
        ignored_option("title", "only photos have a title", _has_video),
    ),
    media={
        "images": 35,
        "videos": 1,
        "mixed": False,
        "types": ("image/jpeg", "image/webp", "video/mp4", "video/quicktime", "video/webm"),
    },
    unreachable={"image": "tiktok.photo.reachable", "video": "tiktok.video.reachable"},
)

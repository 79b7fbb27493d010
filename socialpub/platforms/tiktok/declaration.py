"""Declaration of TikTok: settings, options, response table."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    CONTAINER,
    NO_BODY,
    NO_KEY,
    UNNAMED,
    AppCheck,
    ConnectorAccount,
    DeveloperConsole,
    Draft,
    DraftWarning,
    OAuthFlow,
    Platform,
    RefreshPolicy,
    Replies,
    Site,
    TextCounter,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.kit.options import OptionText, PlatformOptions
from socialpub.platforms.kit.rule_catalog import ignored_option
from socialpub.platforms.kit.text import utf16_units
from socialpub.platforms.tiktok.rules import MEDIA, RULES, TEXT_MAX

_SETTINGS = (
    "privacy",
    "disableComment",
    "disableDuet",
    "disableStitch",
    "brandContentToggle",
    "brandOrganicToggle",
)
PROFILE_SCOPE = "user.info.profile"


class TiktokSite(Site):
    """Hosts of TikTok; disabled until TikTok has approved the app."""

    OWN_DOMAIN = "tiktokapis.com"  # of its API; uploads use regional hosts
    DERIVED_PATHS = {"authorize_url": "/v2/auth/authorize/", "token_url": "/v2/oauth/token/"}
    enabled: bool = False
    """Set this once TikTok has approved the app; until then accounts cannot be connected."""
    api_base: str = "https://open.tiktokapis.com"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://www.tiktok.com/v2/auth/authorize/"
    """The page where people authorize this server."""
    token_url: str = "https://open.tiktokapis.com/v2/oauth/token/"
    """The endpoint that issues access tokens."""
    verified_url_prefixes: tuple[str, ...] = ()
    """The URL prefixes verified with TikTok, from which it fetches photos; empty: not checked."""


class TiktokOptions(PlatformOptions):
    """Options of a TikTok target: post settings (not carried by the inbox), title of photos."""

    SOURCE = "developers.tiktok.com/doc/content-posting-api-reference-photo-post"
    platform: Literal["tiktok"] = "tiktok"
    privacy: Literal["public_to_everyone", "mutual_follow_friend", "self_only"] = Field(
        "public_to_everyone", title="Visibility"
    )
    disable_comment: bool = Field(False, title="Disable comments")
    disable_duet: bool = Field(False, title="Disable duets")
    disable_stitch: bool = Field(False, title="Disable stitches")
    brand_content_toggle: bool = Field(False, title="Promotes another brand")
    brand_organic_toggle: bool = Field(False, title="Promotes your own brand")
    title: OptionText = Field("", title="Title", description="The title of a photo post.")


def has_video(draft: Draft) -> bool:
    return any(item.kind == "video" for item in draft.items)


def _count(draft: Draft, _: ConnectorAccount) -> TextCounter:
    return TextCounter(utf16_units(draft.text), None if has_video(draft) else TEXT_MAX, "utf16")


def _has_settings(draft: Draft) -> bool:
    return any(name in draft.options for name in _SETTINGS)


PLATFORM = Platform(
    name="tiktok",
    label="TikTok",
    send_class=CONTAINER,
    options=TiktokOptions,
    frequent_options=("privacy", "title"),
    rules=RULES,
    count=_count,
    site=TiktokSite,
    state="pending",
    version="v2",
    version_probe=VersionProbe("{version}/user/info/?fields=open_id"),
    alt_text=(),
    draft_warnings=(
        DraftWarning(
            "tiktok_inbox_options_ignored",
            "The creator chooses the post settings when confirming the draft.",
            _has_settings,
        ),
        DraftWarning(
            "tiktok_inbox_options_ignored",
            "TikTok does not get the text of a video. The creator writes it when confirming the draft.",
            lambda draft: has_video(draft) and draft.text != "",
        ),
        ignored_option("title", "only photos have a title", has_video),
    ),
    media=MEDIA,
    unreachable={"image": "tiktok.photo.reachable", "video": "tiktok.video.reachable"},
    oauth=OAuthFlow(
        scopes=("user.info.basic", PROFILE_SCOPE, "video.upload"),
        required=("user.info.basic", "video.upload"),
        separator=",",
        client_id_name="client_key",
        app_check=AppCheck(),  # developers.tiktok.com/doc/client-access-token-management
    ),
    # The call that returns a photo draft's id also delivers it; any other draft is found by its id.
    plan_class=lambda plan: NO_KEY if "photos" in plan else CONTAINER,
    unknown_outcome_advice="Check the creator's TikTok inbox.",
    is_delivered=lambda saved: bool(saved["publish"]) and saved["sent"] >= saved["size"],
    console=DeveloperConsole(
        name="TikTok for Developers",
        url="https://developers.tiktok.com/apps/",
        products=(
            "Login Kit",
            "Content Posting API",
        ),
        review=(
            "TikTok reviews the app before others can use it; a sandbox serves up to ten accounts meanwhile. Once it "
            "is approved, set `platforms.tiktok.enabled = true`. For photos, verify the address of this server as a "
            "URL property."
        ),
        id_name="Client key",
        redirect_name="Redirect URI (Login Kit, Web)",
    ),
    connection_lifetime=("Access lasts some hours, its renewal half a year. socialpub renews both in time."),
    # Access lives hours; the refresh token half a year (a year before 2026), and may change with each use.
    refresh_policy=RefreshPolicy(refresh_before=900, keep_alive=7 * 86_400, rotates=True),
)


# --- Answers -------------------------------------------------------------------------------------------------------
# Sources: developers.tiktok.com/doc/content-posting-api-reference-upload-video, -photo-post and -get-video-status.
# TikTok's errors are identified by name, at any HTTP status, so rows of names are listed under 400.

AUTH = "platform_auth_failed"
BUSY = "platform_unavailable"
STEPS = {
    "video": "start an upload for the video",
    "photos": "accept the photos",
    "upload": "accept a part of the video",
    "status": "report the status of the draft",
    "failed": "accept the draft",
    "identify": "identify the account",
}
"""Verb of each step."""

_LATE = "Check the creator's TikTok inbox. If the draft is not there, publish the post again as a new one."
# Token errors say nothing about a draft in progress: it is kept (NOT_SENT), never created again.
_STALE = Verdict(Outcome.NOT_SENT, AUTH, stale_token=True)
_SCOPES = Verdict(
    Outcome.NOT_SENT,
    AUTH,
    remediation="Reconnect the account and grant every requested permission.",
)
_THROTTLED = Verdict(Outcome.THROTTLED, BUSY, "tiktok.rate_limited")
_BLOCKED = Verdict(Outcome.REJECTED, rule="tiktok.account.blocked")
_UNKNOWN_ID = Verdict(Outcome.NOT_SENT, rule="tiktok.publish.failed", remediation=_LATE)
_INIT = Verdict(Outcome.REJECTED, rule="tiktok.upload.init_failed")
_CHUNK = Verdict(Outcome.REJECTED, rule="tiktok.upload.chunk_failed")
_OUT_OF_STEP = Verdict(Outcome.NOT_SENT, BUSY, "tiktok.upload.chunk_failed")
_FAILED = Verdict(Outcome.REJECTED, rule="tiktok.publish.failed")

REPLIES: Replies = {
    # A photo draft can only be found by its id: the creator has to check the inbox.
    ("photos", 200, NO_BODY): UNNAMED,
    ("*", 401, None): _STALE,
    ("*", 400, "access_token_invalid"): _STALE,
    ("*", 400, "scope_not_authorized"): _SCOPES,
    ("*", 400, "scope_permission_missed"): _SCOPES,
    ("*", 429, None): _THROTTLED,
    ("*", 400, "rate_limit_exceeded"): _THROTTLED,
    ("*", 400, "spam_risk"): _BLOCKED,
    ("*", 400, "spam_risk_too_many_pending_share"): Verdict(Outcome.REJECTED, rule="tiktok.inbox.pending_limit"),
    ("*", 400, "reached_active_user_cap"): Verdict(Outcome.REJECTED, BUSY, "tiktok.active_user_cap"),
    ("*", 400, "app_version_check_failed"): Verdict(Outcome.REJECTED, rule="tiktok.app_version.too_old"),
    ("*", 400, "url_ownership_unverified"): Verdict(Outcome.REJECTED, rule="tiktok.photo.url_verified"),
    ("video", 400, "invalid_param"): _INIT,
    ("video", 400, "invalid_params"): _INIT,
    ("photos", 400, "invalid_param"): _INIT,
    ("photos", 400, "invalid_params"): _INIT,
    ("status", 400, "invalid_publish_id"): _UNKNOWN_ID,
    ("status", 400, "token_not_authorized_for_specified_publish_id"): _UNKNOWN_ID,
    ("upload", 400, None): _CHUNK,
    **{("upload", status, None): _OUT_OF_STEP for status in (401, 403, 404, 416)},
    ("failed", 400, "file_format_check_failed"): Verdict(Outcome.REJECTED, rule="tiktok.file_format.invalid"),
    ("failed", 400, "frame_rate_check_failed"): Verdict(Outcome.REJECTED, rule="tiktok.video.frame_rate"),
    ("failed", 400, "video_pull_failed"): Verdict(Outcome.REJECTED, BUSY, "tiktok.video.reachable"),
    ("failed", 400, "photo_pull_failed"): Verdict(Outcome.REJECTED, BUSY, "tiktok.photo.reachable"),
    ("failed", 400, "internal"): Verdict(Outcome.REJECTED, BUSY, "tiktok.publish.failed"),
    ("failed", 400, "auth_removed"): Verdict(Outcome.REJECTED, AUTH, token_refused=True),
    ("failed", 400, "spam_risk"): _BLOCKED,
    ("failed", 400, None): _FAILED,
}

"""Declaration of Pinterest: settings, options, response table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    NO_BODY,
    NO_KEY,
    UNNAMED,
    AppCheck,
    DeveloperConsole,
    Draft,
    DraftWarning,
    OAuthFlow,
    Platform,
    PostingCap,
    RefreshPolicy,
    Replies,
    Site,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.kit.options import AbsoluteUrl, DigitId, OptionText, PlatformOptions
from socialpub.platforms.kit.rule_catalog import count_with, ignored_option
from socialpub.platforms.kit.text import graphemes
from socialpub.platforms.pinterest.rules import MEDIA, RULES, TEXT_MAX

SCOPES = ("user_accounts:read", "boards:read", "boards:write", "pins:read", "pins:write")


class PinterestSite(Site):
    """Hosts of Pinterest; with Trial access `api_base` is https://api-sandbox.pinterest.com."""

    OWN_DOMAIN = "pinterest.com"
    DERIVED_PATHS = {"authorize_url": "/oauth/"}
    api_base: str = "https://api.pinterest.com"
    """The API's origin. It replaces the next two addresses too, unless set."""
    authorize_url: str = "https://www.pinterest.com/oauth/"
    """The page where people authorize this server."""
    token_url: str = "https://api.pinterest.com/v5/oauth/token"
    """The endpoint that issues access tokens."""

    @model_validator(mode="before")
    @classmethod
    def _derive_token_url(cls, values: Any) -> Any:
        """Derive it from the sandbox's `api_base` too, which has own tokens but no consent page."""
        base = values.get("api_base") if isinstance(values, dict) else None
        return {"token_url": f"{base}/v5/oauth/token"} | values if base else values


class PinterestOptions(PlatformOptions):
    """Options of a Pinterest target: where the pin is and leads, its words, a video's cover."""

    SOURCE = "developers.pinterest.com/docs/api/v5/pins-create"
    platform: Literal["pinterest"] = "pinterest"
    board_id: str = Field("", title="Board", description="The id of the board to save the pin to.")
    board_section_id: DigitId = Field("", title="Section", description="The id of a section of the board.")
    destination_url: str = Field("", title="Link", description="The page that a click on the pin opens.")
    title: OptionText = Field("", title="Title")
    alt_text: OptionText = Field("", title="Alt text", description="Without it, the alt text of the first item.")
    cover_image_url: AbsoluteUrl = Field("", title="Video cover", description="The public https URL of an image.")


def _has_no_video(draft: Draft) -> bool:
    return all(item.kind != "video" for item in draft.items)


def _has_later_alt_texts(draft: Draft) -> bool:
    return any(item.alt_text for item in draft.items[1:])


PLATFORM = Platform(
    name="pinterest",
    label="Pinterest",
    send_class=NO_KEY,
    options=PinterestOptions,
    frequent_options=("boardId", "destinationUrl", "title"),
    rules=RULES,
    caps=(PostingCap(1_000, 86_400),),
    count=count_with(graphemes, TEXT_MAX, "graphemes"),
    site=PinterestSite,
    version="v5",
    version_probe=VersionProbe("{version}/user_account"),
    draft_warnings=(
        ignored_option("coverImageUrl", "only a video has a cover", _has_no_video),
        DraftWarning("alt_text_ignored", "A pin has one, that of its first item.", _has_later_alt_texts),
    ),
    media=MEDIA,
    unreachable={"image": "pinterest.image_url.reachable", "video": "pinterest.video.reachable"},
    defaults={"boardId": "defaultBoardId"},
    account_fields=("defaultBoardId", "defaultBoardName"),
    oauth=OAuthFlow(
        scopes=SCOPES,
        required=SCOPES,
        separator=",",
        basic=True,
        # Apps from before 2025-09-25 get a continuously renewable refresh token only on request.
        token_extra={"continuous_refresh": "true"},
        # developers.pinterest.com/docs/getting-started/set-up-authentication-and-authorization: "Client Credentials"
        app_check=AppCheck(form={"grant_type": "client_credentials", "scope": "user_accounts:read"}),
    ),
    console=DeveloperConsole(
        name="Pinterest Developers",
        url="https://developers.pinterest.com/apps/",
        review=(
            "A new app has Trial access: accounts connect, but pins are not public. Pinterest grants Standard access "
            "after a review, for which it wants a video that shows how to connect an account."
        ),
        id_name="App ID",
        secret_name="App secret key",
        redirect_name="Redirect URIs",
    ),
    connection_lifetime=("Access lasts 30 days, its renewal 60 days from its last use. socialpub renews both in time."),
    # Access lives 30 days, the refresh token 60 from its last use, and it works once.
    refresh_policy=RefreshPolicy(refresh_before=7 * 86_400, keep_alive=7 * 86_400, rotates=True),
)


# --- Answers -------------------------------------------------------------------------------------------------------
# Source: github.com/pinterest/api-description v5/openapi.json (examples of errors) and pinterest/api-quickstart.

AUTH = "platform_auth_failed"
STEPS = {
    "pin": "accept the pin",
    "fetched": "accept the pin",
    "several": "accept the pin with several images",
    "several_fetched": "accept the pin with several images",
    "video": "accept the video pin",
    "covered": "accept the video pin",
    "register": "start an upload for the video",
    "upload": "accept the video file",
    "status": "report the status of the video",
    "look": "list the board's pins",
    "boards": "list the boards",
    "identify": "identify the account",
}
"""Verb of each step. The first six are the ways to create a pin."""

PUBLIC = ("pin", "fetched", "several", "several_fetched", "video", "covered")

PHRASES = {
    "trial": ("trial access", "access tier", "standard access", "consumer type"),
    "spam": ("spam",),
    "unreachable": ("unable to reach", "unable to fetch", "could not fetch"),
    "cover": ("cover_image",),
    "source": ("multiple_image", "carousel", "media_source", "source_type"),
    "board": ("board not found",),
}
"""Message parts (lower case) that name errors whose code says too little, for REPLIES."""

_RECONNECT = Verdict(Outcome.REJECTED, AUTH, remediation="Reconnect the account.", stale_token=True)
_PERMISSION = Verdict(
    Outcome.REJECTED,
    AUTH,
    remediation="Reconnect the account and grant every requested permission.",
)
_REJECTED = Verdict(Outcome.REJECTED)


def _rule_verdict(suffix: str, code: str = "platform_rejected") -> Verdict:
    return Verdict(Outcome.REJECTED, code, f"pinterest.{suffix}")


REPLIES: Replies = {
    # The pin is looked up on its board.
    **{(step, 200, NO_BODY): UNNAMED for step in PUBLIC},
    ("*", 400, None): _REJECTED,
    ("*", 401, None): _RECONNECT,
    ("*", 401, "3"): _PERMISSION,
    ("*", 403, None): _REJECTED,
    ("*", 403, "3"): _PERMISSION,
    ("*", 403, "29"): _PERMISSION,
    ("*", 401, "trial"): _rule_verdict("access.trial"),
    ("*", 403, "trial"): _rule_verdict("access.trial"),
    ("*", 404, None): _REJECTED,
    ("*", 409, None): Verdict(Outcome.AMBIGUOUS, "platform_unavailable"),
    ("*", 413, None): _REJECTED,
    ("*", 429, None): Verdict(Outcome.THROTTLED, "platform_unavailable"),
    ("*", 429, "spam"): _rule_verdict("account.spam_blocked"),
    **{(step, 401, "7"): _rule_verdict("board.not_writable") for step in PUBLIC},
    **{(step, 404, name): _rule_verdict("board.unknown") for step in PUBLIC for name in ("40", "board")},
    **{(step, 404, "2031"): _rule_verdict("board_section.unknown") for step in PUBLIC},
    # Pinterest fetches at once; a failed fetch may succeed a little later.
    **{
        (step, 400, "unreachable"): _rule_verdict("image_url.reachable", "platform_unavailable")
        for step in ("fetched", "several_fetched")
    },
    **{(step, 400, "source"): _rule_verdict("media.single_only") for step in ("several", "several_fetched")},
    ("video", 400, "cover"): _rule_verdict("video.cover_required"),
    ("covered", 400, "cover"): _rule_verdict("cover_image_url.reachable"),
    ("covered", 400, "unreachable"): _rule_verdict("cover_image_url.reachable"),
}

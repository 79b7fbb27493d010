"""Declaration of Facebook Pages: settings, options, response table."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    CONTAINER,
    NO_BODY,
    NO_KEY,
    UNNAMED,
    AppCheck,
    ConfiguredSite,
    DeveloperConsole,
    DraftWarning,
    OAuthFlow,
    Platform,
    RefreshPolicy,
    Replies,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.facebook.rules import MEDIA, RULES, TEXT_MAX, is_story, is_undatable
from socialpub.platforms.kit.options import AbsoluteUrl, PlatformOptions
from socialpub.platforms.kit.rule_catalog import count_with, ignored_option
from socialpub.platforms.kit.text import graphemes
from socialpub.platforms.meta.graph import (
    AUTH,
    SERVED_VERSION_HEADER,
    SHARED,
    SUNSETS,
    GraphApi,
    MetaSite,
    next_version,
)


class FacebookSite(MetaSite, ConfiguredSite):
    """Hosts of the Graph API, and properties of the app."""

    DERIVED_PATHS = {
        "authorize_url": "/v26.0/dialog/oauth",
        "token_url": "/v26.0/oauth/access_token",
        "upload_base": "",
    }
    api_base: str = "https://graph.facebook.com"
    """The API's origin. A test server's replaces the next three addresses too, unless set."""
    authorize_url: str = "https://www.facebook.com/v26.0/dialog/oauth"
    """The page where people authorize this server."""
    token_url: str = "https://graph.facebook.com/v26.0/oauth/access_token"
    """The endpoint that issues access tokens."""
    upload_base: str = "https://graph.facebook.com"
    """The origin for video bytes (resumable uploads)."""
    config_id: str = ""
    """The configuration of Facebook Login for Business, requested instead of scopes; empty: scopes."""
    appsecret_proof: bool = True
    """Whether to send `appsecret_proof` (if `client_secret` is set); some apps require it."""


def _check_instant(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("a date-time that exists, such as 2019-05-04T15:30:00Z") from None
    return value


_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$"
BackdatedTime = Annotated[str, Field(pattern=_INSTANT), AfterValidator(_check_instant)]


class FacebookOptions(PlatformOptions):
    """Options of a Facebook target: a card, or a story."""

    SOURCE = "developers.facebook.com/docs/graph-api/reference/page/feed"
    platform: Literal["facebook"] = "facebook"
    link: AbsoluteUrl = Field(
        "", title="Link", description="The web page to show as a card. A post with media has no card."
    )
    backdated_time: BackdatedTime = Field(
        "",
        title="Backdate to",
        description="A time in the past, with a time zone, that the Page shows as the time of the post. Not for videos "
        "and stories.",
    )
    story: bool = Field(False, title="Publish as a story", description="One image or video, without text.")


FINISHED = ("video", "video_story")  # kinds of plans whose public call is the last step of an upload
PLATFORM = Platform(
    name="facebook",
    label="Facebook",
    aliases=("fb",),
    send_class=NO_KEY,
    options=FacebookOptions,
    frequent_options=("link", "story"),
    rules=RULES,
    count=count_with(graphemes, TEXT_MAX, "graphemes"),
    site=FacebookSite,
    version="v26.0",
    sunsets=SUNSETS,
    successor=next_version,
    version_probe=VersionProbe("{version}/me?fields=id", served=SERVED_VERSION_HEADER),
    alt_text=("image",),
    draft_warnings=(
        ignored_option("link", "a post with media shows the media", lambda draft: bool(draft.items)),
        ignored_option("backdatedTime", "a video and a story have the time of their publication", is_undatable),
        DraftWarning("option_ignored", "A story has no text: it is not shown.", lambda d: is_story(d) and bool(d.text)),
    ),
    oauth=OAuthFlow(
        # Without business_management the Pages of a business portfolio are not listed; most Pages need none.
        scopes=("pages_show_list", "pages_read_engagement", "pages_manage_posts", "business_management"),
        required=("pages_show_list", "pages_read_engagement", "pages_manage_posts"),
        separator=",",
        app_check=AppCheck("GET"),  # developers.facebook.com/docs/facebook-login/guides/access-tokens#apptokens
    ),
    # A video has its id before it is published, and is published under it once.
    plan_class=lambda plan: CONTAINER if plan["kind"] in FINISHED else NO_KEY,
    is_delivered=lambda saved: "taken" in saved,
    console=DeveloperConsole(
        name="Meta for Developers",
        url="https://developers.facebook.com/apps/",
        products=(
            "Facebook Login for Business, or Facebook Login",
            "the use case for managing everything on a Page",
        ),
        review=(
            "In development mode, only people with a role in the app can connect, and only they see what it posts: "
            "switch it to Live. Others can connect their Pages once App Review has approved the "
            "permissions."
        ),
        id_name="App ID",
        secret_name="App secret",
        redirect_name="Valid OAuth Redirect URIs",
    ),
    connection_lifetime=(
        "A connected Page stays connected. The login behind it lasts 60 days, and socialpub renews it in time; a "
        "changed password or a lost role on the Page ends it."
    ),
    # A Page's token does not expire; the login behind it, which can issue a new one, ends after 60 days.
    refresh_policy=RefreshPolicy(refresh_before=30 * 86_400, keep_alive=7 * 86_400),
    media=MEDIA,
)


# --- Responses ---------------------------------------------------------------------------------------------------

# Codes and subcodes: graph-api/guides/error-handling, and those seen by publishing tools.
_CONTENT = {
    "media.invalid": ("324", "352", "382", "6000", "2069019", "1363040", "1363127", "1363128", "1363129"),
    "media.image_size_max": ("1366046",),
    "media.already_posted": ("1366051",),
    "media.reachable": ("389",),
    "link.reachable": ("1609005", "2061006"),
    "link.not_allowed": ("1609008",),
    "text.max_graphemes": ("too_long",),
    "content.flagged": ("1346003", "1404102"),
    "account.blocked": ("368", "1390008", "1404006", "1404112"),
}

REPLIES: Replies = {
    **SHARED,
    # A post is looked up in the Page's list, a video by the id it has had since its upload.
    ("send", 200, NO_BODY): UNNAMED,
    **{
        ("*", 400, name): Verdict(Outcome.REJECTED, rule=f"facebook.{suffix}")
        for suffix, names in _CONTENT.items()
        for name in names
    },
    **{
        ("*", 400, name): Verdict(Outcome.REJECTED, AUTH, "facebook.page.authorization_required")
        for name in ("1404078", "4854002")
    },
    ("*", 400, "506"): Verdict(Outcome.REJECTED, rule="facebook.post.duplicate", duplicate=True),
    ("*", 400, "1705"): Verdict(Outcome.REJECTED, AUTH, remediation="Reconnect the account and choose the Page."),
    ("*", 400, "1349125"): Verdict(Outcome.REJECTED),
}

GRAPH = GraphApi(
    PLATFORM,
    REPLIES,
    words={
        "photo": "accept the image",
        "video": "accept the video",
        "send": "publish the post",
        "status": "report the progress of the video",
        "settle": "list the posts",
        "identify": "list the Pages",
        "revoke": "revoke the permission",
    },
    phrases={"no permission to publish the video": "permission", "name parameter too long": "too_long"},
)

"""Declaration of LinkedIn: settings, options, response table."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    NO_BODY,
    NO_KEY,
    UNNAMED,
    AppCheck,
    DeveloperConsole,
    OAuthFlow,
    Platform,
    PostingCap,
    RefreshPolicy,
    Replies,
    ScopedSite,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.kit.options import OptionText, PlatformOptions
from socialpub.platforms.kit.rule_catalog import count_with, ignored_option
from socialpub.platforms.linkedin.rules import MEDIA, RULES, TEXT_MAX, has_document, text_length


class LinkedinSite(ScopedSite):
    """Hosts of LinkedIn."""

    OWN_DOMAIN = "linkedin.com"
    DERIVED_PATHS = {"authorize_url": "/oauth/v2/authorization", "token_url": "/oauth/v2/accessToken"}
    api_base: str = "https://api.linkedin.com"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://www.linkedin.com/oauth/v2/authorization"
    """The page where people authorize this server."""
    token_url: str = "https://www.linkedin.com/oauth/v2/accessToken"
    """The endpoint that issues access tokens."""
    scopes: str = ""
    """Scopes to request, separated by spaces, if the app has other products than the two available to everyone; for
    pages: r_basicprofile w_member_social w_organization_social r_organization_social rw_organization_admin."""


class LinkedinOptions(PlatformOptions):
    """Options of a LinkedIn target: who may see and repost it, and the title of a document.

    A page always posts publicly.
    """

    SOURCE = "learn.microsoft.com/en-us/linkedin/marketing/community-management/shares/posts-api"
    platform: Literal["linkedin"] = "linkedin"
    visibility: Literal["PUBLIC", "CONNECTIONS"] = Field("PUBLIC", title="Visibility")
    document_title: OptionText = Field(
        "",
        title="Document title",
        description="The title of the post's PDF, which LinkedIn shows with it. LinkedIn accepts 300 pages; they are "
        "not counted here.",
    )
    reshare_disabled: bool = Field(False, title="No reposts", description="Do not let others repost it.")


# learn.microsoft.com/en-us/linkedin/marketing/integrations/migrations. No dates are published from 202604 on: a version
# is supported for a year, and has ended in the middle of its month so far.
SUNSETS = {
    "202508": "2026-08-17",
    "202510": "2026-10-15",
    "202511": "2026-11-16",
    "202601": "2027-01-15",
    "202602": "2027-02-15",
    "202603": "2027-03-16",
    **{f"2026{month:02}": f"2027-{month:02}-15" for month in range(4, 10)},
}


def _month_after(version: str) -> str:
    """Return the next monthly version."""
    months = int(version[:4]) * 12 + int(version[4:6])
    return f"{months // 12}{months % 12 + 1:02}"


PLATFORM = Platform(
    name="linkedin",
    label="LinkedIn",
    send_class=NO_KEY,
    plans_offline=True,
    options=LinkedinOptions,
    frequent_options=("visibility", "documentTitle"),
    rules=RULES,
    caps=(PostingCap(150, 86_400),),
    count=count_with(text_length, TEXT_MAX, "characters"),
    site=LinkedinSite,
    version="202609",
    sunsets=SUNSETS,
    successor=_month_after,
    # Without permission to read posts the response is 403; an ended version gives 426 before that.
    version_probe=VersionProbe(
        "rest/posts/urn%3Ali%3Ashare%3A0",
        {"LinkedIn-Version": "{version}", "X-Restli-Protocol-Version": "2.0.0"},
    ),
    alt_text=("image",),
    draft_warnings=(
        ignored_option("documentTitle", "only a document has a title", lambda draft: not has_document(draft)),
    ),
    media=MEDIA,
    oauth=OAuthFlow(
        scopes=("openid", "profile", "w_member_social"),
        required=("w_member_social",),
        # …/shared/authentication/token-introspection: a wrong secret gives 401, but unknown ids and tokens look alike,
        # so it can refuse but not confirm.
        app_check=AppCheck(form={"token": "none"}, path="introspectToken"),
    ),
    console=DeveloperConsole(
        name="LinkedIn Developers",
        url="https://www.linkedin.com/developers/apps",
        products=(
            "Share on LinkedIn",
            "Sign In with LinkedIn using OpenID Connect",
        ),
        review=(
            "Both products are granted at once, and are enough to publish as a member. Publishing as a page needs the "
            "Community Management API, which LinkedIn reviews, in an app that has no other product; its permissions "
            "then go into `platforms.linkedin.scopes`."
        ),
        redirect_name="Authorized redirect URLs for your app",
        secret_name="Primary Client Secret",
    ),
    connection_lifetime=(
        "Access lasts 60 days. Most apps get no way to renew it, so the account has to be connected again by then; "
        "socialpub warns a week ahead. Apps that LinkedIn has vetted are renewed by themselves for a year."
    ),
    # Access lives 60 days; only apps that LinkedIn has vetted get a refresh token, which lives a year.
    refresh_policy=RefreshPolicy(refresh_before=7 * 86_400),
)


# --- Answers -------------------------------------------------------------------------------------------------------
# Sources: learn.microsoft.com/en-us/linkedin/shared/api-guide/concepts/error-handling, …/marketing/versioning and
# …/marketing/community-management/shares/posts-api.

AUTH = "platform_auth_failed"
STEPS = {
    "begin": "start an upload",
    "upload": "accept the file",
    "signed upload": "accept the file",
    "finish": "assemble the video",
    "status": "report the status of the media",
    "send": "accept the post",
    "look": "list the page's posts",
    "identify": "identify the account",
    "pages": "list the pages",
}
"""Verb of each step."""

PHRASES = (
    ("content is a duplicate", "duplicate"),
    ("duplicate_post", "duplicate"),
    ("member permissions must be used", "wrong_author"),
    ("organization permissions must be used", "wrong_author"),
)
"""Message parts (lower case) that name errors whose code says too little, for REPLIES."""

_UNAVAILABLE = "platform_unavailable"
_REJECTED = Verdict(Outcome.REJECTED)
_RECONNECT = Verdict(Outcome.REJECTED, AUTH, remediation="Reconnect the account.", token_refused=True)
_STALE = Verdict(Outcome.REJECTED, AUTH, remediation="Reconnect the account.", stale_token=True)
_PERMISSION = Verdict(
    Outcome.REJECTED,
    AUTH,
    remediation="Have the operator of this server add LinkedIn's product for this kind of account to the app, "
    "then reconnect the account.",
)
_ADDRESS_OVER = Verdict(Outcome.NOT_SENT, _UNAVAILABLE)
_LOST = Verdict(Outcome.NOT_SENT, _UNAVAILABLE, prepare_again=True)
_RETIRED = Verdict(Outcome.REJECTED, _UNAVAILABLE, "linkedin.version.retired")
_ROLE = Verdict(Outcome.REJECTED, rule="linkedin.page.role_missing")

REPLIES: Replies = {
    # The id is in the header `x-restli-id`. Without it a page's posts are searched; a member's cannot be listed.
    ("send", 200, NO_BODY): UNNAMED,
    ("*", 401, None): _STALE,
    **{("*", 401, name): _RECONNECT for name in ("REVOKED_ACCESS_TOKEN", "65601")},
    ("*", 426, None): _RETIRED,
    ("*", 400, "VERSION_MISSING"): _RETIRED,
    ("*", 400, "NONEXISTENT_VERSION"): _RETIRED,
    **{("*", status, "wrong_author"): _PERMISSION for status in (400, 403)},
    # Only LinkedIn's own texts; proxies may send these statuses too.
    **{("*", status, "said"): _REJECTED for status in (400, 404, 422)},
    ("*", 403, "said"): _PERMISSION,
    **{(step, 403, "page"): _ROLE for step in ("begin", "finish", "send")},
    ("*", 413, None): _REJECTED,
    ("*", 415, None): _REJECTED,
    ("*", 429, None): Verdict(Outcome.THROTTLED, _UNAVAILABLE),
    ("send", 409, None): Verdict(Outcome.AMBIGUOUS, _UNAVAILABLE),
    ("*", 409, None): Verdict(Outcome.NOT_SENT, _UNAVAILABLE),
    **{
        ("send", status, "duplicate"): Verdict(Outcome.REJECTED, rule="linkedin.post.duplicate", duplicate=True)
        for status in (409, 422)
    },
    ("send", 400, "too_long"): Verdict(Outcome.REJECTED, rule="linkedin.text.max_graphemes"),
    # The bytes have not arrived, although they were sent; or LinkedIn does not know the upload any more.
    ("send", 400, "MEDIA_ASSET_WAITING_UPLOAD"): _LOST,
    **{(step, 404, None): _LOST for step in ("finish", "status")},
    ("send", 400, "MEDIA_ASSET_PROCESSING_FAILED"): Verdict(Outcome.REJECTED, rule="linkedin.media.processing_failed"),
    # An upload URL is only valid for a while: after any error another one is requested.
    **{("upload", status, None): _ADDRESS_OVER for status in (400, 403, 404, 409, 412)},
    # Without a token, a 401 is about the URL too.
    **{("signed upload", status, None): _ADDRESS_OVER for status in (400, 401, 403, 404, 409, 412)},
}

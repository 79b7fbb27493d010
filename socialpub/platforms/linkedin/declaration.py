"""What LinkedIn is: settings, options, declaration, and what its API's answers mean."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    NO_BODY,
    NO_KEY,
    UNNAMED,
    Account,
    AppCheck,
    Canary,
    Cap,
    Console,
    Counter,
    Draft,
    OAuth,
    Platform,
    Replies,
    ScopedSite,
    Upkeep,
    Verdict,
)
from socialpub.platforms.kit.options import Options
from socialpub.platforms.linkedin.rules import MEDIA, RULES, TEXT_MAX, text_length


class LinkedinSite(ScopedSite):
    """The hosts of LinkedIn."""

    api_base: str = "https://api.linkedin.com"
    """Where the API is: a bare origin. A lab's stands in for the other two, too, where they are not set."""
    authorize_url: str = "https://www.linkedin.com/oauth/v2/authorization"
    """Where people allow this server to act for them."""
    token_url: str = "https://www.linkedin.com/oauth/v2/accessToken"
    """Where codes and refresh tokens become access tokens."""
    scopes: str = ""
    """What is asked for, separated by spaces, where the app has other products than the two that everybody gets: for
    pages r_basicprofile w_member_social w_organization_social r_organization_social rw_organization_admin."""

    @model_validator(mode="before")
    @classmethod
    def _stand_in(cls, values: Any) -> Any:
        base = str(values.get("api_base") or "") if isinstance(values, dict) else ""
        if not base or is_linkedin(base):
            return values
        paths = {"authorize_url": "/oauth/v2/authorization", "token_url": "/oauth/v2/accessToken"}
        return {name: f"{base}{path}" for name, path in paths.items()} | values


def is_linkedin(url: str) -> bool:
    """Whether an address is LinkedIn's own."""
    return f".{urlsplit(url).hostname}".endswith(".linkedin.com")


class LinkedinOptions(Options):
    """Who may see the post; a page always posts for everybody."""

    platform: Literal["linkedin"] = "linkedin"
    visibility: Literal["PUBLIC", "CONNECTIONS"] = Field("PUBLIC", title="Who may see it")


def _count(draft: Draft, _: Account) -> Counter:
    return Counter(text_length(draft.text), TEXT_MAX, "characters")


# learn.microsoft.com/en-us/linkedin/marketing/integrations/migrations. From 202604 on no day is published yet: a
# version is supported for a year, and has ended in the middle of its month so far.
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
    """A version comes out every month."""
    months = int(version[:4]) * 12 + int(version[4:6])
    return f"{months // 12}{months % 12 + 1:02}"


PLATFORM = Platform(
    name="linkedin",
    label="LinkedIn",
    send_class=NO_KEY,
    plans_alone=True,
    options=LinkedinOptions,
    rules=RULES,
    caps=(Cap(150, 86_400),),
    count=_count,
    site=LinkedinSite,
    version="202609",
    sunsets=SUNSETS,
    successor=_month_after,
    # Whoever may not read posts is told so with 403; a version that has ended is a 426 before that.
    canary=Canary(
        "rest/posts/urn%3Ali%3Ashare%3A0",
        {"LinkedIn-Version": "{version}", "X-Restli-Protocol-Version": "2.0.0"},
    ),
    alt_text=("image",),
    media=MEDIA,
    oauth=OAuth(
        scopes=("openid", "profile", "w_member_social"),
        required=("w_member_social",),
        # …/shared/authentication/token-introspection: a wrong secret is a 401, while an id or a token that it does not
        # know are the same to it, so it can say no, and not yes.
        app_check=AppCheck(form={"token": "none"}, path="introspectToken"),
    ),
    console=Console(
        name="LinkedIn Developers",
        url="https://www.linkedin.com/developers/apps",
        products=(
            "Share on LinkedIn",
            "Sign In with LinkedIn using OpenID Connect",
        ),
        review=(
            "Both products are given at once, and are enough to publish as a member. Publishing as a page needs the "
            "Community Management API, which LinkedIn reviews, in an app that has no other product; its permissions "
            "then go into `platforms.linkedin.scopes`."
        ),
        redirect_name="Authorized redirect URLs for your app",
        secret_name="Primary Client Secret",
    ),
    tokens_last=(
        "Access lasts 60 days. Most apps get no way to renew it, so the account has to be connected again by then; "
        "socialpub warns a week ahead. Apps that LinkedIn has vetted are renewed by themselves for a year."
    ),
    # Access lives 60 days; only apps that LinkedIn has vetted get a refresh token, which lives a year.
    upkeep=Upkeep(refresh_before=7 * 86_400),
)


# --- Answers -------------------------------------------------------------------------------------------------------
# Sources: learn.microsoft.com/en-us/linkedin/shared/api-guide/concepts/error-handling, …/marketing/versioning and
# …/marketing/community-management/shares/posts-api.

AUTH = "platform_auth_failed"
STEPS = {
    "begin": "open an upload",
    "upload": "take the bytes of the media",
    "signed upload": "take the bytes of the media",
    "finish": "put the video together",
    "status": "say what became of the media",
    "send": "take the post",
    "look": "list the page's posts",
    "identify": "say whose account this is",
    "pages": "list the pages",
}
"""What each step asks for."""

PHRASES = (
    ("content is a duplicate", "duplicate"),
    ("duplicate_post", "duplicate"),
    ("member permissions must be used", "wrong_author"),
    ("organization permissions must be used", "wrong_author"),
)
"""Pieces of messages (in lower case) by which an error is known whose code says too little, and its name in REPLIES."""

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
_RETIRED = Verdict(Outcome.REJECTED, _UNAVAILABLE, "linkedin.version.retired")
_ROLE = Verdict(Outcome.REJECTED, rule="linkedin.page.role_missing")

REPLIES: Replies = {
    # The id is in the header `x-restli-id`, so no body is needed. Without it a page's posts are looked through; a
    # member's cannot be listed.
    ("send", 200, NO_BODY): UNNAMED,
    ("*", 401, None): _STALE,
    **{("*", 401, name): _RECONNECT for name in ("REVOKED_ACCESS_TOKEN", "65601")},
    ("*", 426, None): _RETIRED,
    ("*", 400, "VERSION_MISSING"): _RETIRED,
    ("*", 400, "NONEXISTENT_VERSION"): _RETIRED,
    **{("*", status, "wrong_author"): _PERMISSION for status in (400, 403)},
    # LinkedIn's own words; what a proxy says under these statuses is not here.
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
    # Preparing again uploads the media anew.
    ("send", 400, "MEDIA_ASSET_WAITING_UPLOAD"): Verdict(Outcome.NOT_SENT, _UNAVAILABLE),
    ("send", 400, "MEDIA_ASSET_PROCESSING_FAILED"): Verdict(Outcome.REJECTED, rule="linkedin.media.processing_failed"),
    # An address for bytes is good for a while only; whatever its store says, another one is asked for.
    **{("upload", status, None): _ADDRESS_OVER for status in (400, 403, 404, 409, 412)},
    # Where no token was shown, a 401 is about the address too.
    **{("signed upload", status, None): _ADDRESS_OVER for status in (400, 401, 403, 404, 409, 412)},
}

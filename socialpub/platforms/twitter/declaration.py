"""Declaration of X: hosts, options, connection."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from socialpub.platforms.contract import (
    NO_KEY,
    ConnectorAccount,
    DeveloperConsole,
    Draft,
    OAuthFlow,
    Platform,
    PostingCap,
    RefreshPolicy,
    Site,
    TextCounter,
    ThreadSupport,
    VersionProbe,
)
from socialpub.platforms.kit.options import DigitId, PlatformOptions
from socialpub.platforms.twitter.rules import MEDIA, RULES, text_max
from socialpub.platforms.twitter.text import weighted_length

SCOPES = ("tweet.read", "tweet.write", "users.read", "media.write", "offline.access")
POST_ADDRESS = re.compile(r"https://(?:www\.)?(?:x|twitter)\.com/(?:i/web|\w{1,15})/status/([0-9]{1,19})")


class TwitterSite(Site):
    """Hosts of X."""

    DERIVED_PATHS = {"authorize_url": "/i/oauth2/authorize", "token_url": "/2/oauth2/token"}
    api_base: str = "https://api.x.com"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://x.com/i/oauth2/authorize"
    """The page where people authorize this server."""
    token_url: str = "https://api.x.com/2/oauth2/token"
    """The endpoint that issues access tokens."""


class TwitterOptions(PlatformOptions):
    """Options of an X target: repliers, community, disclosures, reply and quote."""

    SOURCE = "docs.x.com/x-api/posts/manage-tweets/integrate"
    platform: Literal["twitter"] = "twitter"
    reply_to_tweet_id: DigitId = Field("", title="Reply to", description="The id of the post to reply to.")
    quote_tweet_id: DigitId = Field(
        "", title="Quote", description="The id of the post to quote. X allows it to enterprise apps only."
    )
    reply_settings: Literal["everyone", "following", "mentionedUsers", "subscribers", "verified"] = Field(
        "everyone",
        title="Who may reply",
        description="Besides the author. In a thread, it applies to the first post.",
    )
    community_id: DigitId = Field("", title="Community", description="The id of the community to publish in.")
    made_with_ai: bool = Field(
        False, title="Made with AI", description="Disclose media made with AI, in every post of a thread."
    )
    paid_partnership: bool = Field(
        False, title="Paid partnership", description="Disclose a paid partnership, in every post of a thread."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if {"reply_to_tweet_id", "quote_tweet_id"} <= self.model_fields_set:
            raise ValueError("replyToTweetId and quoteTweetId exclude each other")
        return self


def _count(draft: Draft, account: ConnectorAccount) -> TextCounter:
    return TextCounter(weighted_length(draft.text), text_max(account), "weighted")


PLATFORM = Platform(
    name="twitter",
    label="X",
    aliases=("x.com",),
    send_class=NO_KEY,
    plans_offline=True,
    options=TwitterOptions,
    rules=RULES,
    caps=(PostingCap(100, 900), PostingCap(10_000, 86_400, shared=True)),
    count=_count,
    site=TwitterSite,
    # A reply within milliseconds may be refused: the new post is not visible yet.
    thread=ThreadSupport(POST_ADDRESS, options=("madeWithAi", "paidPartnership"), pause=2.0),
    version="v2",
    version_probe=VersionProbe("2/users/me"),
    alt_text=("image",),
    oauth=OAuthFlow(scopes=SCOPES, required=SCOPES, pkce=True, basic=True),
    console=DeveloperConsole(
        name="the X developer console",
        url="https://console.x.com/",
        products=("user authentication, as a Web App with Read and write",),
        review=(
            "There is no review. You pay X with credits: each post costs credits, and a post with a link more than ten "
            "times as many. Without credits, X refuses to publish."
        ),
        id_name="OAuth 2.0 Client ID",
        secret_name="OAuth 2.0 Client Secret",
        redirect_name="Callback URI / Redirect URL",
    ),
    connection_lifetime=(
        "Access lasts two hours, and socialpub renews it in time. It ends when the owner removes the app at X."
    ),
    # Refresh tokens reportedly last half a year unused; X does not say.
    refresh_policy=RefreshPolicy(keep_alive=7 * 86_400, rotates=True),
    media=MEDIA,
)

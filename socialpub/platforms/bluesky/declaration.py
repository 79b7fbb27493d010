"""Declaration of Bluesky: settings and options."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from socialpub.platforms.bluesky.rules import MEDIA, RULES
from socialpub.platforms.bluesky.text import strip_bom
from socialpub.platforms.contract import (
    KEY,
    ConnectorAccount,
    CredentialField,
    Draft,
    Platform,
    PostingCap,
    RefreshPolicy,
    Site,
    TextCounter,
    ThreadSupport,
)
from socialpub.platforms.kit.options import PlatformOptions
from socialpub.platforms.kit.text import graphemes

_POST_ADDRESS = re.compile(r"at://did:[a-z]+:[A-Za-z0-9._:%-]+/app\.bsky\.feed\.post/[a-z0-9]{13}")
HOSTS = ("service", "plc_directory", "video_service", "public_api")


class BlueskySite(Site):
    """Hosts of Bluesky's network; the account's own server (PDS) is found through them."""

    DERIVED_PATHS = dict.fromkeys(HOSTS, "")
    api_base: str = ""
    """An origin for those of the next four hosts that are not set; empty: none (for test servers)."""
    service: str = "https://bsky.social"
    """The default server (PDS) of accounts."""
    plc_directory: str = "https://plc.directory"
    """The registry of did:plc accounts."""
    video_service: str = "https://video.bsky.app"
    """The video service; empty: videos go straight to the account's server, which accepts MP4 only."""
    public_api: str = "https://public.api.bsky.app"
    """The public API, for handles and profiles."""
    gallery: bool = False
    """Allow 5 to 10 images (app.bsky.embed.gallery); servers older than June 2026 refuse it."""

    @field_validator(*HOSTS)
    @classmethod
    def _origin(cls, value: str, info: ValidationInfo) -> str:
        if not re.fullmatch(r"https?://[^/\s?#@]+", value.rstrip("/")) and (
            value or info.field_name != "video_service"
        ):
            raise ValueError("a host is http(s)://host[:port], without a path")
        return value.rstrip("/")


NO_REPLIES = "none"
_LIST = r"at://did:[a-z]+:[A-Za-z0-9._:%-]{1,200}/app\.bsky\.graph\.list/[A-Za-z0-9._:~-]{1,512}"
Repliers = Annotated[str, Field(pattern=rf"^({NO_REPLIES}|mention|follower|following|{_LIST})$")]


class BlueskyOptions(PlatformOptions):
    """Options of a Bluesky target: languages, labels, repliers, reply and quote."""

    SOURCE = "github.com/bluesky-social/atproto/blob/main/lexicons/app/bsky/feed/post.json"
    platform: Literal["bluesky"] = "bluesky"
    langs: list[str] = Field(
        [], title="Languages", description="The languages of the text, as BCP 47 tags such as `en` or `pt-BR`."
    )
    labels: list[Literal["porn", "sexual", "nudity", "graphic-media"]] = Field(
        [],
        max_length=10,
        title="Content warnings",
        description="Labels of the content, in every post of a thread: `porn`, `sexual`, `nudity`, `graphic-media`.",
    )
    threadgate: list[Repliers] = Field(
        [],
        min_length=1,
        title="Who may reply",
        description="Besides the author: those who are mentioned (`mention`), who follow the account (`follower`), "
        "whom it follows (`following`), the members of a list (its `at://` URI), or `none`. Without it: everyone.",
    )
    quote_uri: str = Field(
        "", max_length=2048, title="Quote", description="The `at://` URI of the post to quote, as it is when published."
    )
    reply_to_uri: str = Field(
        "", max_length=2048, title="Reply to: URI", description="The `at://` URI of the post to reply to."
    )
    reply_to_cid: str = Field("", max_length=256, title="Reply to: CID", description="The CID of the post to reply to.")
    reply_root_uri: str = Field(
        "",
        max_length=2048,
        title="Thread: URI",
        description="The `at://` URI of the thread's first post, if the reply is not to that post.",
    )
    reply_root_cid: str = Field(
        "", max_length=256, title="Thread: CID", description="The CID of the thread's first post."
    )

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        given = self.model_fields_set
        if ("reply_to_uri" in given) != ("reply_to_cid" in given):
            raise ValueError("replyToUri and replyToCid go together")
        if ("reply_root_uri" in given) != ("reply_root_cid" in given):
            raise ValueError("replyRootUri and replyRootCid go together")
        if "reply_root_uri" in given and "reply_to_uri" not in given:
            raise ValueError("replyRootUri and replyRootCid need replyToUri and replyToCid")
        if "threadgate" in given and "reply_to_uri" in given:
            raise ValueError("threadgate is for posts that begin a thread, not for replies")
        if NO_REPLIES in self.threadgate and len(self.threadgate) > 1:
            raise ValueError("with none, threadgate has no other entry")
        return self


def _count(draft: Draft, account: ConnectorAccount) -> TextCounter:
    return TextCounter(graphemes(strip_bom(draft.text)), 300, "graphemes")


PLATFORM = Platform(
    name="bluesky",
    label="Bluesky",
    aliases=("bsky",),
    send_class=KEY,
    plans_offline=True,
    options=BlueskyOptions,
    frequent_options=("langs", "labels"),
    rules=RULES,
    caps=(PostingCap(1_666, 3600), PostingCap(11_666, 86_400)),
    count=_count,
    site=BlueskySite,
    version="atproto-xrpc-2026-08-20",
    first_comment=True,
    thread=ThreadSupport(_POST_ADDRESS, options=("langs", "labels")),
    media=MEDIA,
    reply_options=("replyToUri", "replyToCid", "replyRootUri", "replyRootCid"),
    has_public_lookup=True,
    credentials=(
        CredentialField("handle", "Handle", hint="Such as you.bsky.social, without the @."),
        CredentialField(
            "password",
            "App password",
            secret=True,
            hint="Not your main password. In Bluesky: Settings, Privacy and security, App passwords.",
        ),
    ),
    connection_lifetime=(
        "A session lasts 90 days from its last use, and socialpub renews it in time. It ends when the owner deletes "
        "the app password or revokes the permission."
    ),
    # A refresh token lives 90 days, and each refresh returns a new one.
    refresh_policy=RefreshPolicy(keep_alive=7 * 86_400),
    has_separate_sessions=True,
)

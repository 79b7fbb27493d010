"""Instagram through the API with Instagram Login: containers, then one public call."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    CONTAINER,
    Absent,
    AccountIdentity,
    DeveloperConsole,
    Draft,
    DraftMedia,
    DraftWarning,
    Json,
    OAuthFlow,
    OfferedAccount,
    Pending,
    Platform,
    PostingCap,
    Published,
    Ready,
    RefreshPolicy,
    Replies,
    Tokens,
    Unknown,
    Upstream,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.instagram.rules import MEDIA, RULES, TEXT_MAX, USER_TAGS_MAX, is_reel, is_story
from socialpub.platforms.kit.api_errors import to_text
from socialpub.platforms.kit.options import AbsoluteUrl, DigitId, PlatformOptions
from socialpub.platforms.kit.rule_catalog import count_with, ignored_option
from socialpub.platforms.kit.text import graphemes
from socialpub.platforms.meta import containers
from socialpub.platforms.meta.containers import (
    CONTAINER_REPLIES,
    GONE,
    ContainerFlow,
    ContainerPlan,
    Form,
    build_verdicts,
    find_patience,
)
from socialpub.platforms.meta.graph import (
    RETRY,
    SERVED_VERSION_HEADER,
    SHARED,
    SUNSETS,
    GraphApi,
    MetaSite,
    exchange_for_long_lived,
    next_version,
    refresh_long_lived,
)

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "send", "settle"]


class InstagramSite(MetaSite):
    """Hosts of the Instagram API, and the advised number of hashtags."""

    DERIVED_PATHS = {"authorize_url": "/oauth/authorize", "token_url": "/oauth/access_token"}
    api_base: str = "https://graph.instagram.com"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://www.instagram.com/oauth/authorize"
    """The page where people authorize this server."""
    token_url: str = "https://api.instagram.com/oauth/access_token"
    """The endpoint that issues access tokens."""
    hashtags_advised: int = Field(5, ge=0)
    """A caption with more hashtags gets a warning."""


Username = Annotated[str, Field(pattern=r"^[A-Za-z0-9._]{1,30}$")]


class UserTag(PlatformOptions):
    """Account that is tagged in an image, and where: from 0 (left, top) to 1."""

    username: Username = Field(description="The account's name, without `@`.")
    x: float = Field(ge=0, le=1, description="From the left.")
    y: float = Field(ge=0, le=1, description="From the top.")


class InstagramOptions(PlatformOptions):
    """Options of posts, reels (a single video) and stories."""

    SOURCE = "developers.facebook.com/documentation/instagram-platform/instagram-graph-api/reference/ig-user/media"
    platform: Literal["instagram"] = "instagram"
    story: bool = Field(False, title="Publish as a story", description="One image or video, without a caption.")
    share_to_feed: bool = Field(True, title="Also show the reel in the feed")
    cover_url: AbsoluteUrl = Field("", title="Reel cover", description="The public https URL of a JPEG image.")
    thumb_offset: int = Field(
        0,
        ge=0,
        title="Reel cover from the video",
        description="Milliseconds from its start. `coverUrl` comes first.",
    )
    collaborators: list[Username] = Field([], title="Collaborators", description="Usernames that are invited.")
    user_tags: list[UserTag] = Field(
        [], max_length=USER_TAGS_MAX, title="Tagged accounts", description="Accounts in a single image."
    )
    location_id: DigitId = Field(
        "", title="Location", description="The id of a Facebook Page with a location; not for reels and stories."
    )
    is_ai_generated: bool = Field(False, title="Made with AI", description="Label the content as made with AI.")


def _has_no_reel(draft: Draft) -> bool:
    return not is_reel(draft)


def _has_no_image(draft: Draft) -> bool:
    return is_story(draft) or [item.kind for item in draft.items] != ["image"]


PLATFORM = Platform(
    name="instagram",
    label="Instagram",
    aliases=("ig", "insta"),
    send_class=CONTAINER,
    options=InstagramOptions,
    frequent_options=("story", "shareToFeed", "collaborators"),
    rules=RULES,
    caps=(PostingCap(50, 86_400),),
    count=count_with(graphemes, TEXT_MAX, "graphemes"),
    site=InstagramSite,
    version="v26.0",
    sunsets=SUNSETS,
    successor=next_version,
    version_probe=VersionProbe("{version}/me?fields=user_id", served=SERVED_VERSION_HEADER),
    alt_text=("image",),
    draft_warnings=(
        ignored_option("coverUrl", "only a reel has a cover", _has_no_reel),
        ignored_option("thumbOffset", "only a reel has a cover", _has_no_reel),
        ignored_option("thumbOffset", "`coverUrl` is the cover", lambda draft: "coverUrl" in draft.options),
        ignored_option("shareToFeed", "only a reel can stay out of the feed", _has_no_reel),
        ignored_option("collaborators", "a story has none", is_story),
        ignored_option("userTags", "only a single image outside stories has them", _has_no_image),
        ignored_option("locationId", "a reel and a story have none", lambda draft: is_story(draft) or is_reel(draft)),
        DraftWarning(
            "option_ignored", "A story has no caption: the text is not shown.", lambda d: is_story(d) and bool(d.text)
        ),
        DraftWarning(
            "alt_text_ignored",
            "A story on Instagram has none.",
            lambda draft: is_story(draft) and any(item.kind == "image" and item.alt_text for item in draft.items),
        ),
    ),
    option_images={"coverUrl": lambda draft: not _has_no_reel(draft)},
    account_fields=("kind", "accountType", "grantedScopes"),
    oauth=OAuthFlow(
        scopes=("instagram_business_basic", "instagram_business_content_publish"),
        required=("instagram_business_basic", "instagram_business_content_publish"),
        separator=",",
    ),
    console=DeveloperConsole(
        name="Meta for Developers",
        url="https://developers.facebook.com/apps/",
        products=("Instagram: API setup with Instagram login",),
        review=(
            "Until App Review has approved the permissions, only accounts that are added to the app as Instagram "
            "testers can connect, and only professional ones. Use the id and the secret of the Instagram app, not "
            "those of the Meta app around it."
        ),
        id_name="Instagram app ID",
        secret_name="Instagram app secret",
        redirect_name="OAuth redirect URIs",
    ),
    connection_lifetime=(
        "Access lasts 60 days, and socialpub renews it in time. A changed password or a removed app ends it."
    ),
    refresh_policy=RefreshPolicy(refresh_before=30 * 86_400, keep_alive=7 * 86_400),
    media=MEDIA,
)


# --- Responses ---------------------------------------------------------------------------------------------------


def _rule(suffix: str) -> Verdict:
    return Verdict(Outcome.REJECTED, rule=f"instagram.{suffix}")


# Error codes: developers.facebook.com/docs/instagram-platform/reference/error-codes.
_CONTENT = {
    "media.reachable": ("2207052", "2207077"),
    "media.mime_allowed": ("2207026", "2207005"),
    "media.image_size_max": ("2207004",),
    "media.aspect_ratio": ("2207009",),
    "media.count_max": ("2207028",),
    "text.max_graphemes": ("2207010",),
    "text.mention_max": ("2207040",),
    "thumb_offset.range": ("2207057",),
    "account.daily_cap": ("2207042",),
    "account.restricted": ("2207050",),
    "account.spam_suspected": ("2207051", "368"),
    "account_type.requires_professional": ("not_professional",),
}
_ANEW = ("2207001", "2207003", "2207006", "2207008", "2207020", "2207032", "2207053", "2207082")
_STATES = {
    "2207004": "media.image_size_max",
    "2207005": "media.mime_allowed",
    "2207009": "media.aspect_ratio",
    "2207026": "media.mime_allowed",
    "2207052": "media.reachable",
    "2207077": "media.reachable",
}

REPLIES: Replies = {
    **SHARED,
    **CONTAINER_REPLIES,
    **{key: row for suffix, names in _CONTENT.items() for key, row in build_verdicts(names, _rule(suffix)).items()},
    **build_verdicts(
        ("not_professional",),
        Verdict(Outcome.REJECTED, "platform_auth_failed", "instagram.account_type.requires_professional"),
    ),
    **build_verdicts(
        ("revoked", "190/33"),
        Verdict(Outcome.REJECTED, "platform_auth_failed", remediation="Reconnect the account.", token_refused=True),
    ),
    **build_verdicts(
        ("no_permission",), Verdict(Outcome.REJECTED, "platform_auth_failed", remediation="Reconnect the account.")
    ),
    **build_verdicts((*_ANEW, "2207027"), RETRY, "make"),
    # The items of a carousel are gone.
    **build_verdicts(("2207006", "2207008", "2207020"), GONE, "make"),
    # A container's own failure: transient, due to the content, or (any other number) due to the media.
    **build_verdicts(_ANEW, RETRY, "container"),
    **{("container", 200, name): _rule(suffix) for name, suffix in _STATES.items()},
    ("container", 200, None): _rule("container.error"),
}

GRAPH = GraphApi(
    PLATFORM,
    REPLIES,
    containers.STEPS,
    phrases={
        "not an instagram business": "not_professional",
        "not enough permissions to post": "no_permission",
        "revoked_access_token": "revoked",
        "session has been invalidated": "revoked",
    },
)


def _page(_: Upstream, post: Json) -> str | None:
    code = to_text(post.get("shortcode"))
    return f"https://www.instagram.com/p/{code}/" if code else None


FLOW = ContainerFlow(
    GRAPH,
    make="media",
    publish="media_publish",
    limit="content_publishing_limit",
    status="status_code",
    detail="status",
    posts="media",
    text="caption",
    post_fields="id,caption,media_type,permalink,shortcode,timestamp",
    page=_page,
    again=frozenset({"2207052", "2207077", *_ANEW}),
)


# --- Publishing --------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Create the post's container and poll it."""
    return containers.prepare(FLOW, up, _plan_containers(draft), saved)


def send(up: Upstream, plan: Json) -> Published:
    """Publish the container."""
    return containers.send(FLOW, up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Check the container; find its post in the account's own list."""
    return containers.settle(FLOW, up, plan, since_ms)


def _plan_containers(draft: Draft) -> ContainerPlan:
    if is_story(draft):
        return _plan_story(draft)
    head: Form = ({"caption": draft.text} if draft.text else {}) | _labels(draft)
    patience = find_patience(draft.items)
    plan = {"text": draft.text, "since": draft.now_ms}
    if len(draft.items) > 1:
        pieces = tuple(_child(item) for item in draft.items)
        return ContainerPlan(pieces, {"media_type": "CAROUSEL", **head}, plan | {"types": ["CAROUSEL_ALBUM"]}, patience)
    item = draft.items[0]
    piece = _reel(item, draft) if item.kind == "video" else _image(item) | _tags(draft)
    return ContainerPlan((piece | head,), None, plan | {"types": [item.kind.upper()]}, patience)


def _plan_story(draft: Draft) -> ContainerPlan:
    item = draft.items[0]
    source = "video_url" if item.kind == "video" else "image_url"
    piece = {"media_type": "STORIES", source: item.url or ""} | _ai_label(draft)
    plan = {"text": "", "since": draft.now_ms, "types": [item.kind.upper()], "list": "stories"}
    return ContainerPlan((piece,), None, plan, find_patience(draft.items))


def _labels(draft: Draft) -> Form:
    """Parameters of the whole post: collaborators, location, label."""
    collaborators, location = draft.options.get("collaborators"), draft.options.get("locationId")
    return (
        ({"collaborators": json.dumps(collaborators)} if collaborators else {})
        | ({"location_id": location} if location and not is_reel(draft) else {})
        | _ai_label(draft)
    )


def _ai_label(draft: Draft) -> Form:
    return {"is_ai_generated": "true"} if draft.options.get("isAiGenerated") else {}


def _tags(draft: Draft) -> Form:
    tags = draft.options.get("userTags")
    return {"user_tags": json.dumps(tags)} if tags else {}


def _image(item: DraftMedia) -> Form:
    alt = {"alt_text": item.alt_text} if item.alt_text else {}
    return {"image_url": item.url or "", **alt}


def _reel(item: DraftMedia, draft: Draft) -> Form:
    cover = draft.options.get("coverUrl")
    feed = "true" if draft.options.get("shareToFeed", True) else "false"
    made = {"media_type": "REELS", "video_url": item.url or "", "share_to_feed": feed}
    if cover:
        return made | {"cover_url": str(cover)}
    offset = draft.options.get("thumbOffset")
    return made if offset is None else made | {"thumb_offset": str(offset)}


def _child(item: DraftMedia) -> Form:
    if item.kind == "video":
        return {"is_carousel_item": "true", "media_type": "VIDEO", "video_url": item.url or ""}
    return {"is_carousel_item": "true", **_image(item)}


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the professional account of a login, with a token for 60 days."""
    tokens = exchange_for_long_lived(GRAPH, up, "ig_exchange_token", now_ms)
    fields = {"fields": "user_id,username,name,account_type"}
    reply = GRAPH.call(up, "identify", "GET", "me", token=tokens.access, params=fields)
    profile = reply.record()
    kind = to_text(profile.get("account_type"))
    if kind.upper() == "PERSONAL":
        raise GRAPH.build_violation(up, "account_type.requires_professional", Outcome.REJECTED)
    username = to_text(profile.get("username"))
    extra = {
        "kind": "instagram_login",
        "accountType": kind or None,
        "grantedScopes": list(tokens.private.get("scopes", ())),
        "username": username,
    }
    id = GRAPH.id_of(up, "identify", reply, key="user_id")
    display_name = to_text(profile.get("name")) or username or None
    return (OfferedAccount(AccountIdentity(id, display_name, extra), tokens, "account"),)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the token for 60 days; Instagram accepts tokens older than a day and not expired."""
    return refresh_long_lived(GRAPH, up, "ig_refresh_token", now_ms)

"""Instagram through the API with Instagram Login: containers, then one public call."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    CONTAINER,
    NO_BODY,
    UNNAMED,
    Absent,
    AccountIdentity,
    ConnectorAccount,
    DeveloperConsole,
    Draft,
    DraftMedia,
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
    TextCounter,
    Tokens,
    Unknown,
    Upstream,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.instagram.rules import MEDIA, RULES, TEXT_MAX
from socialpub.platforms.kit.api_errors import to_text
from socialpub.platforms.kit.options import AbsoluteUrl, PlatformOptions
from socialpub.platforms.kit.rule_catalog import ignored_option
from socialpub.platforms.kit.text import graphemes
from socialpub.platforms.meta import containers
from socialpub.platforms.meta.containers import (
    PROCESSING_SECONDS_MAX,
    VIDEO_PROCESSING_SECONDS_MAX,
    ContainerFlow,
    ContainerPlan,
    Form,
    build_verdicts,
)
from socialpub.platforms.meta.graph import (
    RETRY,
    SERVED_VERSION_HEADER,
    SHARED,
    SUNSETS,
    GraphApi,
    MetaSite,
    derive_addresses,
    exchange,
    next_version,
    refresh_long_lived,
)

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "send", "settle"]


class InstagramSite(MetaSite):
    """Hosts of the Instagram API, and the advised number of hashtags."""

    api_base: str = "https://graph.instagram.com"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://www.instagram.com/oauth/authorize"
    """The page where people authorize this server."""
    token_url: str = "https://api.instagram.com/oauth/access_token"
    """The endpoint that issues access tokens."""
    hashtags_advised: int = Field(5, ge=0)
    """A caption with more hashtags gets a warning."""

    @model_validator(mode="before")
    @classmethod
    def _stand_in(cls, values: Any) -> Any:
        return derive_addresses(values, authorize_url="/oauth/authorize", token_url="/oauth/access_token")


class InstagramOptions(PlatformOptions):
    """Options of a single video (a reel): its cover, and whether the feed shows it."""

    platform: Literal["instagram"] = "instagram"
    share_to_feed: bool = Field(True, title="Also show the reel in the feed")
    cover_url: AbsoluteUrl = Field("", title="Reel cover", description="The public https URL of a JPEG image.")


def _count(draft: Draft, _: ConnectorAccount) -> TextCounter:
    return TextCounter(graphemes(draft.text), TEXT_MAX, "graphemes")


def _has_no_reel(draft: Draft) -> bool:
    return [item.kind for item in draft.items] != ["video"]


PLATFORM = Platform(
    name="instagram",
    label="Instagram",
    aliases=("ig", "insta"),
    send_class=CONTAINER,
    options=InstagramOptions,
    rules=RULES,
    caps=(PostingCap(50, 86_400),),
    count=_count,
    site=InstagramSite,
    version="v26.0",
    sunsets=SUNSETS,
    successor=next_version,
    version_probe=VersionProbe("{version}/me?fields=user_id", served=SERVED_VERSION_HEADER),
    alt_text=("image",),
    draft_warnings=(
        ignored_option("coverUrl", "only a single video has a cover", _has_no_reel),
        ignored_option("shareToFeed", "only a single video can stay out of the feed", _has_no_reel),
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
    # The container is checked for publication, and the post looked up in the account's list.
    ("publish", 200, NO_BODY): UNNAMED,
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
    **build_verdicts(_ANEW, RETRY, "make"),
    # A container's own failure: transient, due to the content, or (any other number) due to the media.
    **build_verdicts(_ANEW, RETRY, "container"),
    **{("container", 200, name): _rule(suffix) for name, suffix in _STATES.items()},
    ("container", 200, None): _rule("container.error"),
}

GRAPH = GraphApi(
    PLATFORM,
    REPLIES,
    words={
        "make": "accept the content",
        "status": "report the progress of the content",
        "publish": "publish the post",
        "look": "show the post",
        "settle": "list the posts",
        "identify": "identify the account",
    },
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
    head: Form = {"caption": draft.text} if draft.text else {}
    patience = (
        VIDEO_PROCESSING_SECONDS_MAX if any(item.kind == "video" for item in draft.items) else PROCESSING_SECONDS_MAX
    )
    plan = {"text": draft.text, "since": draft.now_ms}
    if len(draft.items) > 1:
        pieces = tuple(_child(item) for item in draft.items)
        return ContainerPlan(pieces, {"media_type": "CAROUSEL", **head}, plan | {"types": ["CAROUSEL_ALBUM"]}, patience)
    item = draft.items[0]
    piece = _reel(item, draft) if item.kind == "video" else _image(item)
    return ContainerPlan((piece | head,), None, plan | {"types": [item.kind.upper()]}, patience)


def _image(item: DraftMedia) -> Form:
    alt = {"alt_text": item.alt_text} if item.alt_text else {}
    return {"image_url": item.url or "", **alt}


def _reel(item: DraftMedia, draft: Draft) -> Form:
    cover = draft.options.get("coverUrl")
    feed = "true" if draft.options.get("shareToFeed", True) else "false"
    made = {"media_type": "REELS", "video_url": item.url or "", "share_to_feed": feed}
    return made | ({"cover_url": str(cover)} if cover else {})


def _child(item: DraftMedia) -> Form:
    if item.kind == "video":
        return {"is_carousel_item": "true", "media_type": "VIDEO", "video_url": item.url or ""}
    return {"is_carousel_item": "true", **_image(item)}


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the professional account of a login, with a token for 60 days."""
    params = {
        "grant_type": "ig_exchange_token",
        "client_secret": up.site.client_secret,
        "access_token": up.tokens.access,
    }
    tokens = exchange(GRAPH, up, f"{up.site.api_base}/access_token", params, now_ms)
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
    params = {"grant_type": "ig_refresh_token", "access_token": up.tokens.access}
    return refresh_long_lived(GRAPH, up, params, now_ms)

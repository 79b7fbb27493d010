"""Threads through Meta's API: containers, whose media it fetches, then one public call."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from pydantic import Field

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import (
    CONTAINER,
    Absent,
    AccountIdentity,
    AppCheck,
    DeveloperConsole,
    Draft,
    DraftMedia,
    Json,
    OAuthFlow,
    OfferedAccount,
    Pending,
    Platform,
    PostingCap,
    PreviousPiece,
    Published,
    Ready,
    RefreshPolicy,
    Replies,
    ThreadSupport,
    Tokens,
    Unknown,
    Upstream,
    Verdict,
    VersionProbe,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import to_record, to_text
from socialpub.platforms.kit.options import AbsoluteUrl, DigitId, OptionText, PlatformOptions
from socialpub.platforms.kit.rule_catalog import count_with
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
from socialpub.platforms.meta.graph import SHARED, GraphApi, MetaSite, exchange_for_long_lived, refresh_long_lived
from socialpub.platforms.threads.rules import MEDIA, RULES, TEXT_MAX, threads_length

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "send", "settle"]


class ThreadsSite(MetaSite):
    """Hosts of the Threads API."""

    DERIVED_PATHS = {"authorize_url": "/oauth/authorize", "token_url": "/oauth/access_token"}
    api_base: str = "https://graph.threads.net"
    """The API's origin. A test server's replaces the next two addresses too, unless set."""
    authorize_url: str = "https://threads.com/oauth/authorize"
    """The page where people authorize this server."""
    token_url: str = "https://graph.threads.net/oauth/access_token"
    """The endpoint that issues access tokens."""


class ThreadsOptions(PlatformOptions):
    """Options of a Threads target: topic, link card, repliers, reply and quote."""

    SOURCE = "developers.facebook.com/docs/threads/reference/publishing"
    platform: Literal["threads"] = "threads"
    reply_to_id: DigitId = Field("", title="Reply to", description="The id of the post to reply to.")
    quote_post_id: DigitId = Field("", title="Quote", description="The id of the post to quote.")
    topic_tag: OptionText = Field("", max_length=1024, title="Topic", description="The topic of the post, without `#`.")
    link_attachment: AbsoluteUrl = Field(
        "", title="Link", description="The web page to show as a card, in a post without media."
    )
    reply_control: Literal[
        "everyone", "accounts_you_follow", "mentioned_only", "parent_post_author_only", "followers_only"
    ] = Field("everyone", title="Who may reply", description="Whose replies Threads accepts, besides the author's.")


_POST_ADDRESS = re.compile(r"https://(?:www\.)?threads\.(?:com|net)/@[\w.]{1,30}/post/([\w-]{1,64})/?")

PLATFORM = Platform(
    name="threads",
    label="Threads",
    send_class=CONTAINER,
    options=ThreadsOptions,
    rules=RULES,
    caps=(PostingCap(250, 86_400),),
    count=count_with(threads_length, TEXT_MAX, "characters"),
    site=ThreadsSite,
    thread=ThreadSupport(_POST_ADDRESS),
    version="v1.0",
    version_probe=VersionProbe("{version}/me?fields=id"),
    oauth=OAuthFlow(
        scopes=("threads_basic", "threads_content_publish", "threads_manage_replies"),
        required=("threads_basic", "threads_content_publish"),
        separator=",",
        app_check=AppCheck("GET"),  # developers.facebook.com/docs/threads/get-started/app-access-tokens
    ),
    console=DeveloperConsole(
        name="Meta for Developers",
        url="https://developers.facebook.com/apps/",
        products=("the use case for accessing the Threads API",),
        review=(
            "Until App Review has approved the permissions, only people who are added to the app as Threads testers "
            "can connect. The id and the secret are those of Threads, not of the Meta app around it."
        ),
        id_name="Threads app ID",
        secret_name="Threads app secret",
        redirect_name="Redirect Callback URLs",
    ),
    connection_lifetime=("Access lasts 60 days, and socialpub renews it in time."),
    refresh_policy=RefreshPolicy(refresh_before=30 * 86_400, keep_alive=7 * 86_400),
    media=MEDIA,
)


# --- Responses ---------------------------------------------------------------------------------------------------

_RESTRICTED = Verdict(Outcome.REJECTED, rule="threads.account.restricted")
_UNREACHABLE = Verdict(Outcome.REJECTED, rule="threads.media.reachable")
_BROKEN = Verdict(Outcome.REJECTED, rule="threads.container.error")

REPLIES: Replies = {
    **SHARED,
    **CONTAINER_REPLIES,
    **build_verdicts(("4279013", "2207051", "368"), _RESTRICTED),
    # No code is documented for a used-up quota; Instagram's is assumed.
    **build_verdicts(("2207042",), Verdict(Outcome.REJECTED, rule="threads.account.daily_cap")),
    **build_verdicts(("link_limit",), Verdict(Outcome.REJECTED, rule="threads.text.link_max")),
    **build_verdicts(("too_long",), Verdict(Outcome.REJECTED, rule="threads.text.max_graphemes")),
    **build_verdicts(("unreachable",), _UNREACHABLE),
    # "Media Not Found" while publishing is not listed: the container was not ready despite its status, and is polled
    # and published again (fbsamples/threads_api#70).
    # While making a carousel, its items are gone.
    **build_verdicts(("4279009",), GONE, "make"),
    **build_verdicts(("FAILED_DOWNLOADING_VIDEO",), _UNREACHABLE, "container"),
    ("container", 200, None): _BROKEN,
}

GRAPH = GraphApi(
    PLATFORM,
    REPLIES,
    containers.STEPS,
    phrases={
        "threads_api__link_limit_exceeded": "link_limit",
        "at most 500 characters": "too_long",
        "could not be fetched from this uri": "unreachable",
    },
)


def _page(up: Upstream, post: Json) -> str | None:
    name, code = up.account.extra.get("username"), to_text(post.get("shortcode"))
    return f"https://www.threads.com/@{name}/post/{code}" if name and code else None


FLOW = ContainerFlow(
    GRAPH,
    make="threads",
    publish="threads_publish",
    limit="threads_publishing_limit",
    status="status",
    detail="error_message",
    posts="threads",
    text="text",
    post_fields="id,text,media_type,permalink,shortcode,timestamp",
    page=_page,
    again=frozenset({"unreachable", "FAILED_DOWNLOADING_VIDEO", "UNKNOWN"}),
    pause=3.0,  # right after FINISHED a container is often not found yet
)
_REPLY_FLOW = replace(FLOW, quota_fields="reply_quota_usage,reply_config")
_TYPES = {"TEXT": ("TEXT_POST",), "IMAGE": ("IMAGE",), "VIDEO": ("VIDEO",), "CAROUSEL": ("CAROUSEL_ALBUM",)}


# --- Publishing --------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Create the post's container and poll it."""
    answers = _find_id(up, draft.previous) if draft.previous else draft.options.get("replyToId")
    flow = _REPLY_FLOW if answers else FLOW
    return containers.prepare(flow, up, _plan_containers(draft, answers), saved)


def _find_id(up: Upstream, previous: PreviousPiece) -> str:
    """Return the id of the piece before.

    It is looked up where only its container is known, or an address from a person. Raises ApiError if it is not found.
    """
    if previous.remote_id and previous.remote_id.isdecimal():
        return previous.remote_id
    address = _POST_ADDRESS.fullmatch(previous.uri or "")
    found = containers.find_id(FLOW, up, previous.plan, address[1] if address else None)
    if found is None:
        message = "The piece of the thread before this one could not be found in the account's posts."
        raise GRAPH.build_unavailable(up, message, Outcome.NOT_SENT)
    return found


def send(up: Upstream, plan: Json) -> Published:
    """Publish the container."""
    return containers.send(FLOW, up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Check the container; find its post in the account's own list."""
    return containers.settle(FLOW, up, plan, since_ms)


def _plan_containers(draft: Draft, answers: str | None) -> ContainerPlan:
    said: Form = {"text": draft.text} if draft.text else {}
    head = said | ({"reply_to_id": str(answers)} if answers else {}) | _build_option_form(draft)
    kind = "TEXT" if not draft.items else draft.items[0].kind.upper() if len(draft.items) == 1 else "CAROUSEL"
    plan = {
        "text": draft.text,
        "types": list(_TYPES[kind]),
        "since": draft.now_ms,
        "list": "replies" if answers else "threads",
    }
    patience = find_patience(draft.items)
    if kind == "CAROUSEL":
        pieces = tuple(_container_form(item) | {"is_carousel_item": "true"} for item in draft.items)
        return ContainerPlan(pieces, {"media_type": "CAROUSEL", **head}, plan, patience)
    piece = _container_form(draft.items[0]) if draft.items else {"media_type": "TEXT"}
    return ContainerPlan((piece | head,), None, plan, patience)


_PARAMETERS = {
    "topicTag": "topic_tag",
    "linkAttachment": "link_attachment",
    "replyControl": "reply_control",
    "quotePostId": "quote_post_id",
}


def _build_option_form(draft: Draft) -> Form:
    return {name: str(draft.options[key]) for key, name in _PARAMETERS.items() if key in draft.options}


def _container_form(item: DraftMedia) -> Form:
    kind = item.kind
    alt = {"alt_text": item.alt_text} if item.alt_text else {}
    return {"media_type": kind.upper(), f"{kind}_url": item.url or "", **alt}


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the profile of a login, with a token for 60 days."""
    tokens = exchange_for_long_lived(GRAPH, up, "th_exchange_token", now_ms)
    if granted := _read_scopes(up, tokens.access):
        oauth.require_scopes(PLATFORM, granted, up.site)
        tokens = replace(tokens, private={**tokens.private, "scopes": granted})
    reply = GRAPH.call(up, "identify", "GET", "me", token=tokens.access, params={"fields": "id,username,name"})
    profile = reply.record()
    name = to_text(profile.get("username"))
    display_name = to_text(profile.get("name")) or name or None
    return (
        OfferedAccount(
            AccountIdentity(GRAPH.id_of(up, "identify", reply), display_name, {"username": name}), tokens, "person"
        ),
    )


def _read_scopes(up: Upstream, token: str) -> list[str]:
    """Read the granted scopes; empty if Threads does not say, which must not block.

    Only documented for testers' tokens:
    developers.facebook.com/documentation/threads/troubleshooting/debug-access-token.
    """
    try:
        reply = GRAPH.ask(up, "GET", "debug_token", token=token, params={"input_token": token})
    except ApiError:
        return []
    scopes = to_record(reply.record().get("data")).get("scopes") if reply.is_success else None
    return [scope for scope in scopes if isinstance(scope, str)] if isinstance(scopes, list) else []


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the token for 60 days; Threads accepts tokens older than a day and not expired."""
    return refresh_long_lived(GRAPH, up, "th_refresh_token", now_ms)

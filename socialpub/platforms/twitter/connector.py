"""X (formerly Twitter) through API v2: media first, then one public call.

There is no idempotency key: after a lost response the account's own list is searched.
"""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Draft,
    Json,
    OfferedAccount,
    Pending,
    PreviousPiece,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import find_status
from socialpub.platforms.twitter import media as twitter_media
from socialpub.platforms.twitter import post_search
from socialpub.platforms.twitter.api import REPLIES, build_unusable_error, call, data_of, id_of
from socialpub.platforms.twitter.declaration import PLATFORM, POST_ADDRESS

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

_WEB = "https://x.com"


# --- Publishing --------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Upload the media and build the post; `Pending` while a video is processed."""
    media = twitter_media.upload_all(up, draft, saved)
    if isinstance(media, Pending):
        return media
    body = _body(draft, [id for id, _ in media])
    plan = {"body": body, "keys": [key for _, key in media if key]}
    return Ready(plan | ({"is_later_piece": True} if draft.previous else {}))


def _body(draft: Draft, ids: list[str]) -> Json:
    answered = _find_id(draft.previous) if draft.previous else draft.options.get("replyToTweetId")
    quoted = draft.options.get("quoteTweetId")
    body: Json = {"text": draft.text}  # also an empty one: X rejects a post without the field
    if ids:
        body["media"] = {"media_ids": ids}
    if answered:
        body["reply"] = {"in_reply_to_tweet_id": answered}
    if quoted:
        body["quote_tweet_id"] = quoted
    return body | _build_settings(draft)


def _build_settings(draft: Draft) -> Json:
    """Build the parameters of options; X has none for replies by everyone."""
    names = {"communityId": "community_id", "madeWithAi": "made_with_ai", "paidPartnership": "paid_partnership"}
    found = {name: draft.options[key] for key, name in names.items() if draft.options.get(key)}
    repliers = draft.options.get("replySettings", "everyone")
    return found | ({} if repliers == "everyone" else {"reply_settings": repliers})


def _find_id(previous: PreviousPiece) -> str:
    """Return the id of the piece before, which a person may have reported by its address."""
    if previous.remote_id:
        return previous.remote_id
    found = POST_ADDRESS.fullmatch(previous.uri or "")
    assert found, "the address of a reported piece is checked when it is reported"
    return found[1]


def send(up: Upstream, plan: Json) -> Published:
    """Publish the post."""
    also = "piece" if plan.get("is_later_piece") else "quoting" if "quote_tweet_id" in plan["body"] else None
    reply = call(up, "send", "POST", "/2/tweets", json=plan["body"], mutating=True, also=also)
    id = id_of(data_of(reply))
    if not id:
        raise build_unusable_error(up, "send", reply, mutating=True)
    return _to_published(up, id)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Search the account's own list, where a new post appears after some seconds."""
    try:
        return _find_post(up, plan, since_ms - post_search.SKEW_MS)
    except ApiError as error:
        if error.stale_token or find_status(error) != 403:
            raise
        return Unknown({"error": error.message, "answer": error.platform_response}, final=True)


def _find_post(up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    listed = post_search.list_recent(up, since_ms)
    ids = [id for post in listed.posts if post_search.is_match(post, plan) and (id := id_of(post)) not in up.bound]
    if len(ids) == 1:
        return _to_published(up, ids[0])
    doubtful = [id_of(post) for post in listed.posts if post_search.is_doubtful(post, plan)]
    if found := [id for id in ids or doubtful if id not in up.bound]:
        return Unknown({"alike": found})
    evidence = {"posts": len(listed.posts)}
    # A post in a community need not be in the account's own list.
    is_absent = listed.complete and "community_id" not in plan["body"]
    return Absent(evidence) if is_absent else Unknown(evidence)


def _to_published(up: Upstream, id: str) -> Published:
    name = up.account.extra.get("username")
    url = f"{_WEB}/{name}/status/{id}" if name else f"{_WEB}/i/web/status/{id}"
    return Published(id, url, None, url)


# --- Connecting --------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the account of a login; its subscription decides the length of posts."""
    params = {"user.fields": "name,subscription_type,username"}
    reply = call(up, "identify", "GET", "/2/users/me", params=params)
    profile = data_of(reply)
    id, name = id_of(profile), profile.get("username")
    if not id or not isinstance(name, str) or not name:
        raise build_unusable_error(up, "identify", reply)
    extra = {"username": name, "subscriptionType": str(profile.get("subscription_type") or "None")}
    return (OfferedAccount(AccountIdentity(id, f"@{name}", extra), up.tokens, "person"),)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh both tokens; reusing the old refresh token ends the connection."""
    return oauth.refresh(PLATFORM, up, now_ms)


def revoke(up: Upstream) -> None:
    """Revoke both tokens."""
    oauth.revoke(PLATFORM, up, f"{up.site.api_base}/2/oauth2/revoke")

"""TikTok: drafts in the creator's inbox (Content Posting API, `video.upload`).

The creator confirms them in the app. A video's draft has its id before its first byte is sent, and is polled and
resumed by it, never created again; a draft in the inbox counts as success, so nothing is left to send. Opening a photo
draft delivers it at once, so that is the send: its id is stored and polled, but after a lost response it cannot be
looked up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import (
    AccountIdentity,
    Draft,
    Json,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.api_errors import to_id, to_record, to_text
from socialpub.platforms.kit.rule_catalog import build_warning
from socialpub.platforms.kit.uploads import whole_file
from socialpub.platforms.tiktok.api import (
    build_draft_error,
    build_rule_error,
    build_unusable_error,
    data_of,
    send_request,
)
from socialpub.platforms.tiktok.declaration import PLATFORM, PROFILE_SCOPE, REPLIES, has_video
from socialpub.platforms.tiktok.upload import (
    FIRST_WAIT,
    MISSES_MAX,
    TiktokUpload,
    fetch_status,
    plan_chunks,
    send_remaining,
    start,
)

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

PROCESSING_SECONDS_MAX = 30 * 60.0
_GROWTH, _LONGEST_WAIT = 1.6, 30.0
_PULL_FAILURES = frozenset({"video_pull_failed", "photo_pull_failed", "internal"})


# --- Publishing ----------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Open a video's draft and send its bytes; wait until a draft is in the creator's inbox."""
    state = TiktokUpload(**saved) if saved else TiktokUpload()
    if not state.publish:
        return _open_video(up, draft, state) if has_video(draft) else Ready(_photos(draft, state))
    if state.sent < state.size:
        found = send_remaining(up, draft.items[0], state)
        if isinstance(found, Pending):
            return found
        return replace(found, misses=0).later(FIRST_WAIT)
    return _poll(up, draft, state)


def send(up: Upstream, plan: Json) -> Published | Pending:
    """Open a photo draft. Any other draft is already in the inbox."""
    return _open_photos(up, plan) if "photos" in plan else _to_published(up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Unknown:
    """Return Unknown for photos: TikTok lists no drafts, and shows one only by its id."""
    if "photos" in plan:
        return Unknown({"reason": "TikTok shows a draft only to who has its id."}, final=True)
    return _to_published(up, plan)


def _to_published(up: Upstream, plan: Json) -> Published:
    publish, post, name = plan["publish"], plan["post"], up.account.extra.get("username")
    url = f"https://www.tiktok.com/@{name}/video/{post}" if post and name and plan["video"] else None
    warnings = () if plan["confirmed"] else (build_warning("tiktok_inbox_draft"),)
    return Published(publish, f"tiktok:publish:{publish}", None, url, warnings)


def _open_video(up: Upstream, draft: Draft, state: TiktokUpload) -> Pending:
    """Open an upload, stored before its first byte: without bytes it never becomes a draft."""
    size = whole_file(draft.items[0]).size
    chunk, count = plan_chunks(size)
    source = {"source": "FILE_UPLOAD", "video_size": size, "chunk_size": chunk, "total_chunk_count": count}
    try:
        reply = send_request(up, "POST", "post/publish/inbox/video/init/", json={"source_info": source})
        return start(up, draft.items[0], state, reply).later(0)
    except ApiError as error:
        return _wait_or_raise(state, error)


def _wait_or_raise(state: TiktokUpload, error: ApiError) -> Pending:
    """Wait after a transient failure of a repeatable call. Raises the failure otherwise."""
    may_pass = error.code == "platform_unavailable" and error.outcome in (Outcome.NOT_SENT, Outcome.AMBIGUOUS)
    if not may_pass or state.misses >= MISSES_MAX:
        raise replace(error, outcome=Outcome.NOT_SENT if may_pass else error.outcome) from error
    return state.missed()


def _open_photos(up: Upstream, plan: Json) -> Pending:
    reply = send_request(up, "POST", "post/publish/content/init/", json=plan["photos"])
    publish = to_id(data_of(up, "photos", reply, mutating=True).get("publish_id"))
    if not publish:
        raise build_unusable_error(up, "photos", reply, mutating=True)
    return TiktokUpload(publish, rebuilt=plan["rebuilt"]).later(FIRST_WAIT)


def _photos(draft: Draft, state: TiktokUpload) -> Json:
    """Build the plan of a photo draft."""
    said = {"title": draft.options.get("title"), "description": draft.text}
    images = [item.url or "" for item in draft.items]
    body = {
        "post_mode": "MEDIA_UPLOAD",
        "media_type": "PHOTO",
        "post_info": {name: text for name, text in said.items() if text},
        "source_info": {"source": "PULL_FROM_URL", "photo_cover_index": 0, "photo_images": images},
    }
    return {"photos": body, "rebuilt": state.rebuilt}


# --- Poll ----------------------------------------------------------------------------------------------------------


def _poll(up: Upstream, draft: Draft, state: TiktokUpload) -> Ready | Pending:
    """Poll the draft: ready once it is in the inbox."""
    try:
        reply = fetch_status(up, state.publish)
    except ApiError as error:
        return _wait_or_raise(state, error)
    data: dict[str, Any] = reply.record()["data"]
    said = data.get("status")
    if said in ("SEND_TO_USER_INBOX", "PUBLISH_COMPLETE"):
        return Ready(_plan(draft, state, data))
    if said == "FAILED":
        return _retry_draft(up, state, reply, to_text(data.get("fail_reason")))
    return _wait(up, replace(state, misses=0), reply)


def _plan(draft: Draft, state: TiktokUpload, data: Json) -> Json:
    posts = data.get("publicaly_available_post_id")  # TikTok's spelling
    return {
        "publish": state.publish,
        "video": has_video(draft),
        "confirmed": data.get("status") == "PUBLISH_COMPLETE",
        "post": to_id(posts[0]) if isinstance(posts, list) and posts else "",
    }


def _retry_draft(up: Upstream, state: TiktokUpload, reply: UpstreamResponse, reason: str) -> Pending:
    """Create another draft, once, if that may help: a failed one never reaches the inbox."""
    if reason in _PULL_FAILURES and not state.rebuilt:
        return TiktokUpload(rebuilt=1).missed()
    error = build_draft_error(up, reply, reason)
    error.absent, error.retryable = True, False
    raise error


def _wait(up: Upstream, state: TiktokUpload, reply: UpstreamResponse) -> Pending:
    if state.waited + state.wait > PROCESSING_SECONDS_MAX:
        raise build_rule_error(
            up, "publish.pending", Outcome.NOT_SENT, said={"status": reply.status_code, "body": reply.record()}
        )
    longer = min(state.wait * _GROWTH, _LONGEST_WAIT)
    return replace(state, waited=state.waited + state.wait, wait=longer).later(state.wait)


# --- Connecting ----------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
    """Return the creator of a login. The user name requires the profile scope."""
    fields = ("open_id", "display_name", "username")
    wanted = fields if PROFILE_SCOPE in up.tokens.private.get("scopes", ()) else fields[:2]
    reply = send_request(up, "GET", "user/info/", params={"fields": ",".join(wanted)})
    profile = to_record(data_of(up, "identify", reply).get("user"))
    id, name = to_text(profile.get("open_id")), to_text(profile.get("username"))
    if not id:
        raise build_unusable_error(up, "identify", reply)
    display_name = to_text(profile.get("display_name")) or name or None
    return (OfferedAccount(AccountIdentity(id, display_name, {"username": name} if name else {}), up.tokens, "person"),)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the tokens; the refresh token may change, which ends the old one."""
    return oauth.refresh(PLATFORM, up, now_ms)


def revoke(up: Upstream) -> None:
    """Revoke the authorization."""
    oauth.revoke(PLATFORM, up, f"{up.site.api_base}/v2/oauth/revoke/", (up.tokens.access,))

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
from socialpub.base.http import Response
from socialpub.platforms.contract import (
    Connected,
    Draft,
    Identity,
    Json,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.refusals import text_of
from socialpub.platforms.kit.rules import warning
from socialpub.platforms.kit.uploads import whole
from socialpub.platforms.tiktok.api import ask, data_of, failed, ruled, unusable
from socialpub.platforms.tiktok.declaration import PLATFORM, PROFILE_SCOPE, REPLIES, has_video
from socialpub.platforms.tiktok.upload import FIRST_WAIT, MISSES_MAX, Progress, cut, go_on, opened, status

__all__ = ["PLATFORM", "REPLIES", "identify", "prepare", "refresh", "revoke", "send", "settle"]

PATIENCE = 30 * 60.0
_GROWTH, _LONGEST_WAIT = 1.6, 30.0
_PULLED_IN_VAIN = frozenset({"video_pull_failed", "photo_pull_failed", "internal"})


# --- Publishing ----------------------------------------------------------------------------------------------------


def prepare(up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
    """Open a video's draft and send its bytes; wait until a draft is in the creator's inbox."""
    state = Progress(**saved) if saved else Progress()
    if not state.publish:
        return _open_video(up, draft, state) if has_video(draft) else Ready(_photos(draft, state))
    if state.sent < state.size:
        found = go_on(up, draft.items[0], state)
        if isinstance(found, Pending):
            return found
        return replace(found, misses=0).later(FIRST_WAIT)
    return _ask(up, draft, state)


def send(up: Upstream, plan: Json) -> Published | Pending:
    """Open a photo draft. Any other draft is already in the inbox."""
    return _open_photos(up, plan) if "photos" in plan else _delivered(up, plan)


def settle(up: Upstream, plan: Json, since_ms: int) -> Published | Unknown:
    """Return Unknown for photos: TikTok lists no drafts, and shows one only by its id."""
    if "photos" in plan:
        return Unknown({"reason": "TikTok shows a draft only to who has its id."}, final=True)
    return _delivered(up, plan)


def _delivered(up: Upstream, plan: Json) -> Published:
    publish, post, name = plan["publish"], plan["post"], up.account.extra.get("username")
    url = f"https://www.tiktok.com/@{name}/video/{post}" if post and name and plan["video"] else None
    warnings = () if plan["confirmed"] else (warning("tiktok_inbox_draft"),)
    return Published(publish, f"tiktok:publish:{publish}", None, url, warnings)


def _open_video(up: Upstream, draft: Draft, state: Progress) -> Pending:
    """Open an upload, stored before its first byte: without bytes it never becomes a draft."""
    size = whole(draft.items[0]).size
    chunk, count = cut(size)
    source = {"source": "FILE_UPLOAD", "video_size": size, "chunk_size": chunk, "total_chunk_count": count}
    try:
        reply = ask(up, "POST", "post/publish/inbox/video/init/", json={"source_info": source})
        return opened(up, draft.items[0], state, reply).later(0)
    except ApiError as error:
        return _passed(state, error)


def _passed(state: Progress, error: ApiError) -> Pending:
    """Wait after a transient failure of a repeatable call. Raises the failure otherwise."""
    may_pass = error.code == "platform_unavailable" and error.outcome in (Outcome.NOT_SENT, Outcome.AMBIGUOUS)
    if not may_pass or state.misses >= MISSES_MAX:
        raise replace(error, outcome=Outcome.NOT_SENT if may_pass else error.outcome) from error
    return state.missed()


def _open_photos(up: Upstream, plan: Json) -> Pending:
    reply = ask(up, "POST", "post/publish/content/init/", json=plan["photos"])
    publish = data_of(up, "photos", reply, mutating=True).get("publish_id")
    if not isinstance(publish, str) or not publish:
        raise unusable(up, "photos", reply, mutating=True)
    return Progress(publish, rebuilt=plan["rebuilt"]).later(FIRST_WAIT)


def _photos(draft: Draft, state: Progress) -> Json:
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


def _ask(up: Upstream, draft: Draft, state: Progress) -> Ready | Pending:
    """Poll the draft: ready once it is in the inbox."""
    try:
        reply = status(up, state.publish)
    except ApiError as error:
        return _passed(state, error)
    data: dict[str, Any] = reply.record()["data"]
    said = data.get("status")
    if said in ("SEND_TO_USER_INBOX", "PUBLISH_COMPLETE"):
        return Ready(_plan(draft, state, data))
    if said == "FAILED":
        return _came_to_nothing(up, state, reply, text_of(data.get("fail_reason")))
    return _wait(up, replace(state, misses=0), reply)


def _plan(draft: Draft, state: Progress, data: Json) -> Json:
    posts = data.get("publicaly_available_post_id")  # TikTok's spelling
    return {
        "publish": state.publish,
        "video": has_video(draft),
        "confirmed": data.get("status") == "PUBLISH_COMPLETE",
        "post": text_of(posts[0]) if isinstance(posts, list) and posts else "",
    }


def _came_to_nothing(up: Upstream, state: Progress, reply: Response, reason: str) -> Pending:
    """Create another draft, once, if that may help: a failed one never reaches the inbox."""
    if reason in _PULLED_IN_VAIN and not state.rebuilt:
        return Progress(rebuilt=1).missed()
    error = failed(up, reply, reason)
    error.absent, error.retryable = True, False
    raise error


def _wait(up: Upstream, state: Progress, reply: Response) -> Pending:
    if state.waited + state.wait > PATIENCE:
        raise ruled(up, "publish.pending", Outcome.NOT_SENT, said={"status": reply.status_code, "body": reply.record()})
    longer = min(state.wait * _GROWTH, _LONGEST_WAIT)
    return replace(state, waited=state.waited + state.wait, wait=longer).later(state.wait)


# --- Connecting ----------------------------------------------------------------------------------------------------


def identify(up: Upstream, now_ms: int) -> tuple[Connected, ...]:
    """Return the creator of a login. The user name requires the profile scope."""
    told = ("open_id", "display_name", "username")
    wanted = told if PROFILE_SCOPE in up.tokens.private.get("scopes", ()) else told[:2]
    reply = ask(up, "GET", "user/info/", params={"fields": ",".join(wanted)})
    user = data_of(up, "identify", reply).get("user")
    who = user if isinstance(user, dict) else {}
    id, name = text_of(who.get("open_id")), text_of(who.get("username"))
    if not id:
        raise unusable(up, "identify", reply)
    shown = text_of(who.get("display_name")) or name or None
    return (Connected(Identity(id, shown, {"username": name} if name else {}), up.tokens, "person"),)


def refresh(up: Upstream, now_ms: int) -> Tokens:
    """Refresh the tokens; the refresh token may change, which ends the old one."""
    return oauth.refresh(PLATFORM, up, now_ms)


def revoke(up: Upstream) -> None:
    """Revoke the authorization."""
    oauth.revoke(PLATFORM, up, f"{up.site.api_base}/v2/oauth/revoke/", (up.tokens.access,))

"""Uploads of images and videos to LinkedIn: bytes before the post, streamed from files.

Images take one call, a video the parts that LinkedIn names (Images API, Videos API). Nothing is public and every step
is repeatable; upload URLs are never stored, an interrupted upload starts over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlsplit

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, Response
from socialpub.platforms.contract import Draft, Item, Json, Pending, Upstream
from socialpub.platforms.kit.refusals import text_of
from socialpub.platforms.kit.uploads import Part, whole
from socialpub.platforms.linkedin.api import bearer, call, encoded, is_page, refused, ruled, unusable
from socialpub.platforms.linkedin.declaration import PLATFORM, is_linkedin

GRACE = 2.0  # for images whose status the token may not read
PATIENCE = 600.0
FIRST_WAIT, GROWTH, LONGEST_WAIT = 2.0, 1.5, 15.0
MISS_WAIT = 5.0
MISSES_MAX = 3
PART_TRIES = 3
_WAITING = ("WAITING_UPLOAD", "PROCESSING")


@dataclass(frozen=True)
class Progress:
    """Progress of a post's media: URNs of uploads, and how many are known to be ready."""

    done: tuple[str, ...] = ()
    ready: int = 0
    rested: bool = False
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0

    @classmethod
    def of(cls, saved: Json | None) -> Progress:
        known = dict(saved or {})
        return cls(**known | {"done": tuple(known.get("done", ()))})

    @property
    def is_late(self) -> bool:
        return self.waited + self.wait > PATIENCE

    def later(self, seconds: float) -> Pending:
        return Pending(asdict(self), seconds)


def uploaded(up: Upstream, draft: Draft, saved: Json | None) -> tuple[str, ...] | Pending:
    """Upload all items; return their URNs once ready, or `Pending`."""
    state = Progress.of(saved)
    while state.ready < len(draft.items):
        try:
            found = _next(up, draft, state)
        except ApiError as error:
            return _missed(state, error)
        if isinstance(found, Pending):
            return found
        state = found
    return state.done


def _next(up: Upstream, draft: Draft, state: Progress) -> Progress | Pending:
    if len(state.done) < len(draft.items):
        item = draft.items[len(state.done)]
        urn = _video(up, item) if item.kind == "video" else _image(up, item)
        return replace(state, done=(*state.done, urn), misses=0)
    if draft.items[0].kind == "image" and not is_page(up):
        # A member's token may write images but not read them (Images API, permissions).
        ready = replace(state, ready=len(state.done), rested=True)
        return ready if state.rested else replace(state, rested=True).later(GRACE)
    return _asked(up, draft, state)


def _missed(state: Progress, error: ApiError) -> Pending:
    passing = error.code == "platform_unavailable" and error.rule is None and error.outcome is not Outcome.THROTTLED
    if not passing or state.misses >= MISSES_MAX or state.is_late:
        raise error
    return replace(state, misses=state.misses + 1).later(error.retry_after or MISS_WAIT)


# --- Uploads -------------------------------------------------------------------------------------------------------


def _image(up: Upstream, item: Item) -> str:
    opened = _opened(up, "images", {})
    urn, url = text_of(opened["image"]), text_of(opened.get("uploadUrl"))
    _put(up, url, whole(item), bearer(up) if _is_theirs(up, url) else {})
    return urn


def _video(up: Upstream, item: Item) -> str:
    file = whole(item)
    asked = {"fileSizeBytes": file.size, "uploadCaptions": False, "uploadThumbnail": False}
    opened = _opened(up, "videos", asked)
    urn = text_of(opened["video"])
    parts = [_part(up, file, each) for each in opened["uploadInstructions"]]
    finish = {"video": urn, "uploadToken": text_of(opened.get("uploadToken")), "uploadedPartIds": parts}
    call(up, "finish", "POST", "videos", params={"action": "finalizeUpload"}, json={"finalizeUploadRequest": finish})
    return urn


def _opened(up: Upstream, kind: str, asked: Json) -> Json:
    """Open an upload; return the response, with all required data."""
    body = {"initializeUploadRequest": {"owner": up.account.platform_account_id, **asked}}
    reply = call(up, "begin", "POST", kind, params={"action": "initializeUpload"}, json=body)
    value = reply.record().get("value")
    known = value if isinstance(value, dict) else {}
    parts = known.get("uploadInstructions")
    whole = isinstance(parts, list) and parts if kind == "videos" else known.get("uploadUrl")
    if not whole or not text_of(known.get(kind[:-1])).startswith(f"urn:li:{kind[:-1]}:"):
        raise unusable(up, "begin", reply)
    return known


def _part(up: Upstream, file: Part, instruction: Json) -> str:
    """Upload a part; return its id. Its URL is signed: the store rejects an additional token."""
    first, last = instruction.get("firstByte"), instruction.get("lastByte")
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last < file.size):
        raise _odd(up)
    url = text_of(instruction.get("uploadUrl"))
    reply = _patiently(lambda: _put(up, url, Part(file.path, first, last + 1), {}))
    part: str = reply.headers.get("etag", "").removeprefix("W/").strip('"')
    if not part:
        raise unusable(up, "upload", reply)
    return part


def _odd(up: Upstream) -> ApiError:
    return unusable(up, "begin", Response(200, {}, b""))


def _patiently(put: Callable[[], Response]) -> Response:
    """Repeat a part at once after a lost response: restarting the upload is expensive."""
    for _ in range(PART_TRIES - 1):
        try:
            return put()
        except ApiError as error:
            if error.outcome is not Outcome.AMBIGUOUS:
                raise
    return put()


def _put(up: Upstream, url: str, part: Part, headers: dict[str, str]) -> Response:
    sent = {"Content-Type": "application/octet-stream", "Content-Length": str(part.size), **headers}
    reply = up.guarded.request("PUT", url, headers=sent, content=part, timeout=UPLOAD_SECONDS)
    if not reply.is_success:
        error = refused(up, "upload" if "Authorization" in headers else "signed upload", reply)
        # The store's response may repeat the signature.
        error.platform_response = {"status": reply.status_code}
        if reply.status_code >= 500:
            error.outcome = Outcome.AMBIGUOUS
        raise error
    return reply


def _is_theirs(up: Upstream, url: str) -> bool:
    """Return whether the URL may get the token: LinkedIn's, or the configured API's."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" == up.site.api_base or (parts.scheme == "https" and is_linkedin(url))


# --- Poll ----------------------------------------------------------------------------------------------------------


def _asked(up: Upstream, draft: Draft, state: Progress) -> Progress | Pending:
    """Poll the next item."""
    kind = draft.items[0].kind
    try:
        reply = call(up, "status", "GET", f"{kind}s/{encoded(state.done[state.ready])}")
    except ApiError as error:
        if kind == "image" and _status(error) == 403:  # may write, not read
            return replace(state, ready=len(state.done)) if state.rested else replace(state, rested=True).later(GRACE)
        raise
    body = reply.record()
    status = text_of(body.get("status"))
    if status == "AVAILABLE":
        return replace(state, ready=state.ready + 1, misses=0)
    if status == "PROCESSING_FAILED":
        said = {"status": reply.status_code, "body": body}
        raise ruled(up, "media.processing_failed", Outcome.REJECTED, text_of(body.get("processingFailureReason")), said)
    if status not in _WAITING:
        raise unusable(up, "status", reply)
    if state.is_late:
        raise _too_late(up, reply)
    longer = min(state.wait * GROWTH, LONGEST_WAIT)
    return replace(state, waited=state.waited + state.wait, wait=longer, misses=0).later(state.wait)


def _too_late(up: Upstream, reply: Response) -> ApiError:
    return ApiError(
        "platform_unavailable",
        "LinkedIn has been processing the media for ten minutes.",
        platform=PLATFORM.name,
        platform_version=PLATFORM.pinned(up.site),
        platform_response={"status": reply.status_code, "body": reply.record()},
        outcome=Outcome.NOT_SENT,
    )


def _status(error: ApiError) -> int:
    answer = error.platform_response
    return int(answer.get("status") or 0) if isinstance(answer, dict) else 0

"""Uploads of media to LinkedIn: bytes before the post, streamed from files.

Images and documents take one call, a video the parts that LinkedIn names (Images API, Documents API, Videos API).
Nothing is public and every step is repeatable; upload URLs are never stored, an interrupted upload starts over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import Draft, DraftMedia, Json, Pending, Upstream
from socialpub.platforms.kit.api_errors import find_status, to_id, to_record, to_records, to_text
from socialpub.platforms.kit.uploads import FileSlice, is_own_host, is_progress_usable, whole_file
from socialpub.platforms.linkedin.api import (
    build_auth_header,
    build_error,
    build_rule_error,
    build_unavailable_error,
    build_unusable_error,
    call,
    encode_urn,
    is_page,
)

GRACE = 2.0  # for images and documents whose status the token may not read
PROCESSING_SECONDS_MAX = 600.0
FIRST_WAIT, GROWTH, LONGEST_WAIT = 2.0, 1.5, 15.0
MISS_WAIT = 5.0
MISSES_MAX = 3
PART_TRIES = 3
_WAITING = ("WAITING_UPLOAD", "PROCESSING")


@dataclass(frozen=True)
class LinkedinUploads:
    """Progress of a post's media: URNs of uploads, and how many are known to be ready.

    `unfinished`: the request that assembles a video whose parts are all sent.
    """

    done: tuple[str, ...] = ()
    unfinished: Json = field(default_factory=dict)
    ready: int = 0
    rested: bool = False
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0

    @classmethod
    def of(cls, saved: Json | None) -> LinkedinUploads:
        known = dict(saved or {})
        return cls(**known | {"done": tuple(known.get("done", ()))})

    @property
    def is_late(self) -> bool:
        return self.waited + self.wait > PROCESSING_SECONDS_MAX

    def later(self, seconds: float) -> Pending:
        return Pending(asdict(self), seconds)


def upload_all(up: Upstream, draft: Draft, saved: Json | None) -> tuple[str, ...] | Pending:
    """Upload all items; return their URNs once ready, or `Pending`."""
    state = stored = LinkedinUploads.of(saved)
    while state.ready < len(draft.items):
        try:
            found = _upload_next(up, draft, state)
        except ApiError as error:
            return state.later(0) if state != stored and is_progress_usable(error) else _wait_after_error(state, error)
        if isinstance(found, Pending):
            return found
        state = found
    return state.done


def _upload_next(up: Upstream, draft: Draft, state: LinkedinUploads) -> LinkedinUploads | Pending:
    if len(state.done) < len(draft.items):
        item = draft.items[len(state.done)]
        if item.kind == "video" and not state.unfinished:
            return replace(state, unfinished=_send_parts(up, item), misses=0)
        urn = _finish(up, state.unfinished) if item.kind == "video" else _whole(up, item)
        return replace(state, done=(*state.done, urn), unfinished={}, misses=0)
    if draft.items[0].kind != "video" and not is_page(up):
        # A member's token may write images and documents but not read them (Images API, permissions).
        ready = replace(state, ready=len(state.done), rested=True)
        return ready if state.rested else replace(state, rested=True).later(GRACE)
    return _poll_next(up, draft, state)


def _wait_after_error(state: LinkedinUploads, error: ApiError) -> Pending:
    passing = error.code == "platform_unavailable" and error.rule is None and error.outcome is not Outcome.THROTTLED
    if not passing or state.misses >= MISSES_MAX or state.is_late:
        raise error
    return replace(state, misses=state.misses + 1).later(error.retry_after or MISS_WAIT)


# --- Uploads -------------------------------------------------------------------------------------------------------


def _whole(up: Upstream, item: DraftMedia) -> str:
    opened = _open_upload(up, f"{item.kind}s", {})
    urn, url = to_text(opened[item.kind]), to_text(opened.get("uploadUrl"))
    is_own = is_own_host(url, up.site.OWN_DOMAIN, up.site.api_base)
    _put(up, url, whole_file(item), build_auth_header(up) if is_own else {})
    return urn


def _send_parts(up: Upstream, item: DraftMedia) -> Json:
    """Send a video in LinkedIn's parts; return the request that assembles it (repeatable)."""
    file = whole_file(item)
    asked = {"fileSizeBytes": file.size, "uploadCaptions": False, "uploadThumbnail": False}
    opened = _open_upload(up, "videos", asked)
    parts = [_upload_part(up, file, each) for each in opened["uploadInstructions"]]
    token = to_text(opened.get("uploadToken"))
    return {"video": to_text(opened["video"]), "uploadToken": token, "uploadedPartIds": parts}


def _finish(up: Upstream, asked: Json) -> str:
    """Assemble a video; return its URN."""
    call(up, "finish", "POST", "videos", params={"action": "finalizeUpload"}, json={"finalizeUploadRequest": asked})
    return to_text(asked["video"])


def _open_upload(up: Upstream, kind: str, asked: Json) -> Json:
    """Open an upload; return the response, with all required data."""
    body = {"initializeUploadRequest": {"owner": up.account.platform_account_id, **asked}}
    reply = call(up, "begin", "POST", kind, params={"action": "initializeUpload"}, json=body)
    known = to_record(reply.record().get("value"))
    parts = known.get("uploadInstructions")
    whole = to_records(parts) == parts and parts if kind == "videos" else known.get("uploadUrl")
    if not whole or not to_id(known.get(kind[:-1])).startswith(f"urn:li:{kind[:-1]}:"):
        raise build_unusable_error(up, "begin", reply)
    return known


def _upload_part(up: Upstream, file: FileSlice, instruction: Json) -> str:
    """Upload a part; return its id. Its URL is signed: the store rejects an additional token."""
    first, last = instruction.get("firstByte"), instruction.get("lastByte")
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last < file.size):
        raise build_unusable_error(up, "begin", UpstreamResponse(200, {}, b""))
    url = to_text(instruction.get("uploadUrl"))
    reply = _retry_put(lambda: _put(up, url, FileSlice(file.path, first, last + 1), {}))
    part: str = reply.headers.get("etag", "").removeprefix("W/").strip('"')
    if not part:
        raise build_unusable_error(up, "upload", reply)
    return part


def _retry_put(put: Callable[[], UpstreamResponse]) -> UpstreamResponse:
    """Repeat a part at once after a lost response: restarting the upload is expensive."""
    for _ in range(PART_TRIES - 1):
        try:
            return put()
        except ApiError as error:
            if error.outcome is not Outcome.AMBIGUOUS:
                raise
    return put()


def _put(up: Upstream, url: str, part: FileSlice, headers: dict[str, str]) -> UpstreamResponse:
    sent = {"Content-Type": "application/octet-stream", "Content-Length": str(part.size), **headers}
    reply = up.guarded.request("PUT", url, headers=sent, content=part, timeout=UPLOAD_SECONDS)
    if not reply.is_success:
        error = build_error(up, "upload" if "Authorization" in headers else "signed upload", reply)
        # The store's response may repeat the signature.
        error.platform_response = {"status": reply.status_code}
        if reply.status_code >= 500:
            error.outcome = Outcome.AMBIGUOUS
        raise error
    return reply


# --- Poll ----------------------------------------------------------------------------------------------------------


def _poll_next(up: Upstream, draft: Draft, state: LinkedinUploads) -> LinkedinUploads | Pending:
    """Poll the next item."""
    kind = draft.items[0].kind
    try:
        reply = call(up, "status", "GET", f"{kind}s/{encode_urn(state.done[state.ready])}")
    except ApiError as error:
        if kind != "video" and find_status(error) == 403:  # may write, not read
            return replace(state, ready=len(state.done)) if state.rested else replace(state, rested=True).later(GRACE)
        raise
    body = reply.record()
    status = to_text(body.get("status"))
    if status == "AVAILABLE":
        return replace(state, ready=state.ready + 1, misses=0)
    if status == "PROCESSING_FAILED":
        said = {"status": reply.status_code, "body": body}
        raise build_rule_error(
            up, "media.processing_failed", Outcome.REJECTED, to_text(body.get("processingFailureReason")), said
        )
    if status not in _WAITING:
        raise build_unusable_error(up, "status", reply)
    if state.is_late:
        message = "LinkedIn did not finish processing the media within ten minutes."
        said = {"status": reply.status_code, "body": body}
        raise build_unavailable_error(up, message, Outcome.NOT_SENT, said)
    longer = min(state.wait * GROWTH, LONGEST_WAIT)
    return replace(state, waited=state.waited + state.wait, wait=longer, misses=0).later(state.wait)

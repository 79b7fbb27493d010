"""Video upload to TikTok: chunked by TikTok's rule, sent in order, resumable.

Source: developers.tiktok.com/doc/content-posting-api-media-transfer-guide.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import DraftMedia, Pending, Upstream
from socialpub.platforms.kit.api_errors import to_address, to_id
from socialpub.platforms.kit.uploads import FileSlice, is_own_host, whole_file
from socialpub.platforms.tiktok.api import build_error, build_rule_error, build_unusable_error, data_of, send_request

WHOLE_MAX = 64_000_000  # TikTok does not say whether its MB are decimal; this satisfies both readings
CHUNK = 10_000_000
FIRST_WAIT, MISS_WAIT = 1.0, 5.0
MISSES_MAX = 3  # tolerated consecutive failures
_GONE = (401, 403, 404)


@dataclass(frozen=True)
class TiktokUpload:
    """Draft in progress, stored between calls of `prepare`. `sent`: confirmed bytes."""

    publish: str = ""
    url: str = field(default="", repr=False)
    size: int = 0
    chunk: int = 0
    sent: int = 0
    unsure: bool = False  # a chunk's response was lost or a refusal: query the offset
    gone: bool = False  # the upload URL has expired
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0
    rebuilt: int = 0

    def later(self, seconds: float) -> Pending:
        return Pending(asdict(self), seconds)

    def missed(self) -> Pending:
        return replace(self, misses=self.misses + 1).later(MISS_WAIT)


def plan_chunks(size: int) -> tuple[int, int]:
    """Return size and number of the chunks. The last one includes the remainder."""
    chunk = size if size <= WHOLE_MAX else CHUNK
    return chunk, size // chunk


def start(up: Upstream, item: DraftMedia, state: TiktokUpload, reply: UpstreamResponse) -> TiktokUpload:
    """Start the progress from the response that opened an upload."""
    data = data_of(up, "video", reply)
    publish, url = to_id(data.get("publish_id")), to_address(data.get("upload_url"))
    size = whole_file(item).size
    if not (publish and is_own_host(url, up.site.OWN_DOMAIN, up.site.api_base)):
        raise build_unusable_error(up, "video", reply)
    return TiktokUpload(publish, url, size, plan_chunks(size)[0], misses=state.misses, rebuilt=state.rebuilt)


def send_remaining(up: Upstream, item: DraftMedia, state: TiktokUpload) -> TiktokUpload | Pending:
    """Send the remaining bytes; `Pending` after a failure."""
    while state.sent < state.size:
        found = _recover(up, state) if state.unsure else _send_chunk(up, item, state)
        if isinstance(found, Pending):
            return found
        state = found
    return state


# --- One chunk -------------------------------------------------------------------------------------------------------


def _send_chunk(up: Upstream, item: DraftMedia, state: TiktokUpload) -> TiktokUpload | Pending:
    """Send one chunk; `Pending` after a transient failure."""
    end = _end(state)
    try:
        reply = _put(up, item, state, end)
    except ApiError as lost:
        return _wait_after_error(state, lost)
    if reply.status_code in (201, 206):
        return replace(state, sent=end, misses=0)
    error = build_error(up, "upload", reply)
    if reply.status_code in _GONE:
        return replace(state, gone=True, unsure=True).missed()  # however often it failed before
    if reply.status_code == 416 or reply.status_code >= 500 or error.outcome is Outcome.THROTTLED:
        return _wait_after_error(state, error)
    raise error


def _end(state: TiktokUpload) -> int:
    end = state.sent + state.chunk
    return state.size if state.size - end < state.chunk else end


def _put(up: Upstream, item: DraftMedia, state: TiktokUpload, end: int) -> UpstreamResponse:
    part = FileSlice(item.file, state.sent, end)
    headers = {
        "Content-Type": item.content_type,
        "Content-Length": str(part.size),
        "Content-Range": f"bytes {state.sent}-{end - 1}/{state.size}",
    }
    return up.http.request("PUT", state.url, headers=headers, content=part, timeout=UPLOAD_SECONDS)


# --- After a failure -------------------------------------------------------------------------------------------------


def _wait_after_error(state: TiktokUpload, error: ApiError) -> Pending:
    if state.misses >= MISSES_MAX:
        raise replace(error, outcome=Outcome.NOT_SENT) from error
    return replace(state, unsure=True).missed()


def _recover(up: Upstream, state: TiktokUpload) -> TiktokUpload | Pending:
    """Resume where TikTok says. Another upload opens only if this one cannot become a draft."""
    try:
        data = fetch_status(up, state.publish).record()["data"]
    except ApiError as error:
        if error.code != "platform_unavailable":
            raise
        return _wait_after_error(state, error)
    if data.get("status") != "PROCESSING_UPLOAD":
        return replace(state, sent=state.size, unsure=False, gone=False)
    confirmed = data.get("uploaded_bytes")
    has = confirmed if isinstance(confirmed, int) and 0 <= confirmed <= state.size else None
    sent = state.sent if has is None else has
    if state.gone and sent < state.size:
        return _reopen(up, state, safe=has is not None)
    # Chunks begin at multiples of their size, so a partial one is repeated.
    whole = sent if sent == state.size else min(sent // state.chunk, plan_chunks(state.size)[1] - 1) * state.chunk
    return replace(state, sent=whole, unsure=False)


def _reopen(up: Upstream, state: TiktokUpload, *, safe: bool) -> Pending:
    """Open another upload, once. `safe`: this one lacks bytes and never becomes a draft."""
    if not safe or state.rebuilt:
        found = "The address for the upload is over."
        raise replace(build_rule_error(up, "upload.chunk_failed", Outcome.NOT_SENT, found), prepare_again=safe)
    return TiktokUpload(rebuilt=state.rebuilt + 1).later(MISS_WAIT)


def fetch_status(up: Upstream, publish: str) -> UpstreamResponse:
    """Fetch the status of a draft."""
    reply = send_request(up, "POST", "post/publish/status/fetch/", json={"publish_id": publish})
    data_of(up, "status", reply)
    return reply

"""Video upload by the Resumable Upload API, once Facebook refuses phased uploads.

Second choice: a phased upload has the video's id before its last step, while here the call that returns the id also
publishes (developers.facebook.com/docs/video-api/guides/publishing, /docs/graph-api/guides/upload).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import DraftMedia, Json, Pending, Upstream
from socialpub.platforms.contract.bounds import TOKEN_MAX
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.kit.api_errors import to_count, to_text
from socialpub.platforms.kit.uploads import FileSlice, whole_file
from socialpub.platforms.meta.graph import parse_fault

MISSES_MAX = 5
MISS_WAIT = 3.0
_UNSUPPORTED = frozenset({12, 2500})
_WORDS = ("upload_phase", "deprecated")


@dataclass(frozen=True)
class ResumableUpload:
    """Upload in progress. `unsure`: a response was lost, so the offset must be queried."""

    id: str
    sent: int = 0
    unsure: bool = False
    misses: int = 0

    def later(self, seconds: float) -> Pending:
        return Pending({"upload": asdict(self)}, seconds)


def is_wanted(up: Upstream, reply: UpstreamResponse) -> bool:
    """Return whether the refusal says that phased uploads have ended."""
    fault = parse_fault(reply)
    said = not _UNSUPPORTED.isdisjoint(fault.numbers) or any(word in fault.words for word in _WORDS)
    return said and bool(up.site.client_id)


def open_upload(up: Upstream, item: DraftMedia) -> ResumableUpload:
    """Open an upload of the app; nothing of it is public or belongs to a Page."""
    form = {"file_name": "video", "file_length": str(whole_file(item).size), "file_type": item.content_type}
    reply = GRAPH.call(up, "video", "POST", _address(up, f"{up.site.client_id}/uploads"), data=form)
    return ResumableUpload(GRAPH.id_of(up, "video", reply))


def may_continue(error: ApiError, misses: int) -> bool:
    """Return whether an upload goes on after `misses` failures and this one.

    A rate limit ends it once its progress is saved: more calls prolong the limit.
    """
    return error.code == "platform_unavailable" and misses < (1 if error.outcome is Outcome.THROTTLED else MISSES_MAX)


def upload_file(up: Upstream, item: DraftMedia, state: ResumableUpload) -> str | Pending:
    """Return the handle of the whole file, or `Pending` after a failure."""
    try:
        start = _offset(up, state) if state.unsure else state.sent
        if start >= whole_file(item).size:  # its handle was in the lost response
            return replace(open_upload(up, item), misses=state.misses).later(0)
        return _send_bytes(up, item, replace(state, sent=start))
    except ApiError as error:
        if not may_continue(error, state.misses):
            raise
        return replace(state, unsure=True, misses=state.misses + 1).later(MISS_WAIT)


def build_form(plan: Json) -> dict[str, str]:
    """Build the form that publishes an uploaded file."""
    return {"fbuploader_video_file_chunk": plan["handle"]} | (
        {"description": plan["message"]} if plan["message"] else {}
    )


def _send_bytes(up: Upstream, item: DraftMedia, state: ResumableUpload) -> str:
    part = FileSlice(item.file, state.sent, whole_file(item).size)
    headers = {**build_auth_header(up), "file_offset": str(state.sent), "Content-Length": str(part.size)}
    url = _address(up, state.id)
    reply = GRAPH.call(up, "video", "POST", url, headers=headers, content=part, timeout=UPLOAD_SECONDS)
    handle = to_text(reply.record().get("h"))  # one line or, of a large file, several
    if not 0 < len(handle) <= TOKEN_MAX:
        raise GRAPH.build_unusable(up, "video", reply)
    return handle


def _offset(up: Upstream, state: ResumableUpload) -> int:
    reply = GRAPH.call(up, "status", "GET", _address(up, state.id), headers=build_auth_header(up))
    return parse_offset(up, reply, reply.record().get("file_offset"))


def parse_offset(up: Upstream, reply: UpstreamResponse, offset: object) -> int:
    """Return how many bytes Facebook has received. Raises ApiError if that is no number."""
    found = to_count(offset)
    if found is None:
        raise GRAPH.build_unusable(up, "status", reply)
    return found


def build_auth_header(up: Upstream) -> dict[str, str]:
    """Return the token as upload hosts take it."""
    return {"Authorization": f"OAuth {up.tokens.access}"}


def _address(up: Upstream, path: str) -> str:
    return f"{up.site.upload_base}/{GRAPH.platform.pinned(up.site)}/{path}"

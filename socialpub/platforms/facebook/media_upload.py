"""Uploads of images and videos to a Page: as bytes, unpublished, streamed from their files.

A video is sent in the chunks that Facebook requests, and has its id before anything is public
(developers.facebook.com/docs/graph-api/reference/page/videos, chunked upload).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import Draft, DraftMedia, Json, Pending, Upstream
from socialpub.platforms.facebook import resumable_upload
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.facebook.resumable_upload import MISS_WAIT, ResumableUpload, may_continue
from socialpub.platforms.kit.api_errors import to_count
from socialpub.platforms.kit.uploads import FileSlice, build_form, whole_file
from socialpub.platforms.meta.graph import find_edge, parse_fault

_WRONG_OFFSET = 1363037  # error_data has the right offset


def upload_photos(up: Upstream, draft: Draft, saved: Json | None) -> list[str] | Pending:
    """Upload the images unpublished; return their ids, or `Pending` after a failure."""
    photos, misses = (list(saved["photos"]), saved["misses"]) if saved else ([], 0)
    for item in draft.items[len(photos) :]:
        try:
            photos.append(_upload_photo(up, item, draft))
        except ApiError as error:
            if not may_continue(error, misses):
                raise
            return Pending({"photos": photos, "misses": misses + 1}, MISS_WAIT)
        misses = 0
    return photos


def _upload_photo(up: Upstream, item: DraftMedia, draft: Draft) -> str:
    """Upload an unpublished image; return its id. It expires after a day if unused."""
    fields = {"published": "false"} | ({"alt_text_custom": item.alt_text} if item.alt_text else {})
    headers, content = build_form(fields, "source", whole_file(item), item.content_type, draft.nonce)
    reply = GRAPH.ask(up, "POST", find_edge(up, "photos"), headers=headers, content=content, timeout=UPLOAD_SECONDS)
    if not reply.is_success:
        raise GRAPH.refused(up, "photo", reply)
    return GRAPH.id_of(up, "photo", reply)


# --- Videos ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VideoUploadSession:
    """Chunked video upload; the next chunk is [start, end)."""

    session: str
    video: str
    start: int
    end: int
    misses: int = 0


def upload_video(up: Upstream, draft: Draft, saved: Json | None) -> VideoUploadSession | str | Pending:
    """Upload a video unpublished; return its session, or its handle without phased uploads.

    Returns `Pending` after a failure.
    """
    state = _load_state(saved) if saved else _start(up, draft.items[0])
    if isinstance(state, ResumableUpload):
        return resumable_upload.upload_file(up, draft.items[0], state)
    while state.start < state.end:
        found = _send_next(up, draft, state)
        if isinstance(found, Pending):
            return found
        state = found
    return state


def find_video_edge(up: Upstream) -> str:
    """Return the URL to upload and publish videos."""
    return f"{up.site.upload_base}/{GRAPH.platform.pinned(up.site)}/{up.account.platform_account_id}/videos"


def _load_state(saved: Json) -> VideoUploadSession | ResumableUpload:
    return ResumableUpload(**saved["upload"]) if "upload" in saved else VideoUploadSession(**saved)


def _start(up: Upstream, item: DraftMedia) -> VideoUploadSession | ResumableUpload:
    fields = {"upload_phase": "start", "file_size": str(whole_file(item).size)}
    reply = GRAPH.ask(up, "POST", find_video_edge(up), data=fields)
    if not reply.is_success:
        if resumable_upload.is_wanted(up, reply):
            return resumable_upload.open_upload(up, item)
        raise GRAPH.refused(up, "video", reply)
    session = GRAPH.id_of(up, "video", reply, key="upload_session_id")
    found = _apply_offsets(
        VideoUploadSession(session, GRAPH.id_of(up, "video", reply, key="video_id"), 0, 0), reply.record()
    )
    if found is None or found.start == found.end:
        raise GRAPH.build_unusable(up, "video", reply)
    return found


def _send_next(up: Upstream, draft: Draft, state: VideoUploadSession) -> VideoUploadSession | Pending:
    """Send the next chunk; repeating one is harmless."""
    item = draft.items[0]
    fields = {"upload_phase": "transfer", "upload_session_id": state.session, "start_offset": str(state.start)}
    part = FileSlice(item.file, state.start, state.end)
    headers, content = build_form(fields, "video_file_chunk", part, item.content_type, draft.nonce)
    try:
        reply = GRAPH.ask(up, "POST", find_video_edge(up), headers=headers, content=content, timeout=UPLOAD_SECONDS)
        error = None if reply.is_success else GRAPH.refused(up, "video", reply)
        found = _apply_offsets(state, reply.record() if reply.is_success else _correct_offset(reply))
    except ApiError as lost:
        error, found = lost, None
    if found and found.start != state.start:
        return replace(found, misses=0)
    error = error or GRAPH.build_unusable(up, "video", reply)
    if not may_continue(error, state.misses):
        raise error
    return Pending(asdict(replace(found or state, misses=state.misses + 1)), MISS_WAIT)


def _correct_offset(reply: UpstreamResponse) -> Json:
    fault = parse_fault(reply)
    return dict(fault.data) if fault.subcode == _WRONG_OFFSET else {}


def _apply_offsets(state: VideoUploadSession, body: Json) -> VideoUploadSession | None:
    """Apply the offsets of a response (digits as text); None without them."""
    start, end = to_count(body.get("start_offset")), to_count(body.get("end_offset"))
    return None if start is None or end is None or start > end else replace(state, start=start, end=end)

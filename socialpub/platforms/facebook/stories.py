"""Stories: an unpublished photo or video, published by one call and listed for a day.

A video takes three steps: a start that gives its id, the bytes, and the finish, which `video_publication` makes and
polls. Source: developers.facebook.com/docs/page-stories-api. The list has each story with the id of its photo or video.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError
from socialpub.base.http import UPLOAD_SECONDS
from socialpub.platforms.contract import Absent, DraftMedia, Json, Pending, Published, Unknown, Upstream
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.facebook.resumable_upload import MISS_WAIT, build_auth_header, may_continue, parse_offset
from socialpub.platforms.kit.api_errors import to_address, to_id, to_record, to_text
from socialpub.platforms.kit.uploads import FileSlice, is_own_host, whole_file
from socialpub.platforms.meta.graph import find_edge, has_next, list_data

_LISTED = {"fields": "post_id,status,media_id,url", "limit": "100"}
_PUBLISHED = "PUBLISHED"


def publish_photo(up: Upstream, plan: Json) -> Published:
    """Publish the photo as a story, and read its address."""
    form = {"photo_id": plan["photo"]}
    reply = GRAPH.call(up, "send", "POST", find_edge(up, "photo_stories"), mutating=True, data=form)
    if reply.record().get("success") is not True:
        raise GRAPH.build_unusable(up, "send", reply, mutating=True)
    return read_address(up, plan["photo"], GRAPH.id_of(up, "send", reply, mutating=True, key="post_id"))


def read_address(up: Upstream, media: str, id: str) -> Published:
    """Return a published story as it is listed, or by `id` alone if it is not."""
    try:
        found = look_up(up, media)
    except ApiError:  # it is published all the same
        return Published(id)
    return found if isinstance(found, Published) else Published(id)


def look_up(up: Upstream, media: str) -> Published | Absent | Unknown:
    """Find the story of a photo or video in the Page's list."""
    reply = GRAPH.call(up, "settle", "GET", find_edge(up, "stories"), params=_LISTED)
    if not isinstance(reply.record().get("data"), list):
        raise GRAPH.build_unusable(up, "settle", reply)
    stories = [story for story in list_data(reply) if to_text(story.get("media_id")) == media]
    for story in stories:
        id, url = to_id(story.get("post_id")), to_address(story.get("url")) or None
        if id and to_text(story.get("status")).upper() == _PUBLISHED:
            return Published(id, url, None, url)
    evidence = {"stories": stories}
    return Unknown(evidence) if stories or has_next(reply.record()) else Absent(evidence)


# --- Videos ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoryUpload:
    """Upload of a story's video.

    `unsure`: a response was lost, so the bytes received must be queried.
    """

    video: str
    url: str
    unsure: bool = False
    misses: int = 0


def upload_video(up: Upstream, item: DraftMedia, saved: Json | None) -> str | Pending:
    """Upload a video that no story shows yet; return its id, or `Pending` after a failure."""
    state = StoryUpload(**saved["story"]) if saved else _start(up)
    try:
        file = whole_file(item)
        sent = min(_count_received(up, state), file.size) if state.unsure else 0
        if sent < file.size:
            _send_bytes(up, state, FileSlice(file.path, sent, file.size))
        return state.video
    except ApiError as error:
        if not may_continue(error, state.misses):
            raise
        return Pending({"story": asdict(replace(state, unsure=True, misses=state.misses + 1))}, MISS_WAIT)


def _start(up: Upstream) -> StoryUpload:
    reply = GRAPH.call(up, "video", "POST", find_edge(up, "video_stories"), data={"upload_phase": "start"})
    state = StoryUpload(GRAPH.id_of(up, "video", reply, key="video_id"), to_address(reply.record().get("upload_url")))
    if not is_own_host(state.url, "facebook.com", up.site.upload_base):
        raise GRAPH.build_unusable(up, "video", reply)
    return state


def _send_bytes(up: Upstream, state: StoryUpload, part: FileSlice) -> None:
    headers = {
        **build_auth_header(up),
        "offset": str(part.start),
        "file_size": str(part.end),
        "Content-Length": str(part.size),
    }
    reply = GRAPH.call(up, "video", "POST", state.url, headers=headers, content=part, timeout=UPLOAD_SECONDS)
    if reply.record().get("success") is not True:
        raise GRAPH.build_unusable(up, "video", reply)


def _count_received(up: Upstream, state: StoryUpload) -> int:
    """Return the bytes that Facebook has, whose field has Meta's own spelling in its guides."""
    reply = GRAPH.call(up, "status", "GET", state.video, params={"fields": "status"})
    known = to_record(to_record(reply.record().get("status")).get("uploading_phase"))
    return parse_offset(up, reply, known.get("bytes_transfered", known.get("bytes_transferred", 0)))

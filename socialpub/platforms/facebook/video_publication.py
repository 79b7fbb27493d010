"""Last step of a video or its story: accepted at once, public once processed, or never.

Its id is known before that step, so it can be polled (developers.facebook.com/docs/graph-api/reference/video,
`status`). Until it is both ready and published it is pending.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import Absent, Json, Pending, Published, Ready, Unknown, Upstream
from socialpub.platforms.facebook import media_upload, resumable_upload, stories
from socialpub.platforms.facebook.declaration import GRAPH
from socialpub.platforms.kit.api_errors import to_address, to_id, to_record, to_text
from socialpub.platforms.meta.graph import AUTH, find_edge

WEB = "https://www.facebook.com"
FIRST_WAIT, GROWTH, LONGEST_WAIT = 1.0, 1.6, 60.0
PROCESSING_SECONDS_MAX = 3600.0
MISSES_MAX = 8
_FIELDS = "status,published,permalink_url,post_id"
_STORY_FIELDS = "status,post_id"  # page-stories-api: the phases tell whether it is published
_PHASES = ("uploading_phase", "processing_phase", "publishing_phase")
_DONE = ("complete", "completed")
_BEGUN = ("in_progress", *_DONE)
_OVER = ("error", "expired", "upload_failed")
_UNASKED = ("uploading", "upload_complete", "ready")  # with nothing started: the last step was not received


@dataclass(frozen=True)
class FinishedUpload:
    """Video whose last step was accepted: progress of polling."""

    video: str
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0
    story: bool = False

    @classmethod
    def of(cls, plan: Json) -> FinishedUpload:
        return cls(plan["video"], story=plan["kind"] == "video_story")

    def later(self, seconds: float) -> Pending:
        return Pending({"taken": asdict(self)}, seconds)


def finish(up: Upstream, plan: Json) -> Pending:
    """Make the last step. After a clear refusal, check the video at once."""
    try:
        _finish(up, plan)
    except ApiError as error:
        if error.outcome is not Outcome.REJECTED or error.code == AUTH:
            raise
        found = _look_up(up, plan)
        if isinstance(found, Pending):
            return found
        error.absent = isinstance(found, Absent)
        raise
    return FinishedUpload.of(plan).later(FIRST_WAIT)


def publish(up: Upstream, plan: Json) -> Pending:
    """Publish a completely uploaded video; the response has its id."""
    form = resumable_upload.build_form(plan)
    reply = GRAPH.call(up, "send", "POST", media_upload.find_video_edge(up), mutating=True, data=form)
    return FinishedUpload(GRAPH.id_of(up, "send", reply, mutating=True)).later(FIRST_WAIT)


def _finish(up: Upstream, plan: Json) -> None:
    if plan["kind"] == "video_story":
        edge = find_edge(up, "video_stories")
        form = {"upload_phase": "finish", "video_id": plan["video"]}
    else:
        edge = media_upload.find_video_edge(up)
        form = {"upload_phase": "finish", "upload_session_id": plan["session"]}
        form |= {"description": plan["message"]} if plan["message"] else {}
    reply = GRAPH.call(up, "send", "POST", edge, mutating=True, data=form)
    if reply.record().get("success") is not True:
        raise GRAPH.build_unusable(up, "send", reply, mutating=True)


def _look_up(up: Upstream, plan: Json) -> Published | Pending | Absent | Unknown:
    try:
        return look_up(up, plan)
    except ApiError as error:
        return Unknown({"error": error.message})


def look_up(up: Upstream, plan: Json) -> Published | Pending | Absent | Unknown:
    """Look up a last step after a lost response. `Pending`: accepted, or failed for good."""
    state = FinishedUpload.of(plan)
    seen = _fetch_status(up, state)
    if _is_live(seen):
        return _read_published(up, state, seen)
    if _has_failed(seen) or _is_begun(seen):
        return state.later(FIRST_WAIT)
    return Absent({"body": seen}) if _state(seen) in _UNASKED else Unknown({"body": seen})


def poll(up: Upstream, state: FinishedUpload) -> Ready | Pending:
    """Poll a video: ready once public. Raises ApiError with Facebook's text if it failed."""
    try:
        seen = _fetch_status(up, state)
    except ApiError as error:
        if error.code == AUTH or state.misses >= MISSES_MAX:
            raise replace(error, outcome=Outcome.NOT_SENT) from error
        return _wait(up, replace(state, misses=state.misses + 1), {}, error.retry_after or 0)
    if _is_live(seen):
        found = _read_published(up, state, seen)
        return Ready({"kind": "video", "video": found.remote_id, "live": found.url or ""})
    if _has_failed(seen):
        raise _failed_error(up, seen)
    return _wait(up, replace(state, misses=0), seen)


def to_published(video: str, url: str) -> Published:
    return Published(video, url or None, None, url or None)


def _read_published(up: Upstream, state: FinishedUpload, seen: Json) -> Published:
    if state.story:
        return stories.read_address(up, state.video, to_id(seen.get("post_id")) or state.video)
    return to_published(state.video, _url(seen))


# --- Tools -------------------------------------------------------------------------------------------------------


def _wait(up: Upstream, state: FinishedUpload, seen: Json, least: int = 0) -> Pending:
    if state.waited + state.wait > PROCESSING_SECONDS_MAX:
        message = "Facebook has not finished processing the video within an hour."
        error = GRAPH.build_unavailable(up, message, Outcome.NOT_SENT, {"status": 200, "body": seen})
        error.retryable = False  # another hour would not tell more, and it may still become public
        raise error
    longer = min(state.wait * GROWTH, LONGEST_WAIT)
    seconds = max(state.wait, min(least, PROCESSING_SECONDS_MAX))
    return replace(state, waited=state.waited + seconds, wait=longer).later(seconds)


def _failed_error(up: Upstream, seen: Json) -> ApiError:
    words = ", ".join(_words(seen))[:300] or f"Its status is {_state(seen)}."
    error = GRAPH.build_violation(up, "media.invalid", Outcome.REJECTED, words, {"status": 200, "body": seen})
    error.absent, error.retryable = True, False
    return error


def _fetch_status(up: Upstream, state: FinishedUpload) -> Json:
    fields = {"fields": _STORY_FIELDS if state.story else _FIELDS}
    return GRAPH.call(up, "status", "GET", state.video, params=fields).record()


def _state(seen: Json) -> str:
    return to_text(to_record(seen.get("status")).get("video_status"))


def _phases(seen: Json) -> Iterator[Json]:
    yield from (_phase(seen, name) for name in _PHASES)


def _phase(seen: Json, name: str) -> Json:
    return to_record(to_record(seen.get("status")).get(name))


def _is_live(seen: Json) -> bool:
    phase = _phase(seen, "publishing_phase")
    out = phase.get("status") in _DONE or phase.get("publish_status") == "published"
    return _state(seen) == "ready" and (seen.get("published") is True or (out and seen.get("published") is None))


def _is_begun(seen: Json) -> bool:
    phase = _phase(seen, "publishing_phase")
    return phase.get("status") in _BEGUN or phase.get("publish_status") == "published" or seen.get("published") is True


def _has_failed(seen: Json) -> bool:
    failing = any("error" in (phase.get("status"), phase.get("publish_status")) for phase in _phases(seen))
    return _state(seen) in _OVER or failing


def _words(seen: Json) -> Iterator[str]:
    """Yield the error texts of the phases: an object each, or a list."""
    for phase in _phases(seen):
        said = phase.get("error") or phase.get("errors") or []
        for each in said if isinstance(said, list) else [said]:
            yield to_text(each.get("message")) or json.dumps(each) if isinstance(each, dict) else str(each)


def _url(seen: Json) -> str:
    """Return the video's page; its permalink is often only a path."""
    link, post = to_address(seen.get("permalink_url")), to_id(seen.get("post_id"))
    link = f"{WEB}{link}" if link.startswith("/") else link
    return link or (f"{WEB}/{post}" if post else "")

"""Uploads of images and videos to X: as bytes before the post, streamed from their files.

Images take one call, animations and videos several segments (docs.x.com/x-api/media/quickstart). Nothing is public, and
every step is repeatable; `TwitterUploads` holds the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import Draft, DraftMedia, Json, Pending, Upstream
from socialpub.platforms.kit.api_errors import find_status, to_count, to_id, to_record
from socialpub.platforms.kit.uploads import FileSlice, build_form, is_progress_usable, whole_file
from socialpub.platforms.twitter.api import Step, build_rule_error, build_unusable_error, call, data_of, id_of

MIB = 1 << 20
SEGMENTS_MAX = 1000
TOTAL_WAIT = 1800.0
_WAIT_MIN, _WAIT_MAX, _WAIT_UNSAID = 1.0, 30.0, 5.0
_MISSES_MAX = 3
_MISS_WAIT = 2.0
_BEGINS_MAX = 2
_UPLOAD = "/2/media/upload"


@dataclass(frozen=True)
class TwitterUploads:
    """Progress of media: finished (media id, media key) pairs, and the next step."""

    done: tuple[tuple[str, str], ...] = ()
    phase: str = "begin"
    id: str = ""
    key: str = ""
    sent: int = 0  # segments
    waited: float = 0.0
    begun: int = 0
    misses: int = 0

    @classmethod
    def of(cls, saved: Json | None) -> TwitterUploads:
        known = dict(saved or {})
        return cls(**known | {"done": tuple((id, key) for id, key in known.get("done", ()))})


def upload_all(up: Upstream, draft: Draft, saved: Json | None) -> tuple[tuple[str, str], ...] | Pending:
    """Upload all items; return (media id, media key) pairs once ready, or `Pending`."""
    state = stored = TwitterUploads.of(saved)
    while len(state.done) < len(draft.items):
        try:
            found = _PHASES[state.phase](up, draft, state)
        except ApiError as error:
            if state != stored and is_progress_usable(error):
                return Pending(asdict(state), 0.0)
            found = _continue_after_error(state, error)
        if isinstance(found, Pending):
            return found
        state = found
    return state.done


def segment_size(total: int) -> int:
    """Return the bytes per segment: 1 MiB, or more to need at most a thousand."""
    least = -(-total // SEGMENTS_MAX)
    return max(1, -(-least // MIB)) * MIB


# --- Steps -----------------------------------------------------------------------------------------------------------


def _begin(up: Upstream, draft: Draft, state: TwitterUploads) -> TwitterUploads | Pending:
    item = draft.items[len(state.done)]
    if _category(item) == "tweet_image":
        fields = {"media_category": "tweet_image"}
        reply = _post(up, "upload", _UPLOAD, fields, whole_file(item), item.content_type, draft)
        return _check_processing(up, _set_id(up, state, reply), reply)
    body = {"media_type": item.content_type, "total_bytes": whole_file(item).size, "media_category": _category(item)}
    reply = call(up, "upload", "POST", f"{_UPLOAD}/initialize", json=body)
    return _to(_set_id(up, state, reply), "append")


def _append(up: Upstream, draft: Draft, state: TwitterUploads) -> TwitterUploads:
    item = draft.items[len(state.done)]
    total = whole_file(item).size
    size = segment_size(total)
    start = state.sent * size
    if start >= total:
        return _to(state, "finalize")
    part, fields = FileSlice(item.file, start, min(start + size, total)), {"segment_index": str(state.sent)}
    _post(up, "append", f"{_UPLOAD}/{state.id}/append", fields, part, item.content_type, draft)
    return replace(state, sent=state.sent + 1, misses=0)


def _finalize(up: Upstream, draft: Draft, state: TwitterUploads) -> TwitterUploads | Pending:
    reply = call(up, "finalize", "POST", f"{_UPLOAD}/{state.id}/finalize")
    return _check_processing(up, state, reply)


def _wait(up: Upstream, draft: Draft, state: TwitterUploads) -> TwitterUploads | Pending:
    params = {"command": "STATUS", "media_id": state.id}
    reply = call(up, "status", "GET", _UPLOAD, params=params)
    return _check_processing(up, state, reply)


def _describe(up: Upstream, draft: Draft, state: TwitterUploads) -> TwitterUploads:
    item = draft.items[len(state.done)]
    if item.alt_text and item.kind == "image":
        body = {"id": state.id, "metadata": {"alt_text": {"text": item.alt_text}}}
        call(up, "metadata", "POST", "/2/media/metadata", json=body)
    return TwitterUploads((*state.done, (state.id, state.key)))


_PHASES: Mapping[str, Callable[[Upstream, Draft, TwitterUploads], TwitterUploads | Pending]] = {
    "begin": _begin,
    "append": _append,
    "finalize": _finalize,
    "wait": _wait,
    "describe": _describe,
}


# --- Step results ------------------------------------------------------------------------------------------------


def _set_id(up: Upstream, state: TwitterUploads, reply: UpstreamResponse) -> TwitterUploads:
    data = data_of(reply)
    id, key = id_of(data), to_id(data.get("media_key"))
    if not id:
        raise build_unusable_error(up, "upload", reply)
    return replace(state, id=id, key=key, sent=0, begun=state.begun + 1, waited=0.0)


def _check_processing(up: Upstream, state: TwitterUploads, reply: UpstreamResponse) -> TwitterUploads | Pending:
    """Continue with the alt text once processed; without `processing_info` nothing is pending."""
    data = data_of(reply)
    if id_of(data) != state.id:
        raise build_unusable_error(up, "status", reply)
    state = replace(state, key=to_id(data.get("media_key")) or state.key)
    info = data.get("processing_info")
    if not isinstance(info, dict) or info.get("state") == "succeeded":
        return _to(state, "describe")
    if info.get("state") == "failed":
        said = {"status": reply.status_code, "body": reply.json()}
        raise build_rule_error(up, "media.video_processing_failed", Outcome.REJECTED, _reason(info), said)
    return _poll_later(up, state, info.get("check_after_secs"))


def _reason(info: Json) -> str:
    # Undocumented in v2 (it was in the older version), but still sent.
    error = to_record(info.get("error"))
    reason = error.get("message") or error.get("name")
    return str(reason)[:300] if reason else ""


def _poll_later(up: Upstream, state: TwitterUploads, seconds: object) -> Pending:
    asked = to_count(seconds) if isinstance(seconds, int) else None
    wait = min(max(_WAIT_UNSAID if asked is None else float(asked), _WAIT_MIN), _WAIT_MAX)
    if state.waited + wait > TOTAL_WAIT:
        raise build_rule_error(up, "media.processing_timeout", Outcome.NOT_SENT)
    return Pending(asdict(replace(_to(state, "wait"), waited=state.waited + wait)), wait)


def _continue_after_error(state: TwitterUploads, error: ApiError) -> TwitterUploads | Pending:
    """Continue after a failed step: start over, repeat it, or raise."""
    if _is_gone(state, error):
        return TwitterUploads(state.done, begun=state.begun)
    passing = error.code == "platform_unavailable" and error.rule is None and error.outcome is not Outcome.THROTTLED
    if not passing or state.misses >= _MISSES_MAX:
        raise error
    return Pending(asdict(replace(state, misses=state.misses + 1)), _MISS_WAIT)


def _is_gone(state: TwitterUploads, error: ApiError) -> bool:
    """Return whether X has lost the upload (kept for a day) or a part of it."""
    is_started = state.phase in ("append", "finalize", "wait") and state.begun < _BEGINS_MAX
    return is_started and error.code == "platform_rejected" and error.rule is None and find_status(error) in (400, 404)


def _to(state: TwitterUploads, phase: str) -> TwitterUploads:
    return replace(state, phase=phase, misses=0)


# --- Files and forms ---------------------------------------------------------------------------------------------


def _post(
    up: Upstream, step: Step, path: str, fields: Json, part: FileSlice, kind: str, draft: Draft
) -> UpstreamResponse:
    headers, content = build_form(fields, "media", part, kind, draft.nonce)
    return call(up, step, "POST", path, headers=headers, content=content, timeout=UPLOAD_SECONDS)


def _category(item: DraftMedia) -> str:
    """Return the media category. Only GIF animations become videos; others show a still frame."""
    if item.kind == "video":
        return "tweet_video"
    moves = item.facts is not None and item.facts.animated and item.content_type == "image/gif"
    return "tweet_gif" if moves else "tweet_image"

"""Uploads of images and videos to Pinterest, streamed from their files.

Images are part of the call that creates the pin, as base64, so that Pinterest needs to fetch nothing; only types not
allowed there (WebP, GIF) are given by URL. A video is uploaded first, by a signed form (api-description v5, POST
/media).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import Draft, DraftMedia, Json, Pending, Upstream
from socialpub.platforms.kit.api_errors import to_address, to_id, to_text
from socialpub.platforms.kit.uploads import build_form, whole_file
from socialpub.platforms.pinterest.api import build_rule_error, build_unusable_error, call

INLINE = ("image/jpeg", "image/png")
PROCESSING_SECONDS_MAX = 600.0
FIRST_WAIT, GROWTH, LONGEST_WAIT = 2.0, 1.25, 5.0
MISS_WAIT = 5.0
MISSES_MAX = 3
_CHUNK = 3 * (1 << 16)  # multiple of three bytes, so that base64 pieces can be joined


# --- Images --------------------------------------------------------------------------------------------------------


def build_source(items: Sequence[DraftMedia]) -> Json:
    """Build the media source of one or more images for the plan; files by path."""
    inline = all(item.content_type in INLINE for item in items)
    if inline:
        files = [{"path": str(item.file), "content_type": item.content_type} for item in items]
        return {"source_type": "image_base64" if len(files) == 1 else "multiple_image_base64", "files": files}
    urls = [{"url": item.url} for item in items]
    if len(urls) == 1:
        return {"source_type": "image_url", **urls[0]}
    return {"source_type": "multiple_image_urls", "items": urls}


BodyPart = str | Path


def build_body(pin: Json, source: Json) -> list[BodyPart]:
    """Build the body that creates a pin: texts, and files to be sent as base64 in their place."""
    if "files" not in source:
        return [json.dumps(pin | {"media_source": source})]
    head = json.dumps(pin)[:-1] + ', "media_source": {"source_type": ' + json.dumps(source["source_type"]) + ", "
    files = source["files"]
    if len(files) == 1:
        return [head, *_inline(files[0]), "}}"]
    joined: list[BodyPart] = [head + '"items": [']
    for place, file in enumerate(files):
        joined += [", {" if place else "{", *_inline(file), "}"]
    return [*joined, "]}}"]


def _inline(file: Json) -> list[BodyPart]:
    return [f'"content_type": {json.dumps(file["content_type"])}, "data": "', Path(file["path"]), '"']


def count_bytes(body: Sequence[BodyPart]) -> int:
    """Count the bytes that `stream` yields."""
    return sum(len(piece) if isinstance(piece, str) else -(-piece.stat().st_size // 3) * 4 for piece in body)


def stream(body: Sequence[BodyPart]) -> Iterator[bytes]:
    for piece in body:
        if isinstance(piece, str):
            yield piece.encode("ascii")
            continue
        with piece.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield base64.b64encode(chunk)


# --- Videos --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinterestUpload:
    """Video upload in progress. `media` is set once the bytes are sent; the form is not stored."""

    media: str = ""
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0

    def later(self, seconds: float) -> Pending:
        return Pending(asdict(self), seconds)


def upload_video(up: Upstream, draft: Draft, saved: Json | None) -> str | Pending:
    """Return the id of a processed video; `Pending` while it is not."""
    state = PinterestUpload(**saved) if saved else PinterestUpload()
    return _poll(up, state) if state.media else _upload(up, draft, state)


def _upload(up: Upstream, draft: Draft, state: PinterestUpload) -> Pending:
    """Open an upload and send the file. A failed upload starts over; it is never visible."""
    try:
        opened = _open_upload(up)
        _put(up, draft, opened)
    except ApiError as error:
        if error.code != "platform_unavailable" or error.outcome is Outcome.THROTTLED or state.misses >= MISSES_MAX:
            raise
        return replace(state, misses=state.misses + 1).later(MISS_WAIT)
    return PinterestUpload(to_id(opened["media_id"])).later(FIRST_WAIT)


def _open_upload(up: Upstream) -> Json:
    try:
        reply = call(up, "register", "POST", "media", json={"media_type": "video"})
    except ApiError as error:
        if error.rule or error.code == "platform_auth_failed" or error.outcome is Outcome.THROTTLED:
            raise
        raise build_rule_error(
            up, "media.register_failed", Outcome.NOT_SENT, error.message, error.platform_response
        ) from error
    found = reply.record()
    form = found.get("upload_parameters")
    if not (to_id(found.get("media_id")) and to_address(found.get("upload_url")) and isinstance(form, dict)):
        raise build_rule_error(
            up, "media.register_failed", Outcome.NOT_SENT, build_unusable_error(up, "register", reply).message
        )
    return found


def _put(up: Upstream, draft: Draft, opened: Json) -> None:
    """Send the signed form with the file as its last field; the store accepts no token."""
    item, fields, url = draft.items[0], opened["upload_parameters"], opened["upload_url"]
    headers, content = build_form(fields, "file", whole_file(item), item.content_type, draft.nonce, filename="video")
    try:
        reply = up.guarded.request("POST", url, headers=headers, content=content, timeout=UPLOAD_SECONDS)
    except ApiError as error:
        raise build_rule_error(up, "video.upload_failed", Outcome.NOT_SENT, error.message) from error
    if not reply.is_success:
        # The store answers in XML, and may repeat its signature.
        raise build_rule_error(
            up, "video.upload_failed", Outcome.NOT_SENT, _store_error_text(reply), {"status": reply.status_code}
        )


def _store_error_text(reply: UpstreamResponse) -> str:
    code = reply.content.partition(b"<Code>")[2].partition(b"</Code>")[0][:100].decode("ascii", "replace")
    return f"The store answered {reply.status_code} {code}.".replace(" .", ".")


def _poll(up: Upstream, state: PinterestUpload) -> str | Pending:
    """Poll the video; return its id once processed."""
    try:
        reply = call(up, "status", "GET", f"media/{state.media}")
    except ApiError as error:
        return _wait_after_error(up, state, error)
    status = to_text(reply.record().get("status"))
    if status == "succeeded":
        return state.media
    if status == "failed":
        said = {"status": reply.status_code, "body": reply.record()}
        raise build_rule_error(up, "video.transcode_failed", Outcome.REJECTED, said=said)
    if status not in ("registered", "processing"):
        return _wait_after_error(up, state, build_unusable_error(up, "status", reply))
    if state.waited + state.wait > PROCESSING_SECONDS_MAX:
        raise build_rule_error(up, "video.transcode_timeout", Outcome.NOT_SENT)
    longer = min(state.wait * GROWTH, LONGEST_WAIT)
    return replace(state, waited=state.waited + state.wait, wait=longer, misses=0).later(state.wait)


def _wait_after_error(up: Upstream, state: PinterestUpload, error: ApiError) -> Pending:
    if error.code == "platform_auth_failed" or error.rule:
        raise error
    if state.misses >= MISSES_MAX:
        said = error.platform_response
        lost = build_rule_error(up, "media.status_unavailable", Outcome.NOT_SENT, error.message, said)
        raise replace(lost, prepare_again=error.outcome is Outcome.REJECTED) from error
    return replace(state, misses=state.misses + 1).later(error.retry_after or MISS_WAIT)

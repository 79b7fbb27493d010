"""Uploads to X: images in one call, everything in segments; processed, and held for a day."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.ledger import PublishedMedia
from socialpub.simulator.meta.multipart import form_of
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.twitter.problems import invalid, problem
from socialpub.simulator.twitter.request_bodies import body_of
from socialpub.simulator.twitter.users import People, User

KEPT_SECONDS = 86_400
SEGMENTS_MAX = 1000
_FIRST_ID = 1_900_000_000_000_000_000
_IMAGES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_VIDEOS = ("video/mp4", "video/quicktime", "video/webm")
_IMAGE_BYTES, _GIF_BYTES = 5 * 1024 * 1024, 15 * 1024 * 1024
_KEY_PREFIX = {"tweet_image": "3", "tweet_gif": "16", "tweet_video": "7"}
_ENTIRE = 2**34

Category = Literal["tweet_image", "tweet_gif", "tweet_video"]


class _Start(BaseModel):
    model_config = ConfigDict(extra="forbid")

    media_type: Literal[
        "image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "video/quicktime", "video/webm"
    ]
    total_bytes: StrictInt = Field(ge=0, le=_ENTIRE)
    media_category: Category
    shared: bool = False


class _Alt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: StrictStr = Field(max_length=1000)


class _Metadata(BaseModel):
    model_config = ConfigDict(extra="forbid")

    alt_text: _Alt


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: StrictStr = Field(pattern=r"^[0-9]{1,19}$")
    metadata: _Metadata


@dataclass
class Upload:
    """Upload. `ready_ms` is None until finalized; `error`: how its processing fails."""

    id: str
    owner: str
    category: Category
    type: str
    total: int
    ends_ms: int
    segments: dict[int, bytes] = field(default_factory=dict)
    content: bytes | None = None
    ready_ms: int | None = None
    error: str = ""
    alt: str | None = None
    medium: PublishedMedia | None = None

    @property
    def key(self) -> str:
        return f"{_KEY_PREFIX[self.category]}_{self.id}"


@dataclass
class Uploads:
    """All uploads. For tests: `failing` holds errors of the next videos."""

    lab: SimulatorState
    people: People
    failing: list[str] = field(default_factory=list)
    by_id: dict[str, Upload] = field(default_factory=dict)
    _made: int = 0

    def operations(self) -> tuple[Operation, ...]:
        path, counted = "/2/media/upload", self.people.counted
        return (
            Operation("media.upload", ("POST",), path, counted("upload", 500, self.upload)),
            Operation("media.status", ("GET",), path, counted("status", 1000, self.status)),
            Operation("media.initialize", ("POST",), f"{path}/initialize", counted("start", 1875, self.initialize)),
            Operation("media.append", ("POST",), f"{path}/<id>/append", counted("append", 1875, self.append)),
            Operation("media.finalize", ("POST",), f"{path}/<id>/finalize", counted("final", 1875, self.finalize)),
            Operation("media.metadata", ("POST",), "/2/media/metadata", counted("metadata", 500, self.describe)),
        )

    def reset(self) -> None:
        self.by_id.clear()
        self.failing.clear()

    # --- Calls ---

    def upload(self, call: Call) -> FakeResponse:
        """Upload an image in one call."""
        user = self.people.caller(call, "media.write")
        category, content = _one_shot(call)
        if category != "tweet_image":
            raise invalid("media_category must be one of [tweet_image]", "media_category", [category])
        upload = self._new(user, "tweet_image", mime_type(content, ""), len(content))
        self._take(upload, content)
        return FakeResponse(200, {"data": self._shown(upload)})

    def initialize(self, call: Call) -> FakeResponse:
        user = self.people.caller(call, "media.write")
        asked = body_of(call, _Start)
        upload = self._new(user, asked.media_category, asked.media_type, asked.total_bytes)
        data = {"id": upload.id, "media_key": upload.key, "expires_after_secs": KEPT_SECONDS}
        return FakeResponse(200, {"data": data})

    def append(self, call: Call) -> FakeResponse:
        """Receive a segment; a repeated one replaces the earlier."""
        upload, form = self._asked(call, call.parts["id"]), form_of(call)
        index, (_, content) = form.texts.get("segment_index", ""), form.files.get("media", ("", b""))
        if not index.isdecimal() or int(index) >= SEGMENTS_MAX:
            raise invalid("segment_index must be a number from 0 to 999", "segment_index", [index])
        if not content or upload.content is not None:
            raise invalid("media is required" if not content else "the upload is over", "media")
        upload.segments[int(index)] = content
        return FakeResponse(200, {"data": {"expires_at": upload.ends_ms // 1000}})

    def finalize(self, call: Call) -> FakeResponse:
        upload = self._asked(call, call.parts["id"])
        if upload.content is None:
            content = b"".join(upload.segments.get(index, b"") for index in range(len(upload.segments)))
            if len(content) != upload.total:
                raise invalid("The number of bytes uploaded does not match total_bytes.", "media_id", [upload.id])
            self._take(upload, content)
        return FakeResponse(200, {"data": self._shown(upload)})

    def status(self, call: Call) -> FakeResponse:
        if call.query.get("command") != ["STATUS"]:
            raise invalid("command must be STATUS", "command", call.query.get("command", []))
        upload = self._asked(call, (call.query.get("media_id") or [""])[0])
        if upload.content is None:
            raise invalid("The upload is not finalized.", "media_id", [upload.id])
        return FakeResponse(200, {"data": self._shown(upload)})

    def describe(self, call: Call) -> FakeResponse:
        """Set the alt text; refused for videos."""
        asked = body_of(call, _Description)
        upload = self._asked(call, asked.id)
        if upload.category == "tweet_video":
            raise invalid("alt_text is not supported for this media.", "metadata.alt_text")
        upload.alt = asked.metadata.alt_text.text
        return FakeResponse(200, {"data": {"id": upload.id, "associated_metadata": asked.metadata.model_dump()}})

    # --- For posts ---

    def attached(self, user: User, ids: Iterable[str]) -> list[Upload]:
        """Return the media of a post; refuse if one is not ready, foreign, or not combinable."""
        wanted = list(ids)
        found = [self.by_id.get(id) for id in wanted]
        usable = [upload for upload in found if upload and upload.owner == user.id and self._is_ready(upload)]
        if len(usable) != len(wanted) or len(set(wanted)) != len(wanted):
            raise invalid("Your media IDs are invalid.", "media.media_ids", wanted)
        if len(usable) > 1 and any(upload.category != "tweet_image" for upload in usable):
            raise invalid("You may only attach 1 video or 1 GIF, or up to 4 photos.", "media.media_ids", wanted)
        return usable

    def shown(self, upload: Upload) -> PublishedMedia:
        """Return the upload as a ledger entry part, with its alt text."""
        return self.lab.add_medium(upload.content or b"", upload.type, upload.alt)

    # --- Tools ---

    @property
    def _now(self) -> int:
        return self.lab.clock.now_ms()

    def _new(self, user: User, category: Category, kind: str, total: int) -> Upload:
        self._made += 1
        id = str(_FIRST_ID + self._made)
        upload = self.by_id[id] = Upload(id, user.id, category, kind, total, self._now + KEPT_SECONDS * 1000)
        return upload

    def _asked(self, call: Call, id: str) -> Upload:
        user = self.people.caller(call, "media.write")
        found = self.by_id.get(id)
        if found is None or found.owner != user.id or found.ends_ms <= self._now:
            raise problem(404, "Not Found Error", f"Could not find media with id: [{id}].", "resource-not-found")
        return found

    def _take(self, upload: Upload, content: bytes) -> None:
        found = mime_type(content, "")
        if upload.category == "tweet_image":
            _check_image(found, content)
            upload.content, upload.type, upload.ready_ms = content, found, self._now
            return
        upload.content = content
        upload.ready_ms = self._now + self.lab.settings.processing_ms
        fits = (
            found == "image/gif" and len(content) <= _GIF_BYTES if upload.category == "tweet_gif" else found in _VIDEOS
        )
        upload.error = self.failing.pop(0) if self.failing else "" if fits else "file is currently unsupported"
        upload.type = found or upload.type

    def _is_ready(self, upload: Upload) -> bool:
        done = upload.ready_ms is not None and upload.ready_ms <= self._now
        return done and not upload.error and upload.ends_ms > self._now

    def _shown(self, upload: Upload) -> dict[str, Any]:
        left = max(upload.ends_ms - self._now, 0) // 1000
        data = {"id": upload.id, "media_key": upload.key, "size": upload.total, "expires_after_secs": left}
        info = self._processing(upload)
        return data | ({"processing_info": info} if info else {})

    def _processing(self, upload: Upload) -> dict[str, Any] | None:
        if upload.category == "tweet_image" or upload.ready_ms is None:
            return None
        left = upload.ready_ms - self._now
        if left <= 0 and upload.error:
            return {"state": "failed", "error": {"code": 1, "name": "InvalidMedia", "message": upload.error}}
        if left <= 0:
            return {"state": "succeeded", "progress_percent": 100}
        whole = max(self.lab.settings.processing_ms, 1)
        percent = max(min(100 - left * 100 // whole, 99), 0)
        state = "in_progress" if percent else "pending"
        return {"state": state, "check_after_secs": 1, "progress_percent": percent}


def _one_shot(call: Call) -> tuple[str, bytes]:
    """Return category and bytes, from a form or (base64) JSON."""
    if "multipart/" in call.headers.get("content-type", ""):
        form = form_of(call)
        return form.texts.get("media_category", ""), form.files.get("media", ("", b""))[1]
    body = body_of(call, _Inline)
    try:
        return body.media_category, base64.b64decode(body.media, validate=True)
    except binascii.Error:
        raise invalid("media is not base64", "media") from None


class _Inline(BaseModel):
    model_config = ConfigDict(extra="forbid")

    media: StrictStr
    media_category: StrictStr


def _check_image(found: str, content: bytes) -> None:
    refusals: list[RefusedError] = []
    if found not in _IMAGES:
        refusals.append(invalid("The media type is not supported.", "media"))
    if len(content) > _IMAGE_BYTES:
        refusals.append(invalid("The image exceeds 5 MB.", "media"))
    if refusals:
        raise refusals[0]

"""Content to publish, and its account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MediaKind = Literal["image", "video", "document"]
Json = dict[str, Any]
DOCUMENT_TYPE = "application/pdf"


@dataclass(frozen=True)
class MediaFacts:
    """Measured facts of a media file. None: unreadable (rules pass with `media_unmeasured`)."""

    # sniffed: image/jpeg, image/png, image/webp, image/gif, video/mp4, video/quicktime, video/webm, application/pdf
    content_type: str
    size: int  # bytes
    sha256: str = ""
    width: int | None = None  # as displayed: rotated by EXIF orientation or track rotation
    height: int | None = None
    frames: int | None = None  # images: 1, or the number of frames of an animation
    duration_ms: int | None = None
    frame_rate: float | None = None
    bit_rate: int | None = None  # bits per second
    video_codec: str | None = None  # h264, hevc, vp8, vp9, av1, …
    audio_codec: str | None = None  # aac, opus, …; also None without sound
    has_audio: bool | None = None
    non_media: str | None = None  # sentence describing a response that was not a media file

    @property
    def kind(self) -> MediaKind:
        if self.content_type == DOCUMENT_TYPE:
            return "document"
        return "video" if self.content_type.startswith("video/") else "image"

    @property
    def animated(self) -> bool:
        return (self.frames or 1) > 1


@dataclass(frozen=True)
class DraftMedia:
    """Media item. `facts` and `path` are None until its bytes are available."""

    kind: MediaKind
    alt_text: str | None = None
    url: str | None = None  # URL the platform may fetch: the user's own, or ours for stored media
    stored: bool = False  # stored on this server (mediaId, bytesBase64)
    facts: MediaFacts | None = None
    path: Path | None = None

    @property
    def file(self) -> Path:
        """Path of the bytes. Raises ValueError until they are available."""
        if self.path is None:
            raise ValueError("the item's bytes have not been resolved")
        return self.path

    @property
    def content_type(self) -> str:
        return self.facts.content_type if self.facts else "application/octet-stream"

    def read(self) -> bytes:
        return self.file.read_bytes()


@dataclass(frozen=True)
class ConnectorAccount:
    """Account as connectors and rules see it. `extra`: platform fields (handle, pds, …)."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreviousPiece:
    """Published piece of a thread, to which the next one replies.

    `plan`: what was sent, {} if unknown. Without `remote_id`, a person reported the post by its address.
    """

    remote_id: str | None
    uri: str | None = None
    cid: str | None = None
    plan: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """Content of one target, frozen: the same draft always produces the same bytes.

    `now_ms` and `nonce` (8 random bytes as int) are generated once per post, so that keys made of them stay the same
    over all attempts.
    """

    text: str
    items: tuple[DraftMedia, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # camelCase, as in the request; absent ones omitted
    first_comment: str | None = None
    now_ms: int = 0
    nonce: int = 0
    option_facts: Mapping[str, MediaFacts] = field(default_factory=dict)  # fetched images named by options
    pieces: int = 0  # of a thread, that follow this one
    previous: PreviousPiece | None = None  # this one is a reply to it, in its thread

"""What is to be published, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["image", "video"]
Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What the bytes of a media item are. None: could not be read (its rules then pass, with `media_unmeasured`)."""

    content_type: str  # sniffed: image/jpeg, image/png, image/webp, image/gif, video/mp4, video/quicktime, video/webm
    size: int  # bytes
    sha256: str = ""
    width: int | None = None  # as it is shown: turned by its EXIF orientation, or its track's rotation
    height: int | None = None
    frames: int | None = None  # images: 1, or the number of frames of an animation
    duration_ms: int | None = None
    frame_rate: float | None = None
    bit_rate: int | None = None  # bits a second
    video_codec: str | None = None  # h264, hevc, vp8, vp9, av1, …
    audio_codec: str | None = None  # aac, opus, …; None also when there is no sound
    has_audio: bool | None = None
    instead: str | None = None  # a sentence: what an address sent that is no media file

    @property
    def kind(self) -> Kind:
        return "video" if self.content_type.startswith("video/") else "image"

    @property
    def animated(self) -> bool:
        return (self.frames or 1) > 1


@dataclass(frozen=True)
class Item:
    """One media item. `facts` and `path` are None until its bytes are here (cheap checks see it without)."""

    kind: Kind
    alt_text: str | None = None
    url: str | None = None  # the address a platform may pull it from: the user's own, or ours for stored media
    stored: bool = False  # held by this server (mediaId, bytesBase64), not a user's URL
    facts: Facts | None = None
    path: Path | None = None

    @property
    def file(self) -> Path:
        """Where the bytes are; only after they have been resolved."""
        if self.path is None:
            raise ValueError("the item's bytes have not been resolved")
        return self.path

    @property
    def content_type(self) -> str:
        return self.facts.content_type if self.facts else "application/octet-stream"

    def read(self) -> bytes:
        return self.file.read_bytes()


@dataclass(frozen=True)
class Account:
    """Who posts, as connectors and rules may know it. `extra` is the platform's own (handle, pds, subscription…)."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """One target's content, frozen: the same draft always makes the same bytes.

    `now_ms` and `nonce` (8 random bytes as an int) are minted once a post, so that keys made of them stay the same
    over every attempt.
    """

    text: str
    items: tuple[Item, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # camelCase, as in the request; absent ones left out
    first_comment: str | None = None
    now_ms: int = 0
    nonce: int = 0
    option_facts: Mapping[str, Facts] = field(default_factory=dict)  # of the images that options name, once fetched

"""Post contents for soaks: plain text on test platforms, each post kind on the eight real.

Files are uploaded once per soak. Platforms that drop a video's text (TikTok's inbox) get a different file for each
post, so that the ledger identifies the post.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.media_files import box, picture
from tests.support.platforms.meta_calls import mp4

MIB = 1 << 20
FILES = {
    "photo": ("image", picture()),
    "picture": ("image", picture(size=(96, 96))),
    "clip": ("video", mp4(filler=100_000)),
    "film": ("video", mp4(filler=2 * MIB + 100_000)),  # goes up in parts on Facebook and X
    "long film": ("video", mp4(filler=4 * MIB + 100_000)),  # and on LinkedIn
}
OWN_BYTES = {"own clip": 100_000, "own film": 10 * MIB + 100_000}  # the film goes up in parts


@dataclass(frozen=True)
class PostShape:
    """One kind of post."""

    files: tuple[str, ...] = ()
    commented: bool = False


WORDS, PHOTO, PHOTOS = PostShape(), PostShape(("photo",)), PostShape(("photo", "picture"))
CLIP, FILM, COMMENTED = PostShape(("clip",)), PostShape(("film",)), PostShape(commented=True)
OWN_CLIP, OWN_FILM = PostShape(("own clip",)), PostShape(("own film",))

SHAPES: Mapping[str, tuple[PostShape, ...]] = {
    "bluesky": (COMMENTED, WORDS, PostShape(("photo", "picture"), commented=True), PHOTO),
    "facebook": (WORDS, PHOTO, FILM, PHOTOS),
    "instagram": (PHOTO, CLIP, PHOTOS),
    "linkedin": (WORDS, PostShape(("long film",)), PHOTO, PHOTOS),
    "pinterest": (PHOTO, CLIP, PHOTOS),
    "threads": (WORDS, PHOTO, CLIP, PHOTOS),
    "tiktok": (OWN_CLIP, PHOTO, OWN_CLIP, PHOTOS),
    "twitter": (WORDS, PHOTO, FILM, PHOTOS),
}
"""What is posted in turn on each platform."""

FILMS_ON_TIKTOK = (OWN_FILM, PHOTO, OWN_CLIP, PHOTO, OWN_CLIP, PHOTOS, OWN_CLIP, PHOTOS)


def make_own_file(name: str, text: str) -> bytes:
    """A video that no other post has."""
    return mp4(filler=OWN_BYTES[name]) + box(b"free", text.encode())


def make_comment(text: str) -> str:
    return f"comment on {text}"


@dataclass
class PostContents:
    """The posts of a world, by platform and number; `stored`: the media ids of the files."""

    shapes: Mapping[str, tuple[PostShape, ...]] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def upload(self, client: httpx.Client) -> PostContents:
        """The same, with the files that are shared uploaded."""
        for name, (kind, content) in FILES.items():
            answer = client.post("/v1/media", files={"file": (name, content)}, data={"altText": f"a {kind}"})
            assert answer.status_code == 201, answer.text
            self.stored[name] = answer.json()["id"]
        return self

    def shape(self, platform: str, number: int) -> PostShape:
        shapes = self.shapes.get(platform, (WORDS,))
        return shapes[number % len(shapes)]

    def body(self, shape: PostShape, text: str, stored: dict[str, str]) -> dict[str, Any]:
        """What a request says beside its targets; `stored`: the media ids of the post's own files."""
        body: dict[str, Any] = {"text": text}
        if shape.files:
            ids = self.stored | stored
            body["media"] = [{"kind": _kind(name), "mediaId": ids[name]} for name in shape.files]
        return body | ({"firstComment": {"text": make_comment(text)}} if shape.commented else {})


def _kind(name: str) -> str:
    return FILES[name][0] if name in FILES else "video"

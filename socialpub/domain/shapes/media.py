"""Files: what is said of one that is uploaded, and how they are asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.domain.shapes.common import AltText, DateTime, Maybe, Request, Uuid, absent
from socialpub.store.rows import MediaKind


class MediaFields(Request):
    """What an upload may say beside its file, in parts or in the query."""

    profile_id: Maybe[Uuid] = absent()
    """The profile that the file is for; without one it serves every profile."""
    alt_text: Maybe[AltText] = absent()
    """What the file shows, for those who cannot see it; an item's own alt text goes before it."""


class MediaQuery(Request):
    """The query of GET /v1/media."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Files a page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before; an empty one is as if absent."""
    profile_id: Maybe[Uuid] = absent()
    """The files that this profile may use."""


class MediaBody(TypedDict):
    """A stored file."""

    id: str
    url: str
    """Public: whoever has this address can read the file."""
    contentType: str
    """What the bytes are."""
    sizeBytes: int
    sha256: str
    kind: MediaKind
    width: int | None
    """In pixels, as it is shown; null where it could not be read."""
    height: int | None
    durationMs: int | None
    """Of a video."""
    profileId: str | None
    """Null for a file that serves every profile."""
    altText: str | None
    createdAt: DateTime


class MediaPage(TypedDict):
    """One page of stored files, newest first."""

    data: list[MediaBody]
    nextCursor: str | None
    """Send it as `cursor` for the next page; null on the last one."""

"""Schemas of media files."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import AltText, DateTime, Maybe, RequestModel, Uuid, absent
from socialpub.store.rows import MediaKind

SHA256_PATTERN = r"^[0-9a-fA-F]{64}$"


class MediaFields(RequestModel):
    """Fields of an upload, as parts or in the query."""

    profile_id: Maybe[Uuid] = absent()
    """The profile of the file; without one, every profile may use it."""
    alt_text: Maybe[AltText] = absent()
    """A description of the file for people who cannot see it; a post's own alt text takes precedence."""


class MediaChange(RequestModel):
    """Body of PATCH /v1/media/{id}."""

    alt_text: AltText | None
    """The new description; empty or null: none."""


class MediaQuery(RequestModel):
    """Query of GET /v1/media."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Files per page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the previous page; an empty one is ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Files that this profile may use."""
    sha256: Maybe[Annotated[str, StringConstraints(pattern=SHA256_PATTERN, to_lower=True)]] = absent()
    """Files with these bytes: their SHA-256 in hexadecimal. Look here before you upload a file again."""


class MediaBody(TypedDict):
    """Stored file."""

    id: str
    url: str
    """Public: anyone with this address can read the file."""
    contentType: str
    """The actual type of the bytes."""
    sizeBytes: int
    sha256: str
    kind: MediaKind
    width: int | None
    """In pixels, as displayed; null if unreadable."""
    height: int | None
    durationMs: int | None
    """Videos only."""
    profileId: str | None
    """Null for a file of every profile."""
    altText: str | None
    createdAt: DateTime


class MediaPage(TypedDict):
    """Page of stored files, newest first."""

    data: list[MediaBody]
    nextCursor: str | None
    """The `cursor` of the next page; null on the last one."""

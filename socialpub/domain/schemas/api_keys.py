"""Schemas of API keys."""

from __future__ import annotations

from typing_extensions import TypedDict

from socialpub.domain.schemas.common import DateTime, Maybe, Name, RequestModel, Uuid, absent


class KeyRequest(RequestModel):
    """Body of POST /v1/api-keys."""

    name: Name
    """The purpose of the key, in your own words."""
    prefix: Maybe[str] = absent()
    """A label: `svc_live_` (default) or `svc_test_`, with this server's own word for `svc`."""
    profile_id: Maybe[Uuid] = absent()
    """Bind the key to this profile permanently."""


class KeyBody(TypedDict):
    """API key without its secret, which is not stored."""

    id: str
    name: str
    prefix: str
    last4: str
    profileId: str | None
    """The profile that the key is bound to; null: the whole organization."""
    createdAt: DateTime
    lastUsedAt: DateTime | None
    revokedAt: DateTime | None


class MintedKeyBody(KeyBody):
    """New API key with its secret, shown only once."""

    key: str


class KeyList(TypedDict):
    """Keys of the organization, newest first."""

    data: list[KeyBody]


class RevokedKeyBody(TypedDict):
    """Revoked key."""

    id: str
    revokedAt: DateTime

"""API keys: how one is asked for, and what is told of it."""

from __future__ import annotations

from typing_extensions import TypedDict

from socialpub.domain.shapes.common import DateTime, Maybe, Name, Request, Uuid, absent


class KeyRequest(Request):
    """The body of POST /v1/api-keys."""

    name: Name
    """What the key is for, in your own words."""
    prefix: Maybe[str] = absent()
    """A label only: `svc_live_` (the default) or `svc_test_`, with this server's own word for `svc`."""
    profile_id: Maybe[Uuid] = absent()
    """Bind the key to this profile, for good."""


class KeyBody(TypedDict):
    """An API key's record; the key itself is stored nowhere."""

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
    """A new API key, with the key: shown this once."""

    key: str


class KeyList(TypedDict):
    """The keys of the organization, newest first."""

    data: list[KeyBody]


class RevokedKeyBody(TypedDict):
    """A key that works no more."""

    id: str
    revokedAt: DateTime

"""Schemas of API keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.base.key_scopes import ALL_SCOPES, KeyScopeName
from socialpub.domain.schemas.common import DateTime, Instant, Maybe, Name, RequestModel, Uuid, absent

ACCOUNTS_MAX = 100


class KeyRequest(RequestModel):
    """Body of POST /v1/api-keys."""

    name: Name
    """The purpose of the key, in your own words."""
    prefix: Maybe[str] = absent()
    """A label: `svc_live_` (default) or `svc_test_`, with this server's own word for `svc`."""
    profile_id: Maybe[Uuid] = absent()
    """Bind the key to this profile permanently."""
    scopes: Maybe[Annotated[list[KeyScopeName], Field(min_length=1, max_length=len(ALL_SCOPES))]] = absent()
    """What the key may do. Absent: everything, with what later versions add."""
    accounts: Maybe[Annotated[list[Uuid], Field(min_length=1, max_length=ACCOUNTS_MAX)]] = absent()
    """Limit the key to these accounts: it finds no other account, and no post or event of one. Absent: all."""
    expires_at: Maybe[Instant] = absent()
    """When the key stops working. Absent: never."""


class KeyBody(TypedDict):
    """API key without its secret, which is not stored."""

    id: str
    name: str
    prefix: str
    last4: str
    profileId: str | None
    """The profile that the key is bound to; null: the whole organization."""
    scopes: list[KeyScopeName]
    """What the key may do."""
    accounts: list[str] | None
    """The accounts that the key is limited to; null: all."""
    expiresAt: DateTime | None
    """When the key stops working; null: never."""
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

"""Schema of GET /v1/me."""

from __future__ import annotations

from typing_extensions import TypedDict

from socialpub.base.key_scopes import KeyScopeName
from socialpub.domain.schemas.common import DateTime


class NamedBody(TypedDict):
    """Organization or profile of the caller."""

    id: str
    name: str


class CallerKey(TypedDict):
    """API key of the caller."""

    id: str
    name: str
    prefix: str
    last4: str
    scopes: list[KeyScopeName]
    """What the key may do."""
    accounts: list[str] | None
    """The accounts that the key is limited to; null: all."""
    expiresAt: DateTime | None
    """When the key stops working; null: never."""
    createdAt: DateTime


class CallerUser(TypedDict):
    """Signed-in user."""

    id: str
    email: str
    """The address that the user signs in with."""
    role: str
    """`owner`, `admin` or `member`."""


class CallerBody(TypedDict):
    """Caller: what the key or session belongs to and may do."""

    organization: NamedBody
    """The organization that the key or user belongs to."""
    profile: NamedBody | None
    """The profile that the key is bound to; null: the whole organization."""
    key: CallerKey | None
    """Null for a session."""
    user: CallerUser | None
    """Null for a key."""

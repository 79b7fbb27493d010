"""Return types of connectors: publish and lookup outcomes, accounts, boards, warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.platforms.contract.content import Json
from socialpub.platforms.contract.upstream import Tokens


@dataclass(frozen=True)
class PublishWarning:  # noqa: A001 - the field's own word; the builtin is never used here
    code: str
    message: str


@dataclass(frozen=True)
class Ready:
    """Prepared plan: JSON with all that `send` needs, frozen before the first public byte."""

    plan: Json
    warnings: tuple[PublishWarning, ...] = ()


@dataclass(frozen=True)
class Pending:
    """Not finished (media in processing): call `prepare` with `saved` after `seconds`.

    From `send`: accepted and identified, but not finished; `saved` holds the id, and nothing is left to send.
    """

    saved: Json
    seconds: float


@dataclass(frozen=True)
class Published:
    """Published post. `remote_id` identifies it upstream; `uri`, `cid`, `url` are shown."""

    remote_id: str
    uri: str | None = None
    cid: str | None = None
    url: str | None = None
    warnings: tuple[PublishWarning, ...] = ()


@dataclass(frozen=True)
class Absent:
    """Lookup in the right place that did not find the post."""

    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """Inconclusive lookup; `final`: repeating it will not help."""

    evidence: Json = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True)
class AccountIdentity:
    """Identity of a connected account."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OfferedAccount:
    """Account offered by a login, with its tokens."""

    identity: AccountIdentity
    tokens: Tokens
    kind: str = ""  # shown with a choice: page, person, organization


@dataclass(frozen=True)
class Board:
    """Board of an account. `pinnable` False: cannot be the default."""

    id: str
    name: str
    privacy: str
    pinnable: bool = True

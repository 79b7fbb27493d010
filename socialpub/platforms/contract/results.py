"""What a connector's functions answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.platforms.contract.content import Json
from socialpub.platforms.contract.upstream import Tokens


@dataclass(frozen=True)
class Warning:  # noqa: A001 - the field's own word; the builtin is never used here
    code: str
    message: str


@dataclass(frozen=True)
class Ready:
    """Prepared: `plan` is everything `send` needs, JSON, frozen before the first public byte."""

    plan: Json
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True)
class Pending:
    """Not yet (a container or video is still processing): call `prepare` again with `saved` after `seconds`.

    From `send`: the platform took it and named it, but is not done. Nothing is left to send; `saved` has that name.
    """

    saved: Json
    seconds: float


@dataclass(frozen=True)
class Published:
    """It is there. `remote_id` binds one upstream post to one row; `uri`, `cid`, `url` are shown."""

    remote_id: str
    uri: str | None = None
    cid: str | None = None
    url: str | None = None
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True)
class Absent:
    """Looked in the right place, and it is not there now."""

    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """Looking could not tell; `final`: looking again will not either."""

    evidence: Json = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True)
class Identity:
    """Who connected."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Connected:
    """One account that a login offers, with the tokens that act for it."""

    identity: Identity
    tokens: Tokens
    kind: str = ""  # what a choice shows: page, person, organization


@dataclass(frozen=True)
class Board:
    """One of an account's boards. `pinnable` False: it cannot be the default one."""

    id: str
    name: str
    privacy: str
    pinnable: bool = True

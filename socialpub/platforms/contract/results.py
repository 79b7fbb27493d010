"""Return types of connectors: publish and lookup outcomes, accounts, boards, warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.base.errors import Outcome
from socialpub.platforms.contract.bounds import (
    POST_ID_MAX,
    build_unusable_error,
    is_address,
    is_id,
    to_fact,
    to_facts,
    to_line,
)
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
    """Published post. `remote_id` identifies it upstream; `uri`, `cid`, `url` are shown.

    An unusable address is left out. Raises an ambiguous ApiError for an unusable id: the post must be looked up.
    """

    remote_id: str
    uri: str | None = None
    cid: str | None = None
    url: str | None = None
    warnings: tuple[PublishWarning, ...] = ()

    def __post_init__(self) -> None:
        for what, value in (("post id", self.remote_id), ("post version", self.cid)):
            if value is not None and not is_id(value, POST_ID_MAX):
                raise build_unusable_error(what, value, Outcome.AMBIGUOUS)
        for name in ("uri", "url"):
            if not is_address(getattr(self, name)):
                object.__setattr__(self, name, None)


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
    """Identity of a connected account: name and facts as lines, cut or left out where too long.

    Raises ApiError for an unusable id.
    """

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_id(self.platform_account_id):
            raise build_unusable_error("account id", self.platform_account_id, Outcome.NOT_SENT)
        object.__setattr__(self, "display_name", to_line(self.display_name or "") or None)
        facts = {
            name: to_facts(value) if isinstance(value, list) else to_fact(value) for name, value in self.extra.items()
        }
        object.__setattr__(self, "extra", facts)


@dataclass(frozen=True)
class OfferedAccount:
    """Account offered by a login, with its tokens."""

    identity: AccountIdentity
    tokens: Tokens
    kind: str = ""  # shown with a choice: page, person, organization

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", to_fact(self.kind) or "")


@dataclass(frozen=True)
class Board:
    """Board of an account. `pinnable` False: cannot be the default."""

    id: str
    name: str
    privacy: str
    pinnable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", to_line(self.name))
        object.__setattr__(self, "privacy", to_fact(self.privacy) or "")

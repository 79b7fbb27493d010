"""The contract between a platform and the rest: what its module offers, and every value that passes between the two.

A platform is one module: `PLATFORM` (a frozen declaration), `REPLIES` (the table that sorts its answers) and a few
functions. The modules satisfy `Connector` themselves; there is no base class. They know no database, clock, settings
or HTTP server: an `Upstream` brings the client, the hosts, the account and its tokens; a `Draft` the frozen content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from socialpub.platforms.contract.content import Account, Draft, Facts, Item, Json, Kind
from socialpub.platforms.contract.declaration import (
    CONTAINER,
    KEY,
    NO_KEY,
    AppCheck,
    Canary,
    Cap,
    Console,
    Counter,
    CredentialField,
    MediaLimits,
    Notice,
    OAuth,
    Platform,
    SendClass,
    Upkeep,
)
from socialpub.platforms.contract.replies import NO_BODY, UNNAMED, Replies, Verdict, refusal, verdict
from socialpub.platforms.contract.results import (
    Absent,
    Board,
    Connected,
    Identity,
    Pending,
    Published,
    Ready,
    Unknown,
    Warning,
)
from socialpub.platforms.contract.rule_rows import Check, Hit, Rule, Subject, Surroundings
from socialpub.platforms.contract.upstream import ConfiguredSite, Mint, Notes, ScopedSite, Site, Tokens, Upstream

__all__ = [
    "Absent",
    "Account",
    "AppCheck",
    "AppClient",
    "Authorizes",
    "Board",
    "Boards",
    "CONTAINER",
    "Canary",
    "Cap",
    "Check",
    "Comments",
    "ConfiguredSite",
    "Console",
    "Connected",
    "Connector",
    "Counter",
    "CredentialField",
    "Draft",
    "Facts",
    "Hit",
    "Identity",
    "Invitation",
    "Invites",
    "Item",
    "Json",
    "NO_BODY",
    "KEY",
    "Kind",
    "Login",
    "MediaLimits",
    "Mint",
    "NO_KEY",
    "Notes",
    "Notice",
    "OAuth",
    "Pending",
    "Platform",
    "Published",
    "Ready",
    "Replies",
    "Revokes",
    "Rule",
    "ScopedSite",
    "SendClass",
    "Site",
    "Subject",
    "Surroundings",
    "Tokens",
    "UNNAMED",
    "Unknown",
    "Upkeep",
    "Upstream",
    "Verdict",
    "Warning",
    "refusal",
    "verdict",
]


class Connector(Protocol):
    """What a platform module offers; mypy checks each module against it where the dict of them stands.

    `prepare` is repeatable and invisible (uploads, containers). `send` makes the one public call. `settle` looks for
    what `send` may have done and never sends. `refresh` renews the tokens. All raise ApiError with an `outcome`.
    """

    PLATFORM: Platform
    REPLIES: Replies

    def prepare(self, up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending: ...

    def send(self, up: Upstream, plan: Json) -> Published | Pending: ...

    def settle(self, up: Upstream, plan: Json, since_ms: int) -> Published | Pending | Absent | Unknown: ...

    def refresh(self, up: Upstream, now_ms: int) -> Tokens: ...


class Comments(Protocol):
    """Extra: a platform that can post the first comment. The plan goes through the same `send` and `settle`."""

    def comment(self, up: Upstream, draft: Draft, post: Published, plan: Json) -> Json: ...


class Login(Protocol):
    """Extra: a platform whose accounts connect by credentials (`Platform.credentials`)."""

    def login(self, up: Upstream, fields: Mapping[str, str], now_ms: int) -> tuple[Identity, Tokens]: ...


class Authorizes(Protocol):
    """Extra: a platform whose accounts connect by OAuth (`Platform.oauth`).

    `identify` gets an Upstream whose tokens are those that the code was exchanged for (`private["scopes"]`: granted)
    and answers the accounts that they offer, each with its own, long-lived tokens; ApiError when there is none.
    """

    def identify(self, up: Upstream, now_ms: int) -> tuple[Connected, ...]: ...


@dataclass(frozen=True)
class AppClient:
    """This server, as those know it who read its metadata document: its id is that document's address.

    `key`: what signs for it; without one it is a public client, which servers trust for a short time only.
    """

    id: str
    redirect_uri: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Invitation:
    """Where an account's owner is to go, and (to be sealed) what the way back needs."""

    url: str
    kept: Json = field(repr=False)


class Invites(Protocol):
    """Extra: a platform whose OAuth begins with the account's name and a request pushed to the account's own server.

    `accept` gets what `invite` kept, and what the browser came back with. `client_documents` are what this server
    publishes of itself under `/oauth/`, by name; `client_key` is a fresh key for `AppClient`.
    """

    def client_key(self, entropy: Callable[[int], bytes]) -> str: ...

    def client_documents(self, base_url: str, client: AppClient) -> Mapping[str, Json]: ...

    def invite(self, up: Upstream, client: AppClient, handle: str, state: str) -> Invitation: ...

    def accept(self, up: Upstream, client: AppClient, kept: Json, code: str, iss: str | None) -> Connected: ...


class Revokes(Protocol):
    """Extra: a platform that can end a connection upstream.

    Not called while another account acts by the same authorization: one with the same account id, access or refresh
    token, or (where `revoke` ends all that one person has allowed) the same text in `Tokens.private["login"]`.
    """

    def revoke(self, up: Upstream) -> None: ...


class Boards(Protocol):
    """Extra: a platform whose accounts keep what they publish on boards. Answers all of them."""

    def boards(self, up: Upstream) -> tuple[Board, ...]: ...

"""Contract of platform modules: their functions, and the types passed in and out.

A platform is one module: `PLATFORM` (a frozen declaration), `REPLIES` (the table that classifies its responses) and a
few functions. Modules satisfy `Connector` structurally; there is no base class. They know no database, clock, settings
or HTTP server: an `Upstream` brings client, hosts, account and tokens; a `Draft` the frozen content.

All names imported here are meant to be imported from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from socialpub.platforms.contract.content import (
    DOCUMENT_TYPE,
    ConnectorAccount,
    Draft,
    DraftMedia,
    Json,
    MediaFacts,
    MediaKind,
    PreviousPiece,
)
from socialpub.platforms.contract.declaration import (
    CONTAINER,
    KEY,
    NO_KEY,
    AppCheck,
    CredentialField,
    DeveloperConsole,
    DraftWarning,
    MediaLimits,
    OAuthFlow,
    Platform,
    PostingCap,
    RefreshPolicy,
    SendClass,
    TextCounter,
    TextUnit,
    ThreadSupport,
    VersionProbe,
)
from socialpub.platforms.contract.replies import NO_BODY, UNNAMED, Replies, Verdict, build_error, classify, find_name
from socialpub.platforms.contract.results import (
    Absent,
    AccountIdentity,
    Board,
    OfferedAccount,
    Pending,
    Published,
    PublishWarning,
    Ready,
    Unknown,
)
from socialpub.platforms.contract.rules import Rule, RuleCheck, RuleContext, RuleInput, RuleViolation
from socialpub.platforms.contract.upstream import (
    CallNotes,
    ConfiguredSite,
    ScopedSite,
    SigningContext,
    Site,
    Tokens,
    Upstream,
    is_on_domain,
)


class Connector(Protocol):
    """Interface of a platform module; mypy checks each one where CONNECTORS lists them.

    `prepare` is repeatable and invisible (uploads, containers). `send` makes the one public call. `settle` looks up
    what `send` may have done and never sends. `refresh` refreshes the tokens. All raise ApiError with an `outcome`.
    """

    PLATFORM: Platform
    REPLIES: Replies

    def prepare(self, up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending: ...

    def send(self, up: Upstream, plan: Json) -> Published | Pending: ...

    def settle(self, up: Upstream, plan: Json, since_ms: int) -> Published | Pending | Absent | Unknown: ...

    def refresh(self, up: Upstream, now_ms: int) -> Tokens: ...


class SupportsFirstComment(Protocol):
    """Optional: first comments. The plan goes through the same `send` and `settle`."""

    def comment(self, up: Upstream, draft: Draft, post: Published, plan: Json) -> Json: ...


class SupportsPasswordLogin(Protocol):
    """Optional: accounts connect by credentials (`Platform.credentials`)."""

    def login(self, up: Upstream, fields: Mapping[str, str], now_ms: int) -> tuple[AccountIdentity, Tokens]: ...


class SupportsOAuth(Protocol):
    """Optional: accounts connect by OAuth (`Platform.oauth`).

    `identify` gets an Upstream with the tokens of the code (`private["scopes"]`: granted) and returns the accounts they
    give access to, each with its own long-lived tokens. Raises ApiError if there is none.
    """

    def identify(self, up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]: ...


@dataclass(frozen=True)
class AppClient:
    """OAuth client described by a public metadata document, whose URL is its id.

    `key` signs its assertions; without one it is a public client, which servers trust for a short time only.
    """

    id: str
    redirect_uri: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class AuthorizationRedirect:
    """URL for the account's owner, and the state (to be encrypted) for the way back."""

    url: str
    stored: Json = field(repr=False)


class SupportsPushedAuthorization(Protocol):
    """Optional: OAuth that starts with the account's name and a request pushed to its server.

    `accept` gets what `invite` kept and what the browser brought back. `client_documents` are published under
    `/oauth/`, by name; `client_key` generates a key for `AppClient`.
    """

    def client_key(self, entropy: Callable[[int], bytes]) -> str: ...

    def client_documents(self, base_url: str, client: AppClient) -> Mapping[str, Json]: ...

    def invite(self, up: Upstream, client: AppClient, handle: str, state: str) -> AuthorizationRedirect: ...

    def accept(self, up: Upstream, client: AppClient, stored: Json, code: str, iss: str | None) -> OfferedAccount: ...


class SupportsRevocation(Protocol):
    """Optional: revocation of an authorization upstream.

    Not called while another account uses the same authorization: same account id, access or refresh token, or (where
    `revoke` ends everything one person has allowed) the same `Tokens.private["login"]`.
    """

    def revoke(self, up: Upstream) -> None: ...


class SupportsBoards(Protocol):
    """Optional: accounts organize posts on boards. Returns all boards."""

    def boards(self, up: Upstream) -> tuple[Board, ...]: ...

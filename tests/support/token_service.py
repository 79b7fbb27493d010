"""Token refresh service with one account and an in-memory authorization server."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.access import authentication
from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import accounts, tokens
from socialpub.domain.context.app_context import AppContext, open_context
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.platforms.contract import AccountIdentity, OAuthFlow, RefreshPolicy, Tokens
from socialpub.platforms.kit import oauth
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Batch, Event, Instance, Post
from tests.support.fixed_clock import FixedClock
from tests.support.new_database import create_database
from tests.support.oauth_server import HOST, OAuthSetup, open_setup

NAME = "twitter"  # any will do: its declaration is replaced
HOURS = RefreshPolicy(refresh_before=900, rotates=True)
DAY_MS = 24 * 3600 * 1000


@dataclass
class TokenService:
    """`upstream` is the platform's side, `service` ours; `account` is connected."""

    service: AppContext
    upstream: OAuthSetup
    account: str = ""

    @property
    def clock(self) -> FixedClock:
        return self.upstream.clock

    @property
    def calls(self) -> int:
        return len(self.upstream.wire.sent)

    def row(self) -> dict[str, Any]:
        query = Account.select().where(Account.id == self.account)
        return dict(self.service.read(lambda: query.dicts().get()).result())

    def held(self) -> Tokens:
        """The tokens in the row."""
        return tokens.decrypt(self.service, self.account, self.row()["secret"])

    def is_alive(self) -> bool:
        """Whether the row's access token works at the platform."""
        return self.upstream.server.access(self.held().access).state == "alive"

    def renewed(self, stale: Tokens | None = None) -> Tokens:
        return tokens.refresh_tokens(self.service, self.account, stale or self.held())

    def skip(self, seconds: float) -> None:
        self.clock.ms += int(seconds * 1000)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        rows = self.service.read(lambda: list(Event.select(Event.type, Event.data).order_by(Event.number).tuples()))
        return [(type_, json.loads(data)) for type_, data in rows.result()]

    def connect(self, given: Tokens | None = None) -> str:
        """Connect the account (again), with fresh tokens of the platform or those that are given."""
        found = given or self.issue()

        def write(tx: Tx) -> str:
            organization, profile = _home(self.service, tx)
            who = AccountIdentity("alice", "Alice")
            return str(accounts.connect(self.service, tx, organization, profile, NAME, who, found)[0]["id"])

        self.account = self.service.write(write).result()
        return self.account

    def disconnect(self) -> None:
        """Disconnect the account, as its owner does."""
        scope = authentication.Scope(self.row()["organization"])
        self.service.write(lambda tx: accounts.disconnect(self.service, tx, scope, self.account, "req_test")).result()

    def issue(self) -> Tokens:
        made = self.upstream.server.issue("alice", ("read", "write"))
        ends = self.clock.ms + made.expires_in * 1000 if made.expires_in else None
        return Tokens(made.access, made.refresh, ends, {"scopes": ["read", "write"]})

    def post_due(self, in_seconds: float) -> None:
        """A queued post of the account."""
        row, at = self.row(), self.clock.ms + int(in_seconds * 1000)
        key = self.service.runtime.ids.uuid()

        def write(tx: Tx) -> None:
            Batch.insert(id=key, organization=row["organization"], created_at=self.clock.ms).execute()
            Post.insert(
                id=key,
                organization=row["organization"],
                profile=row["profile"],
                account=self.account,
                platform=NAME,
                batch=key,
                position=0,
                status="queued",
                text="later",
                text_fold="later",
                media="[]",
                options="{}",
                scheduled_at=at,
                created_at=self.clock.ms,
                updated_at=self.clock.ms,
            ).execute()

        self.service.write(write).result()

    def crash(self) -> None:
        """What a process that dies takes with it."""
        self.service.upstream.renewals.clear()


def _home(service: AppContext, tx: Tx) -> tuple[str, str]:
    Instance.insert(id=1).on_conflict_ignore().execute()
    row = Account.select(Account.organization, Account.profile).tuples().first()
    if row is not None:
        return str(row[0]), str(row[1])
    organization = profiles.create_organization(tx, build_operator(service, "test"), OrganizationRequest(name="Home"))[
        "id"
    ]
    return organization, profiles.list_bodies(authentication.Scope(organization))[0]["id"]


def open_token_service(
    folder: Path, patch: pytest.MonkeyPatch, refresh_policy: RefreshPolicy = HOURS, **manners: Any
) -> TokenService:
    """A fresh database with a connected account. `manners`: of the authorization server."""
    upstream = open_setup(**({"refreshing": "rotating"} | manners))
    row = OAuthFlow(scopes=("read", "write"))
    platform = replace(platforms.PLATFORMS[NAME], oauth=row, refresh_policy=refresh_policy)
    patch.setitem(platforms.PLATFORMS, NAME, platform)
    connector: Any = SimpleNamespace(PLATFORM=platform, refresh=lambda up, now: oauth.refresh(platform, up, now))
    patch.setitem(platforms.CONNECTORS, NAME, connector)
    settings = Settings(
        database={"url": str(folder / "socialpub.db")},
        publishing={"threads": 64},
        platforms={NAME: {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "token_url": f"{HOST}/token"}},
    )
    create_database(settings.database_path)
    runtime = Runtime(settings, load_vault(settings), clock=upstream.clock, client=lambda *_: upstream.wire)
    home = TokenService(open_context(runtime), upstream)
    home.connect()
    return home

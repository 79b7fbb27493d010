"""Administration on the database, beside a running server or without one."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.commands.serve import make_private, settings_of, start_service
from socialpub.domain.accounts import accounts
from socialpub.domain.core.service import Service, close_service
from socialpub.domain.people import audit, tenancy, users
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.accounts import AccountBody, AccountsQuery
from socialpub.domain.shapes.common import Instant
from socialpub.platforms.contract import Identity, Tokens
from socialpub.store import db
from socialpub.store.db import Tx

T = TypeVar("T")


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[Service]:
    """The service over the configured database, for one command."""
    service = start_service(settings_of(options))
    try:
        yield service
    finally:
        close_service(service)


def _write(options: argparse.Namespace, run: Callable[[Service, Tx], T]) -> T:
    with opened(options) as service:
        return service.write(lambda tx: _recorded(options, service, tx, run(service, tx))).result()


def _recorded(options: argparse.Namespace, service: Service, tx: Tx, made: T) -> T:
    """With the row of what the operator did."""
    subject = made.get("id") if isinstance(made, dict) else None
    verb = f"command {options.run.__name__}"
    audit.record(service, tx, audit.Act(verb, address=f"user {os.getuid()} of this machine"), subject)
    return made


def _read(options: argparse.Namespace, run: Callable[[], T]) -> T:
    with opened(options) as service:
        return service.read(run).result()


def _known(organization: str | None) -> str | None:
    """The id as it was named, of an organization that there is; None: all of them."""
    return organization and tenancy.the_organization(organization)


def migrate(options: argparse.Namespace) -> dict[str, Any]:
    """`{from, to, applied}`."""
    settings = settings_of(options)
    make_private(settings)
    before, after, applied = db.migrate(settings.database_path)
    return {"from": before, "to": after, "applied": applied}


def org_create(options: argparse.Namespace) -> dict[str, Any]:
    return _write(options, lambda service, tx: tenancy.create_organization(service, tx, options.name))


def org_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    return _read(options, tenancy.list_organizations)


def profile_create(options: argparse.Namespace) -> dict[str, Any]:
    def create(service: Service, tx: Tx) -> dict[str, Any]:
        return tenancy.create_profile(service, tx, tenancy.the_organization(options.org), options.name)

    return _write(options, create)


def profile_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    return _read(options, lambda: tenancy.list_profiles(tenancy.Scope(tenancy.the_organization(options.org))))


def key_create(options: argparse.Namespace) -> dict[str, Any]:
    label = "test" if options.test else "live"

    def create(service: Service, tx: Tx) -> dict[str, Any]:
        organization = tenancy.the_organization(options.org)
        return tenancy.mint_key(service, tx, organization, profile=options.profile, name=options.name, label=label)

    return _write(options, create)


def key_revoke(options: argparse.Namespace) -> dict[str, Any]:
    return _write(options, lambda service, tx: tenancy.revoke_key(service, tx, None, options.id))


def key_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    return _read(options, lambda: tenancy.list_keys(_known(options.org)))


def user_create(options: argparse.Namespace) -> dict[str, Any]:
    """`{id, email, role}`."""
    secret = users.hashed(_secret())

    def create(service: Service, tx: Tx) -> dict[str, Any]:
        organization = tenancy.the_organization(options.org)
        return users.create_user(service, tx, organization, options.email, options.role, secret)

    return _write(options, create)


def user_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    return _read(options, lambda: users.list_users(_known(options.org)))


def user_set_password(options: argparse.Namespace) -> dict[str, Any]:
    """`{id, email, role}`; the user's sessions end."""
    secret = users.hashed(_secret())
    return _write(options, lambda service, tx: users.set_password(service, tx, options.email, secret))


class TokensInput(BaseModel):
    """What `account add` reads: tokens as the platform gave them."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, hide_input_in_errors=True)

    access_token: str = Field(min_length=1)
    refresh_token: str | None = None
    expires_at: Instant | None = None
    extra: dict[str, Any] = {}


def account_add(options: argparse.Namespace) -> AccountBody:
    """The account as the API shows it."""
    try:
        given = TokensInput.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        raise issues.validation_failed(TokensInput, error) from error
    identity = Identity(options.platform_account_id, options.display_name, given.extra)
    tokens = Tokens(given.access_token, given.refresh_token, given.expires_at)
    return _connect(options, identity, tokens)


def account_list(options: argparse.Namespace) -> list[AccountBody]:
    """The accounts as the API shows them, oldest first."""
    wanted = {"profileId": options.profile, "platform": options.platform, "status": options.status}
    listed = ("platform", "status")
    given = {name: [value] if name in listed else value for name, value in wanted.items() if value is not None}
    query = AccountsQuery.model_validate(given)
    return _read(options, lambda: accounts.list_everywhere(_known(options.org), query))


def account_connect(options: argparse.Namespace) -> AccountBody:
    """Check the credentials at the platform, then connect."""
    fields = {
        field.name: _secret() if field.secret else getattr(options, field.name)
        for field in platforms.platform(options.platform).credentials
    }
    with opened(options) as service:
        identity, tokens = accounts.login(service, options.platform, fields)
        return _connected(service, options, identity, tokens)


def _connect(options: argparse.Namespace, identity: Identity, tokens: Tokens) -> AccountBody:
    with opened(options) as service:
        return _connected(service, options, identity, tokens)


def _connected(service: Service, options: argparse.Namespace, identity: Identity, tokens: Tokens) -> AccountBody:
    def write(tx: Tx) -> AccountBody:
        organization = tenancy.organization_of(options.profile)
        return accounts.connect(service, tx, organization, options.profile, options.platform, identity, tokens)[0]

    return service.write(write).result()


def _secret() -> str:
    if sys.stdin.isatty():
        print("Type the secret and press Enter:", file=sys.stderr)
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise ApiError("validation_failed", "The secret is expected on standard input.")
    return secret

"""Administration on the database, beside a running server or without one."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.commands.serve import settings_of, start_service
from socialpub.domain import accounts, issues, people, schemas, tenancy
from socialpub.domain.service import Service, close_service
from socialpub.platforms.base import Identity, Tokens
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
        return service.write(lambda tx: run(service, tx)).result()


def migrate(options: argparse.Namespace) -> dict[str, Any]:
    """`{from, to, applied}`."""
    before, after, applied = db.migrate(settings_of(options).database_path)
    return {"from": before, "to": after, "applied": applied}


def org_create(options: argparse.Namespace) -> dict[str, Any]:
    return _write(options, lambda service, tx: tenancy.create_organization(service, tx, options.name))


def profile_create(options: argparse.Namespace) -> dict[str, Any]:
    return _write(options, lambda service, tx: tenancy.create_profile(service, tx, options.org, options.name))


def profile_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    with opened(options) as service:
        return service.read(lambda: tenancy.list_profiles(tenancy.Scope(options.org))).result()


def key_create(options: argparse.Namespace) -> dict[str, Any]:
    label = "test" if options.test else "live"
    return _write(
        options,
        lambda service, tx: tenancy.mint_key(
            service, tx, options.org, profile=options.profile, name=options.name, label=label
        ),
    )


def key_revoke(options: argparse.Namespace) -> dict[str, Any]:
    return _write(options, lambda service, tx: tenancy.revoke_key(service, tx, None, options.id))


def key_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    with opened(options) as service:
        return service.read(lambda: tenancy.list_keys(options.org)).result()


def user_create(options: argparse.Namespace) -> dict[str, Any]:
    """`{id, email, role}`."""
    secret = people.hashed(_secret())
    return _write(
        options,
        lambda service, tx: people.create_user(service, tx, options.org, options.email, options.role, secret),
    )


def user_set_password(options: argparse.Namespace) -> dict[str, Any]:
    """`{id, email, role}`; the user's sessions end."""
    secret = people.hashed(_secret())
    return _write(options, lambda service, tx: people.set_password(service, tx, options.email, secret))


class TokensInput(BaseModel):
    """What `account add` reads: tokens as the platform gave them."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, hide_input_in_errors=True)

    access_token: str = Field(min_length=1)
    refresh_token: str | None = None
    expires_at: schemas.Instant | None = None
    extra: dict[str, Any] = {}


def account_add(options: argparse.Namespace) -> dict[str, Any]:
    """The account as the API shows it."""
    try:
        given = TokensInput.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        raise issues.validation_failed(TokensInput, error) from error
    identity = Identity(options.platform_account_id, options.display_name, given.extra)
    tokens = Tokens(given.access_token, given.refresh_token, given.expires_at)
    return _connect(options, identity, tokens)


def account_connect(options: argparse.Namespace) -> dict[str, Any]:
    """Check the credentials at the platform, then connect."""
    fields = {
        field.name: _secret() if field.secret else getattr(options, field.name)
        for field in platforms.platform(options.platform).credentials
    }
    with opened(options) as service:
        identity, tokens = accounts.login(service, options.platform, fields)
        return _connected(service, options, identity, tokens)


def _connect(options: argparse.Namespace, identity: Identity, tokens: Tokens) -> dict[str, Any]:
    with opened(options) as service:
        return _connected(service, options, identity, tokens)


def _connected(service: Service, options: argparse.Namespace, identity: Identity, tokens: Tokens) -> dict[str, Any]:
    def write(tx: Tx) -> dict[str, Any]:
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

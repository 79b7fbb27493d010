"""Administration on the database, beside a running server or without one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.commands.parts import Options
from socialpub.commands.serve import RefusedError, join_service, make_private, older, only_server, settings_of
from socialpub.domain import act
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.accounts.connect import Offer
from socialpub.domain.core import copies
from socialpub.domain.core.service import Service, close_service
from socialpub.domain.people import billing, keys, profiles, tenancy, users
from socialpub.domain.people.actor import Actor, Body, Verb, operator
from socialpub.domain.shapes import issues
from socialpub.domain.shapes.accounts import AccountBody, AccountsQuery
from socialpub.domain.shapes.common import Instant
from socialpub.domain.shapes.issues import parse_object
from socialpub.domain.shapes.keys import KeyBody, KeyRequest
from socialpub.domain.shapes.profiles import OrganizationRequest, ProfileBody, ProfileRequest
from socialpub.platforms.contract import Connected, Identity, Tokens
from socialpub.store import db
from socialpub.store.locks import is_served
from socialpub.store.migrate import standing

T = TypeVar("T")
P = ParamSpec("P")


@contextlib.contextmanager
def opened(options: Options) -> Iterator[Service]:
    """The service over the configured database, for one command."""
    settings = settings_of(options)
    with copies.changed_by_us(settings):
        service = join_service(settings)
        try:
            yield service
        finally:
            close_service(service)


def acting(options: Options, service: Service) -> Actor:
    """The operator, in the organization that the command names, where it names one."""
    who = operator(service, f"command {options.run.__name__}", f"user {os.getuid()} of this machine")
    if not hasattr(options, "org"):
        return who
    return who.within(service.read(lambda: profiles.the_organization(options.org)).result())


def _done(options: Options, verb: Verb[P], *args: P.args, **kwargs: P.kwargs) -> Body:
    """What the verb answers, done by the operator."""
    with opened(options) as service:
        return act.do_now(acting(options, service), verb, *args, **kwargs)


def _read(options: Options, run: Callable[[], T]) -> T:
    with opened(options) as service:
        return service.read(run).result()


def _known(organization: str | None) -> str | None:
    """The id as it was named, of an organization that there is; None: all of them."""
    return organization and profiles.the_organization(organization)


def migrate(options: Options) -> dict[str, Any]:
    """`{from, to, applied}`; RefusedError beside a server, where there is something to do."""
    settings = settings_of(options)
    make_private(settings)
    with contextlib.ExitStack() as held, copies.changed_by_us(settings):
        if _is_behind(settings.database_path):
            held.enter_context(only_server(settings))  # none may begin meanwhile
        before, after, applied = db.migrate(settings.database_path)
    return {"from": before, "to": after, "applied": applied}


def _is_behind(path: Path) -> bool:
    """Whether there is something to migrate; RefusedError where a server runs on what an older socialpub wrote."""
    there, lacking = standing(path) if path.exists() else (0, 1)
    if there and lacking and is_served(path):
        raise RefusedError(older(path, lacking))
    return bool(lacking)


def org_create(options: Options) -> Body:
    return _done(options, profiles.create_organization, parse_object(OrganizationRequest, {"name": options.name}))


def org_set_tier(options: Options) -> Body:
    """`{id, name, tier}`."""
    return _done(options, billing.set_tier, options.id, options.tier)


def org_list(options: Options) -> list[dict[str, Any]]:
    return _read(options, profiles.list_organizations)


def profile_create(options: Options) -> Body:
    return _done(options, profiles.create, parse_object(ProfileRequest, {"name": options.name}))


def profile_list(options: Options) -> list[ProfileBody]:
    return _read(options, lambda: profiles.listed(tenancy.Scope(profiles.the_organization(options.org))))


def key_create(options: Options) -> Body:
    given = {"name": options.name, "profileId": options.profile}
    request = parse_object(KeyRequest, {name: value for name, value in given.items() if value is not None})
    return _done(options, keys.mint, request, label="test" if options.test else "live")


def key_revoke(options: Options) -> Body:
    return _done(options, keys.revoke, options.id)


def key_list(options: Options) -> list[KeyBody]:
    return _read(options, lambda: keys.listed(_known(options.org)))


def user_create(options: Options) -> Body:
    """`{id, email, role}`."""
    return _done(options, users.create, options.email, options.role, users.hashed(_secret("Password", new=True)))


def user_list(options: Options) -> list[dict[str, Any]]:
    return _read(options, lambda: users.list_users(_known(options.org)))


def user_set_password(options: Options) -> Body:
    """`{id, email, role}`; the user's sessions end."""
    return _done(options, users.set_password, options.email, users.hashed(_secret("Password", new=True)))


class TokensInput(BaseModel):
    """What `account add` reads: tokens as the platform gave them."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, hide_input_in_errors=True)

    access_token: str = Field(min_length=1)
    refresh_token: str | None = None
    expires_at: Instant | None = None
    extra: dict[str, Any] = {}


def account_add(options: Options) -> Body:
    """The account as the API shows it."""
    try:
        given = TokensInput.model_validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        raise issues.validation_failed(TokensInput, error) from error
    identity = Identity(options.platform_account_id, options.display_name, given.extra)
    tokens = Tokens(given.access_token, given.refresh_token, given.expires_at)
    return _connect(options, identity, tokens)


def account_list(options: Options) -> list[AccountBody]:
    """The accounts as the API shows them, oldest first."""
    wanted = {"profileId": options.profile, "platform": options.platform, "status": options.status}
    listed = ("platform", "status")
    given = {name: [value] if name in listed else value for name, value in wanted.items() if value is not None}
    query = AccountsQuery.model_validate(given)
    return _read(options, lambda: accounts.list_everywhere(_known(options.org), query))


def account_connect(options: Options) -> Body:
    """Check the credentials at the platform, then connect."""
    fields = {
        field.name: _secret(field.label) if field.secret else getattr(options, field.name)
        for field in platforms.platform(options.platform).credentials
    }
    with opened(options) as service:
        identity, tokens = accounts.login(service, options.platform, fields)
        return _connected(service, options, identity, tokens)


def _connect(options: Options, identity: Identity, tokens: Tokens) -> Body:
    with opened(options) as service:
        return _connected(service, options, identity, tokens)


def _connected(service: Service, options: Options, identity: Identity, tokens: Tokens) -> Body:
    organization = service.read(lambda: profiles.organization_of(options.profile)).result()
    offer = Offer(options.profile, (Connected(identity, tokens),))
    who = acting(options, service).within(organization)
    return act.do_now(who, connect.store, options.platform, offer)


def _secret(words: str, *, new: bool = False) -> str:
    """One that a person types unseen, a new one twice; or the first line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(words, hide_input=True, confirmation_prompt=new, err=True))
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise ApiError("validation_failed", "The secret is expected on standard input.")
    return secret

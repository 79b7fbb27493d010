"""Administration commands on the database, beside a running server or without one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.base.value_formats import parse_duration
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import (
    CommandRefusedError,
    describe_older_schema,
    hold_server_lock,
    join_service,
    load_settings,
    make_private,
)
from socialpub.domain import organization_deletion
from socialpub.domain.access import actions, authentication
from socialpub.domain.access.actor import ActionBody, ActionFunction, Actor, build_operator
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.accounts.connect import LoginResult
from socialpub.domain.context.app_context import AppContext, close_context
from socialpub.domain.identity import api_keys, totp, users
from socialpub.domain.organizations import billing, name_lookup, profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.accounts import AccountBody, AccountsQuery
from socialpub.domain.schemas.api_keys import KeyBody, KeyRequest
from socialpub.domain.schemas.common import Instant, LongName
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileBody, ProfileRequest
from socialpub.domain.schemas.validation import parse_object
from socialpub.domain.server import copy_detection
from socialpub.platforms.contract import AccountIdentity, OfferedAccount, Tokens
from socialpub.store.engine.locks import is_served
from socialpub.store.rows import AccountRow, ApiKeyRow, ProfileRow, UserRow
from socialpub.store.schema import migration
from socialpub.store.schema.migration import count_migrations
from socialpub_client.commands.exit_codes import REFUSED
from socialpub_client.commands.runner import decode_text, is_terminal, tell_error

T = TypeVar("T")
P = ParamSpec("P")


@contextlib.contextmanager
def open_database(options: CommandOptions) -> Iterator[AppContext]:
    """Open the service over the configured database, for one command."""
    settings = load_settings(options)
    with copy_detection.record_own_changes(settings):
        service = join_service(settings)
        try:
            yield service
        finally:
            close_context(service)


def make_actor(options: CommandOptions, service: AppContext) -> Actor:
    """Return the operator as actor, within the organization named by the command, if any."""
    actor = make_operator(options, service)
    if not hasattr(options, "org"):
        return actor
    return actor.within(service.read(lambda: name_lookup.find_organization(options.org)).result())


def make_operator(options: CommandOptions, service: AppContext) -> Actor:
    """Return the operator as actor, without an organization."""
    return build_operator(service, f"command {options.run.__name__}", f"user {os.getuid()} of this machine")


def _execute(options: CommandOptions, verb: ActionFunction[P], *args: P.args, **kwargs: P.kwargs) -> ActionBody:
    """Execute an action as the operator; return its body."""
    with open_database(options) as service:
        return actions.perform_sync(make_actor(options, service), verb, *args, **kwargs)


def _run_read(options: CommandOptions, run: Callable[[], T]) -> T:
    with open_database(options) as service:
        return service.read(run).result()


def migrate(options: CommandOptions) -> dict[str, Any]:
    """Migrate; return `{from, to, applied}`.

    Raises CommandRefusedError if a server runs on a database with pending migrations.
    """
    settings = load_settings(options)
    make_private(settings)
    with contextlib.ExitStack() as stack, copy_detection.record_own_changes(settings):
        if _is_behind(settings.database_path):
            stack.enter_context(hold_server_lock(settings))  # no server may start meanwhile
        before, after, applied = migration.migrate(settings.database_path, keep=settings.backup.before_upgrade)
    return {"from": before, "to": after, "applied": applied}


def _is_behind(path: Path) -> bool:
    """Return whether migrations are pending. Raises CommandRefusedError if a server runs then."""
    there, lacking = count_migrations(path) if path.exists() else (0, 1)
    if there and lacking and is_served(path):
        raise CommandRefusedError(describe_older_schema(path, lacking))
    return bool(lacking)


def org_create(options: CommandOptions) -> ActionBody:
    return _execute(options, profiles.create_organization, parse_object(OrganizationRequest, {"name": options.name}))


def org_rename(options: CommandOptions) -> ActionBody:
    """Rename an organization; return `{id, name}`."""
    request = parse_object(OrganizationRequest, {"name": options.name})
    with open_database(options) as service:
        organization = service.read(lambda: name_lookup.find_organization(options.id)).result()
        actor = make_operator(options, service).within(organization)
        return actions.perform_sync(actor, profiles.rename_organization, request)


def org_delete(options: CommandOptions) -> ActionBody:
    """Show what a deletion ends, with exit code 3; with `--yes` delete the organization."""
    with open_database(options) as service:
        organization = service.read(lambda: name_lookup.find_organization(options.id)).result()
        if options.yes:
            deleted = actions.perform_sync(
                make_operator(options, service).within(organization), organization_deletion.delete
            )
            options.sentences = [*_describe_deletion(deleted), f"The organization {deleted['name']} is deleted."]
            return deleted
        planned = service.read(lambda: organization_deletion.plan_deletion(service, organization)).result()
    options.exit_code = REFUSED
    options.sentences = [f"Deleting the organization {planned['name']} ends:", *_describe_deletion(planned)]
    tell_error("socialpub: Nothing was deleted. To delete it permanently, repeat the command with --yes.")
    return dict(planned)


def _describe_deletion(deletion: Mapping[str, Any]) -> list[str]:
    return [f"  {line}" for line in organization_deletion.format_lines(deletion["ends"])]


def org_set_tier(options: CommandOptions) -> ActionBody:
    """Set the tier; return `{id, name, tier}`."""
    with open_database(options) as service:
        organization = service.read(lambda: name_lookup.find_organization(options.id)).result()
        return actions.perform_sync(make_operator(options, service), billing.set_tier, organization, options.tier)


def org_list(options: CommandOptions) -> list[dict[str, Any]]:
    return _run_read(options, profiles.list_organizations)


def org_show(options: CommandOptions) -> ActionBody:
    """Show an organization with its tier and counts."""
    return _run_read(options, lambda: profiles.describe_organization(name_lookup.find_organization(options.id)))


def profile_create(options: CommandOptions) -> ActionBody:
    return _execute(options, profiles.create, parse_object(ProfileRequest, {"name": options.name}))


def profile_list(options: CommandOptions) -> list[ProfileBody]:
    return _run_read(options, lambda: profiles.list_bodies(Scope(name_lookup.find_organization(options.org))))


def profile_show(options: CommandOptions) -> ActionBody:
    """Show a profile as the API does, with counts."""
    return _run_read(
        options,
        lambda: _profile(
            name_lookup.find_profile(options.org and name_lookup.find_organization(options.org), options.id)
        ),
    )


def _profile(row: ProfileRow) -> ActionBody:
    usage = profiles.count_usage(Scope(row["organization"]), row["id"])
    return {
        **profiles.to_body(row),
        "organizationId": row["organization"],
        "accounts": usage.accounts,
        "keys": usage.keys,
    }


def key_create(options: CommandOptions) -> ActionBody:
    with open_database(options) as service:
        actor = make_actor(options, service)
        profile, listed = service.read(lambda: _find_limits(options, actor.scope.organization)).result()
        ends = _find_end(service, options.expires)
        limits = {"profileId": profile, "scopes": [*options.scope], "accounts": listed, "expiresAt": ends}
        given = {"name": options.name} | {name: value for name, value in limits.items() if value}
        try:
            request = parse_object(KeyRequest, given)
            return actions.perform_sync(actor, api_keys.create, request, label="test" if options.test else "live")
        except ApiError as error:
            if error.rule != "expiresAt":
                raise
            reason = error.message.removeprefix("expiresAt: ")
            options.usage(f"--expires {options.expires}: {reason} Or give a duration, such as 90d.")


def _find_end(service: AppContext, given: str | None) -> str | None:
    """Return the time at which a new key ends: as given, or after a duration such as `90d`."""
    if not given or given[-1] not in "smhd":
        return given
    try:
        return format_iso(service.now_ms + int(parse_duration(given) * 1000))
    except (ValueError, OverflowError, OSError):  # OSError: a year that no clock has
        return given


def _find_limits(options: CommandOptions, organization: str) -> tuple[str | None, list[str]]:
    """Return the ids of the profile and the accounts that a new key is limited to."""
    profile = name_lookup.find_profile(organization, options.profile)["id"] if options.profile else None
    return profile, [name_lookup.find_account(organization, name)["id"] for name in options.account]


def key_revoke(options: CommandOptions) -> ActionBody:
    with open_database(options) as service:
        row = service.read(lambda: _key(options)).result()
        return actions.perform_sync(
            make_operator(options, service).within(row["organization"]), api_keys.revoke, row["id"]
        )


def key_show(options: CommandOptions) -> ActionBody:
    """Show a key as the API does, without its secret."""
    return _run_read(options, lambda: _key_body(_key(options)))


def _key(options: CommandOptions) -> ApiKeyRow:
    return name_lookup.find_key(name_lookup.find_organization_or_all(options.org), options.id)


def _key_body(row: ApiKeyRow) -> ActionBody:
    return {**api_keys.to_body(row), "organizationId": row["organization"]}


def key_list(options: CommandOptions) -> list[KeyBody]:
    return _run_read(options, lambda: api_keys.list_bodies(name_lookup.find_organization_or_all(options.org)))


def user_create(options: CommandOptions) -> ActionBody:
    """Create a user; return `{id, email, role}`."""
    return _execute(
        options,
        users.create,
        options.email,
        options.role,
        users.hash_password(_read_secret(options, "Password", new=True)),
    )


def user_list(options: CommandOptions) -> list[dict[str, Any]]:
    return _run_read(options, lambda: users.list_users(name_lookup.find_organization_or_all(options.org)))


def user_set_password(options: CommandOptions) -> ActionBody:
    """Set a user's password, which ends their sessions; return `{id, email, role}`."""
    hash_ = users.hash_password(_read_secret(options, "Password", new=True))
    with open_database(options) as service:
        row, actor = _find_user(options, service)
        return actions.perform_sync(actor, users.set_password, row["email"], hash_)


def user_reset_totp(options: CommandOptions) -> ActionBody:
    """Turn off a user's second factor; return `{id, email}`."""
    with open_database(options) as service:
        row, actor = _find_user(options, service)
        return actions.perform_sync(actor, totp.reset, row["email"])


def _find_user(options: CommandOptions, service: AppContext) -> tuple[UserRow, Actor]:
    """Find a user, and act within their organization, so that its audit log has the entry."""
    row = service.read(lambda: name_lookup.find_user(None, options.email)).result()
    return row, make_operator(options, service).within(row["organization"])


def user_show(options: CommandOptions) -> ActionBody:
    """Show `{id, email, role, organizationId, createdAt, sessions}` of a user."""
    with open_database(options) as service:
        return service.read(lambda: _user(service, name_lookup.find_user(None, options.email))).result()


def _user(service: AppContext, row: UserRow) -> ActionBody:
    shown = {"id": row["id"], "email": row["email"], "role": row["role"], "organizationId": row["organization"]}
    sessions = len(authentication.list_csrf_tokens(row["id"], service.now_ms))
    return {**shown, "createdAt": format_iso(row["created_at"]), "sessions": sessions}


# --- Accounts ------------------------------------------------------------------------------------------------------


class TokensInput(BaseModel):
    """Input of `account add`: tokens as issued by the platform."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, hide_input_in_errors=True)

    access_token: str = Field(min_length=1)
    refresh_token: str | None = None
    expires_at: Instant | None = None
    extra: dict[str, Any] = {}


class IdentityInput(BaseModel):
    """Options of `account add` that name the account."""

    model_config = ConfigDict(alias_generator=to_camel)

    platform_account_id: LongName
    display_name: LongName | None


def account_add(options: CommandOptions) -> ActionBody:
    """Add an account with given tokens; return it as the API does."""
    given = validation.parse_body(TokensInput, b"" if sys.stdin is None else sys.stdin.buffer.read())
    shown = {"platformAccountId": options.platform_account_id, "displayName": options.display_name}
    named = parse_object(IdentityInput, shown)
    identity = AccountIdentity(named.platform_account_id, named.display_name, given.extra)
    tokens = Tokens(given.access_token, given.refresh_token, given.expires_at)
    with open_database(options) as service:
        return _store_account(service, options, identity, tokens)


def account_list(options: CommandOptions) -> list[AccountBody]:
    """List the accounts as the API does, oldest first; for a new database name the API command."""
    path = load_settings(options).database_path
    is_new = not path.exists()
    found = _run_read(options, lambda: _accounts(options))
    if is_new:
        tell_error(f"socialpub: {path} is a new database. Over the API: socialpub accounts list")
    return found


def _accounts(options: CommandOptions) -> list[AccountBody]:
    organization = name_lookup.find_organization_or_all(options.org)
    profile = options.profile and name_lookup.find_profile(organization, options.profile)["id"]
    wanted = {"profileId": profile, "platform": options.platform, "status": options.status}
    listed = ("platform", "status")
    given = {name: [value] if name in listed else value for name, value in wanted.items() if value is not None}
    return accounts.list_bodies_everywhere(organization, AccountsQuery.model_validate(given))


def account_show(options: CommandOptions) -> ActionBody:
    """Show an account as the API does, with the number of queued posts."""
    with open_database(options) as service:
        return service.read(lambda: _account_body(service, _account(options))).result()


def _account(options: CommandOptions) -> AccountRow:
    return name_lookup.find_account(name_lookup.find_organization_or_all(options.org), options.id)


def _account_body(service: AppContext, row: AccountRow) -> ActionBody:
    waiting = accounts.count_queued(service, Scope(row["organization"]), row["id"])
    return {**accounts.to_body(row), "organizationId": row["organization"], "waiting": waiting}


def account_disconnect(options: CommandOptions) -> ActionBody:
    """Disconnect after confirmation; keeps the queued posts without `--cancel`."""
    with open_database(options) as service:
        row = service.read(lambda: _account(options)).result()
        waiting = service.read(lambda: accounts.count_queued(service, Scope(row["organization"]), row["id"])).result()
        _confirm(options, _describe_disconnect(row, waiting, keep=not options.cancel))
        actor = make_operator(options, service).within(row["organization"])
        return actions.perform_sync(actor, connect.disconnect, row["id"], keep=not options.cancel)


def _describe_disconnect(row: AccountRow, waiting: int, *, keep: bool) -> str:
    label = platforms.platform(row["platform"]).label
    posts = {0: "No post is", 1: "1 post is"}.get(waiting, f"{waiting} posts are")
    then = "kept, and published if you reconnect the account in time" if keep else "canceled"
    outcome = f"{posts} scheduled on it and will be {then}." if waiting else f"{posts} scheduled on it."
    return (
        f"{label} account {row['display_name'] or row['platform_account_id']}: its tokens are deleted here and, where "
        f"possible, revoked at {label}. {outcome}"
    )


def _confirm(options: CommandOptions, consequences: str) -> None:
    """Print the consequences and ask for confirmation, if interactive."""
    tell_error(consequences)
    if options.yes:
        return
    if not is_terminal(sys.stdin):
        options.usage("standard input is not a terminal: confirm with --yes")
    click.confirm("Disconnect it?", abort=True, err=True)


def account_connect(options: CommandOptions) -> ActionBody:
    """Check the credentials at the platform, then connect."""
    fields = {
        field.name: _read_secret(options, field.label) if field.secret else getattr(options, field.name)
        for field in platforms.platform(options.platform).credentials
    }
    with open_database(options) as service:
        identity, tokens = accounts.login(service, options.platform, fields)
        return _store_account(service, options, identity, tokens)


def _store_account(
    service: AppContext, options: CommandOptions, identity: AccountIdentity, tokens: Tokens
) -> ActionBody:
    row = service.read(lambda: _find_profile(options)).result()
    offer = LoginResult(row["id"], (OfferedAccount(identity, tokens),))
    actor = make_operator(options, service).within(row["organization"])
    return actions.perform_sync(actor, connect.store_result, options.platform, offer)


def _find_profile(options: CommandOptions) -> ProfileRow:
    """Find the named profile, or the only one."""
    organization = None if options.profile and not options.org else name_lookup.find_organization(options.org)
    return (
        name_lookup.find_profile(organization, options.profile)
        if options.profile
        else name_lookup.find_only_profile(organization or "")
    )


def _read_secret(options: CommandOptions, words: str, *, new: bool = False) -> str:
    """Read a secret: prompted without echo (a new one twice), or from standard input."""
    if is_terminal(sys.stdin):
        return str(click.prompt(words, hide_input=True, confirmation_prompt=new, err=True))
    try:
        secret = "" if sys.stdin is None else decode_text(sys.stdin.buffer.readline()).rstrip("\n")
    except UnicodeError:
        options.usage("standard input is not UTF-8")
    if not secret:
        options.usage(f"there is no terminal to ask at: give the {words[0].lower()}{words[1:]} on standard input")
    return secret

"""Connecting accounts: login attempts through the browser, and the choice between accounts.

An attempt belongs to one session, organization, profile and platform, works once and expires after ten minutes. If the
session ends, the same user's next session may finish it. The state is stored as a digest only, which also protects
against CSRF.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from socialpub import platforms
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.security import crypto
from socialpub.domain.access import actions, authentication
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts, client_metadata, revocation, tokens
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.accounts import (
    ChoiceBody,
    ChoicesBody,
    CompleteRequestBase,
    ConnectBody,
    CredentialsDescriptor,
    Descriptor,
    FieldBody,
    read_credentials,
    read_redirect,
)
from socialpub.domain.schemas.common import DeletedBody
from socialpub.platforms.contract import (
    AccountIdentity,
    AuthorizationRedirect,
    OfferedAccount,
    Platform,
    SupportsOAuth,
    Tokens,
)
from socialpub.platforms.kit import oauth
from socialpub.store.database import Tx
from socialpub.store.rows import AccountRow, ConnectAttemptRow
from socialpub.store.schema.models import Account, ConnectAttempt, find_row_where, find_rows

log = logging.getLogger("socialpub.connect")

T = TypeVar("T")
ATTEMPT_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class LoginResult:
    """Result of a login: one account to connect, or several to choose from."""

    profile: str
    connected: tuple[OfferedAccount, ...]
    attempt: str | None = None  # id of the attempt with these choices
    is_choice: bool = False  # one account of several; the others can be connected too


# --- Preconditions -------------------------------------------------------------------------------------------------


def is_ready(service: AppContext, name: str) -> bool:
    """Return whether accounts of the platform can be connected on this server."""
    try:
        return bool(get_ready_platform(service, name))
    except ApiError:
        return False


def get_ready_platform(service: AppContext, name: str) -> Platform:
    """Return the platform if it can be connected. Raises `not_found`, `platform_not_enabled`."""
    if name not in platforms.PLATFORMS:
        raise ApiError("not_found", "There is no platform of this name.")
    platform, site = platforms.platform(name), service.sites[name]
    accounts.check_enabled(service, platform)
    missing = [key for key in ("client_id", "client_secret") if not getattr(site, key)]
    if platform.oauth and missing and not platform.credentials:
        names = " and ".join(f"platforms.{name}.{key}" for key in missing)
        raise ApiError(
            "platform_not_enabled",
            f"This server is not registered as an app at {platform.label}.",
            platform=name,
            remediation=(
                f"An owner registers an app at {platform.label} with the redirect URI "
                f"{build_redirect_uri(service, platform)} and types it in under Settings, Platform apps; or the "
                f"operator sets {names}. See {service.base_url}/docs/platforms/{name}."
            ),
        )
    return platform


def build_redirect_uri(service: AppContext, platform: Platform) -> str:
    """Return the redirect URI, as registered at the platform."""
    return f"{service.base_url}/connect/{platform.name}/callback"


def choose_profile(scope: Scope, wanted: str | None) -> str:
    """Return the profile to connect in; None: the first one. Raises ApiError `not_found`."""
    if wanted is not None:
        profiles.check_profile(scope, wanted)
        return wanted
    known = profiles.list_bodies(scope)
    if not known:
        raise ApiError("not_found", "The organization has no profile.", remediation="Create a profile first.")
    return known[0]["id"]


# --- Start ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PushedLogin:
    """Login started upstream by account name (pushed authorization request)."""

    state: str
    invitation: AuthorizationRedirect


async def push_login(
    service: AppContext, scope: Scope, name: str, handle: str | None, wanted: str | None
) -> PushedLogin | None:
    """Push the login of a named account upstream; None where unsupported, then use `start`."""
    platform = get_ready_platform(service, name)
    await service.read(lambda: choose_profile(scope, wanted))
    share = upstreams.build_login_share_key(name, scope.organization)
    if not handle or not client_metadata.can_push_login(service, platform):
        return None
    state = _generate_token(service)
    return PushedLogin(
        state, await run_in_thread(service, share, lambda: client_metadata.push_login(service, name, handle, state))
    )


def start(tx: Tx, who: Actor, name: str, wanted: str | None, invited: PushedLogin | None) -> ActionResult:
    """Start a login; return `{platform, state, descriptor}`: a URL or fields to fill in."""
    service, scope, platform = who.service, who.scope, get_ready_platform(who.service, name)
    profile = choose_profile(scope, wanted)
    if invited is not None:
        _insert_attempt(service, tx, scope, platform, profile, invited.state, {"invited": invited.invitation.stored})
        descriptor: Descriptor = {"type": "oauth", "authorizeUrl": invited.invitation.url}
    elif platform.oauth is None:
        descriptor = describe_credentials(platform)
    else:
        descriptor = {"type": "oauth", "authorizeUrl": _start_authorization(service, tx, scope, platform, profile)}
    body: ConnectBody = {"platform": name, "state": platform.state, "descriptor": descriptor}
    return ActionResult(body, subject=name, secret=True, is_audited=False)  # nothing is connected yet


def describe_credentials(platform: Platform) -> CredentialsDescriptor:
    """Describe the credential fields of the platform."""
    fields: list[FieldBody] = [
        {"name": field.name, "label": field.label, "secret": field.secret} for field in platform.credentials
    ]
    return {"type": "credentials", "fields": fields}


def _start_authorization(service: AppContext, tx: Tx, scope: Scope, platform: Platform, profile: str) -> str:
    state, verifier = _generate_token(service), _generate_token(service)
    _insert_attempt(service, tx, scope, platform, profile, state, {"verifier": verifier})
    return oauth.build_authorize_url(
        platform, service.sites[platform.name], build_redirect_uri(service, platform), state, verifier
    )


def _insert_attempt(
    service: AppContext, tx: Tx, scope: Scope, platform: Platform, profile: str, state: str, secret: dict[str, Any]
) -> None:
    attempt, now = crypto.digest(state), service.now_ms
    ConnectAttempt.insert(
        id=attempt,
        session=_get_session(scope),
        organization=scope.organization,
        profile=profile,
        platform=platform.name,
        secret=_encrypt(service, attempt, "secret", secret | {"user": scope.user}),
        created_at=now,
        ends_at=now + ATTEMPT_MS,
    ).execute()


def _generate_token(service: AppContext) -> str:
    """Generate 256 random bits as 43 URL-safe characters (also a PKCE verifier, RFC 7636, 4.1)."""
    return crypto.encode_base64url(service.runtime.entropy(32))


def _get_session(scope: Scope) -> str:
    return crypto.digest(scope.csrf or "")


def _encrypt(service: AppContext, attempt: str, column: str, value: Any) -> str:
    return service.runtime.vault.seal(json.dumps(value).encode(), ("connect_attempt", column, attempt))


def _decrypt(service: AppContext, row: ConnectAttemptRow, column: Literal["secret", "choices"]) -> Any:
    sealed = row[column]
    assert sealed is not None, "it is stored before it is read"
    try:
        return json.loads(service.runtime.vault.open(sealed, ("connect_attempt", column, row["id"])))
    except crypto.SealError as error:
        raise rule_error("connect.state") from error


# --- Completion ----------------------------------------------------------------------------------------------------


async def complete(who: Actor, name: str, request: CompleteRequestBase) -> LoginResult:
    """Complete a login by the platform's method: fields, code or choice."""
    service, scope, platform = who.service, who.scope, get_ready_platform(who.service, name)
    if platform.oauth is None and not (request.state or request.code or request.choice_id):
        return await complete_with_fields(service, scope, name, read_credentials(platform, request), request.profile_id)
    state, code, choice = read_redirect(request)
    if choice is not None:
        return await complete_with_choice(service, scope, name, state, choice)
    return await complete_with_code(service, scope, name, state, code or "", request.iss)


async def complete_with_code(
    service: AppContext, scope: Scope, name: str, state: str, code: str, iss: str | None = None
) -> LoginResult:
    """Exchange the code for accounts. The state is used up in any case.

    `iss` is the issuer of the code, if given (RFC 9207).
    """
    platform, custom = get_ready_platform(service, name), upstreams.build_login_share_key(name, scope.organization)
    for share in (custom, ShareKey(name, scope.organization)):  # use the state up only if the pool has room
        upstreams.choose_executor(service, share).admit(share)
    row = await actions.write(service, scope, lambda tx: _use_up_attempt(service, tx, scope, name, state))
    secret = _decrypt(service, row, "secret")
    share = custom if "invited" in secret else ShareKey(name, scope.organization)
    offered = await _submit(service, share, lambda: _exchange_code(service, platform, code, secret, iss))
    if not offered:
        raise ApiError("platform_auth_failed", "This login gives access to no account that can publish.", platform=name)
    if len(offered) == 1:
        return LoginResult(row["profile"], offered)
    await actions.write(service, scope, lambda tx: _save_choices(service, tx, row["id"], offered))
    return LoginResult(row["profile"], offered, row["id"])


async def decline(service: AppContext, scope: Scope, name: str, state: str, reason: str) -> ApiError:
    """Build the error for a declined login, and use the state up."""
    platform = get_ready_platform(service, name)
    await actions.write(service, scope, lambda tx: _use_up_attempt(service, tx, scope, name, state))
    return ApiError(
        "platform_auth_failed",
        f"{platform.label} did not connect the account: {reason}",
        platform=name,
        remediation="Connect again and allow every permission.",
        outcome=Outcome.REJECTED,
    )


async def find_profile(service: AppContext, scope: Scope, name: str, state: str) -> str | None:
    """Return the profile of a login attempt that has not expired, even if it is used up."""
    row = await service.read(lambda: _find_attempt(service, scope, name, state))
    return row["profile"] if row else None


async def find_choices(service: AppContext, scope: Scope, name: str, state: str) -> LoginResult | None:
    """Load the accounts that a login left to choose from; None if there are none."""
    row = await service.read(lambda: _find_attempt(service, scope, name, state))
    if row is None or row["choices"] is None:
        return None
    return LoginResult(row["profile"], _load_choices(service, row), row["id"])


async def complete_with_choice(service: AppContext, scope: Scope, name: str, state: str, choice: str) -> LoginResult:
    """Take one of the offered accounts; repeatable for ten minutes."""
    get_ready_platform(service, name)
    offer = await find_choices(service, scope, name, state)
    if offer is None:
        raise rule_error("connect.state")
    chosen = tuple(one for one in offer.connected if derive_choice_id(one) == choice)
    if not chosen:
        raise ApiError("not_found", "This login does not give access to that account.")
    return LoginResult(offer.profile, chosen, is_choice=True)


async def complete_with_fields(
    service: AppContext, scope: Scope, name: str, fields: Mapping[str, str], wanted: str | None
) -> LoginResult:
    """Log in with credentials and offer the account."""
    get_ready_platform(service, name)
    profile = await service.read(lambda: choose_profile(scope, wanted))
    share = upstreams.build_login_share_key(name, scope.organization)
    identity, new_tokens = await run_in_thread(service, share, lambda: accounts.login(service, name, fields))
    return LoginResult(profile, (OfferedAccount(identity, new_tokens),))


def _find_attempt(service: AppContext, scope: Scope, name: str, state: str) -> ConnectAttemptRow | None:
    row: ConnectAttemptRow | None = find_row_where(
        ConnectAttempt,
        ConnectAttempt.id == crypto.digest(state),
        ConnectAttempt.organization == scope.organization,
        ConnectAttempt.platform == name,
        ConnectAttempt.ends_at > service.now_ms,
    )
    return row if row is not None and _is_same_session(service, scope, row) else None


def _is_same_session(service: AppContext, scope: Scope, row: ConnectAttemptRow) -> bool:
    """Return whether the attempt began in this session, or in an ended one of the same user."""
    if row["session"] == _get_session(scope):
        return True
    if scope.user is None or _decrypt(service, row, "secret")["user"] != scope.user:
        return False
    return row["session"] not in map(crypto.digest, authentication.list_csrf_tokens(scope.user, service.now_ms))


def _use_up_attempt(service: AppContext, tx: Tx, scope: Scope, name: str, state: str) -> ConnectAttemptRow:
    row = _find_attempt(service, scope, name, state)
    if row is None or row["used_at"] is not None:
        raise rule_error("connect.state")
    now = service.now_ms  # it is needed until the platform has answered
    ConnectAttempt.update(used_at=now, session=_get_session(scope), ends_at=now + ATTEMPT_MS).where(
        ConnectAttempt.id == row["id"]
    ).execute()
    return row


def _exchange_code(
    service: AppContext, platform: Platform, code: str, secret: dict[str, Any], iss: str | None
) -> tuple[OfferedAccount, ...]:
    if "invited" in secret:
        return (client_metadata.exchange_code(service, platform.name, secret["invited"], code, iss),)
    verifier = secret["verifier"]
    connector = cast(SupportsOAuth, platforms.CONNECTORS[platform.name])
    with tokens.open_upstream(service, platform.name) as up:
        uri, now = build_redirect_uri(service, platform), service.now_ms
        new_tokens = oauth.exchange(platform, up.http, up.site, code, uri, verifier, now)
        try:
            return connector.identify(replace(up, tokens=new_tokens), now)
        except ApiError as error:
            error.platform_response = tokens.redact_reply(error.platform_response, new_tokens)
            raise


def _save_choices(service: AppContext, tx: Tx, attempt: str, offered: tuple[OfferedAccount, ...]) -> None:
    sealed = _encrypt(service, attempt, "choices", [_encode_choice(one) for one in offered])
    ConnectAttempt.update(choices=sealed, ends_at=service.now_ms + ATTEMPT_MS).where(
        ConnectAttempt.id == attempt
    ).execute()


def _load_choices(service: AppContext, row: ConnectAttemptRow) -> tuple[OfferedAccount, ...]:
    return tuple(_decode_choice(packed) for packed in _decrypt(service, row, "choices"))


def _encode_choice(one: OfferedAccount) -> dict[str, Any]:
    identity = one.identity
    who = {"id": identity.platform_account_id, "name": identity.display_name, "extra": dict(identity.extra)}
    return {"who": who, "tokens": tokens.encode(one.tokens), "kind": one.kind}


def _decode_choice(packed: dict[str, Any]) -> OfferedAccount:
    who = packed["who"]
    return OfferedAccount(
        AccountIdentity(who["id"], who["name"], who["extra"]), tokens.decode(packed["tokens"]), packed["kind"]
    )


def derive_choice_id(one: OfferedAccount) -> str:
    """Derive a choice's id from the account; it is stable."""
    return crypto.digest(one.identity.platform_account_id)[:20]


def build_choices(offer: LoginResult) -> list[ChoiceBody]:
    """Build the choices for the API."""
    return [
        {
            "id": derive_choice_id(one),
            "platformAccountId": one.identity.platform_account_id,
            "displayName": one.identity.display_name,
            "kind": one.kind,
        }
        for one in offer.connected
    ]


def store_result(tx: Tx, who: Actor, name: str, offer: LoginResult) -> ActionResult:
    """Connect the offered account (201 if new), or return the choices if there are several."""
    if offer.attempt is not None:
        return ActionResult(ChoicesBody(choices=build_choices(offer)), subject=name)
    choose_profile(who.scope, offer.profile)
    (one,) = offer.connected
    organization = who.scope.organization
    body, new = accounts.connect(who.service, tx, organization, offer.profile, name, one.identity, one.tokens)
    return ActionResult(body, 201 if new else 200)


def purge(service: AppContext) -> None:
    """Delete expired attempts with their encrypted secrets."""
    over = ConnectAttempt.ends_at <= service.now_ms
    if service.read(lambda: ConnectAttempt.select().where(over).exists()).result():
        service.write(lambda tx: ConnectAttempt.delete().where(over).execute()).result()


# --- Disconnection -------------------------------------------------------------------------------------------------


def disconnect(tx: Tx, who: Actor, account: str, *, keep: bool = False) -> ActionResult:
    """Disconnect an account; return `{id, deleted}`. Revoked upstream after the commit.

    `keep`: queued posts stay, and are published if the account is reconnected in time; default: canceled.
    """
    service = who.service
    row = accounts.disconnect(service, tx, who.scope, account, who.request_id, keep=keep)
    return ActionResult(DeletedBody(id=account, deleted=True), after=lambda: revoke(service, row))


async def revoke(service: AppContext, row: AccountRow) -> bool:
    """Revoke a disconnected account's authorization upstream; return whether that was done.

    Skipped while another connected account uses the same authorization. A failure is only logged.
    """
    return await _submit(service, upstreams.get_share_key(service, row), lambda: _revoke(service, row))


def _revoke(service: AppContext, row: AccountRow) -> bool:
    if row["secret"] is None or not revocation.can_revoke(row["platform"]):
        return False
    try:
        held = tokens.decrypt(service, row["id"], row["secret"])
        if service.read(lambda: _is_login_shared(service, row, held)).result():
            return False
        service.write(lambda tx: _delete_choices(service, tx, row, held)).result()
    except ApiError as error:
        log.warning("account %s: its authorization could not be revoked at the platform: %s", row["id"], error.code)
        return False
    return revocation.revoke(service, row, held)


def _is_login_shared(service: AppContext, row: AccountRow, held: Tokens) -> bool:
    """Return whether another connected account uses the same account or login."""
    others = find_rows(
        Account, Account.platform == row["platform"], Account.id != row["id"], Account.secret.is_null(False)
    )
    return any(_is_same_grant(service, row, held, other) for other in others)


def _is_same_grant(service: AppContext, row: AccountRow, held: Tokens, other: AccountRow) -> bool:
    if other["platform_account_id"] == row["platform_account_id"]:
        return True
    assert other["secret"] is not None, "only rows with tokens are selected"
    return _is_same_login(held, tokens.decrypt(service, other["id"], other["secret"]))


def _is_same_login(held: Tokens, theirs: Tokens) -> bool:
    mine = {held.access, held.refresh, held.private.get("login")} - {None}
    return bool(mine & {theirs.access, theirs.refresh, theirs.private.get("login")})


def _delete_choices(service: AppContext, tx: Tx, row: AccountRow, held: Tokens) -> None:
    """Delete the choices of logins whose authorization is about to be revoked."""
    left = ConnectAttempt.choices.is_null(False) & (ConnectAttempt.ends_at > service.now_ms)
    for attempt in find_rows(ConnectAttempt, left, ConnectAttempt.platform == row["platform"]):
        if any(_is_same_login(held, one.tokens) for one in _load_choices(service, attempt)):
            ConnectAttempt.delete().where(ConnectAttempt.id == attempt["id"]).execute()


async def run_in_thread(service: AppContext, share: ShareKey, work: Callable[[], T]) -> T:
    """Run an upstream call in a thread. Raises ApiError `http.busy` if its queue is full."""
    upstreams.choose_executor(service, share).admit(share)
    return await _submit(service, share, work)


async def _submit(service: AppContext, share: ShareKey, work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(upstreams.choose_executor(service, share).submit_for(share, work))

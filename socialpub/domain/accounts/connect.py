"""Connecting accounts: login attempts through the browser, and the choice between accounts.

An attempt belongs to one session, organization, profile and platform, works once and expires after ten minutes. If the
session ends, the same user's next session may finish it. The state is stored as a digest only, which also protects
against CSRF.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from socialpub import platforms
from socialpub.base import crypto
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.fair import Share
from socialpub.domain import act
from socialpub.domain.accounts import accounts, grants, public_client, tokens
from socialpub.domain.core import upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.people import profiles, tenancy
from socialpub.domain.people.actor import Actor, Done
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.accounts import (
    ChoiceBody,
    ChoicesBody,
    Completing,
    ConnectBody,
    CredentialsDescriptor,
    Descriptor,
    FieldBody,
    back_from,
    fields_given,
)
from socialpub.domain.shapes.common import DeletedBody
from socialpub.platforms.contract import (
    AccountIdentity,
    AuthorizationRedirect,
    CredentialField,
    OfferedAccount,
    Platform,
    SupportsOAuth,
    Tokens,
)
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.platforms.kit import oauth
from socialpub.store.db import Tx
from socialpub.store.models import Account, ConnectAttempt, rows_where
from socialpub.store.rows import AccountRow, ConnectAttemptRow

log = logging.getLogger("socialpub.connect")

T = TypeVar("T")
LIFE_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class Offer:
    """Result of a login: one account to connect, or several to choose from."""

    profile: str
    connected: tuple[OfferedAccount, ...]
    attempt: str | None = None  # id of the attempt with these choices
    is_choice: bool = False  # one account of several; the others can be connected too


# --- Preconditions -------------------------------------------------------------------------------------------------


def is_ready(service: Service, name: str) -> bool:
    """Return whether accounts of the platform can be connected on this server."""
    try:
        return bool(ready(service, name))
    except ApiError:
        return False


def ready(service: Service, name: str) -> Platform:
    """Return the platform if it can be connected. Raises `not_found`, `platform_not_enabled`."""
    if name not in platforms.PLATFORMS:
        raise ApiError("not_found", "There is no platform of this name.")
    platform, site = platforms.platform(name), service.sites[name]
    accounts.enabled(service, platform)
    missing = [key for key in ("client_id", "client_secret") if not getattr(site, key)]
    if platform.oauth and missing and not platform.credentials:
        names = " and ".join(f"platforms.{name}.{key}" for key in missing)
        raise ApiError(
            "platform_not_enabled",
            f"This server is not registered as an app at {platform.label}.",
            platform=name,
            remediation=(
                f"An owner registers an app at {platform.label} with the redirect URI "
                f"{redirect_uri(service, platform)} and types it in under Settings, Platform apps; or the operator "
                f"sets {names}. See {service.base_url}/docs/platforms/{name}."
            ),
        )
    return platform


def redirect_uri(service: Service, platform: Platform) -> str:
    """Return the redirect URI, as registered at the platform."""
    return f"{service.base_url}/connect/{platform.name}/callback"


def profile_of(scope: Scope, wanted: str | None) -> str:
    """Return the profile to connect in; None: the first one. Raises ApiError `not_found`."""
    if wanted is None:
        return str(profiles.listed(scope)[0]["id"])
    if not profiles.exists(scope, wanted):
        raise ApiError("not_found", "There is no profile with this id.")
    return wanted


# --- Start ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invited:
    """Login started upstream by account name (pushed authorization request)."""

    state: str
    invitation: AuthorizationRedirect


async def invite(service: Service, scope: Scope, name: str, handle: str | None, wanted: str | None) -> Invited | None:
    """Push the login of a named account upstream; None where unsupported, then use `start`."""
    platform = ready(service, name)
    await service.read(lambda: profile_of(scope, wanted))
    share = upstreams.typed(name, scope.organization)
    if not handle or not public_client.can_invite(service, platform):
        return None
    state = _random(service)
    return Invited(state, await aside(service, share, lambda: public_client.invite(service, name, handle, state)))


def start(tx: Tx, who: Actor, name: str, wanted: str | None, invited: Invited | None) -> Done:
    """Start a login; return `{platform, state, descriptor}`: a URL or fields to fill in."""
    service, scope, platform = who.service, who.scope, ready(who.service, name)
    profile = profile_of(scope, wanted)
    if invited is not None:
        _begin(service, tx, scope, platform, profile, invited.state, {"invited": invited.invitation.kept})
        descriptor: Descriptor = {"type": "oauth", "authorizeUrl": invited.invitation.url}
    elif platform.oauth is None:
        descriptor = asked_for(platform)
    else:
        descriptor = {"type": "oauth", "authorizeUrl": _authorize_url(service, tx, scope, platform, profile)}
    shown: ConnectBody = {"platform": name, "state": platform.state, "descriptor": descriptor}
    return Done(shown, subject=name, secret=True, is_act=False)  # nothing is connected yet


def asked_for(platform: Platform) -> CredentialsDescriptor:
    """Describe the credential fields of the platform."""
    return {"type": "credentials", "fields": [_field(field) for field in platform.credentials]}


def _field(field: CredentialField) -> FieldBody:
    return {"name": field.name, "label": field.label, "secret": field.secret}


def _authorize_url(service: Service, tx: Tx, scope: Scope, platform: Platform, profile: str) -> str:
    state, verifier = _random(service), _random(service)
    _begin(service, tx, scope, platform, profile, state, {"verifier": verifier})
    return oauth.build_authorize_url(
        platform, service.sites[platform.name], redirect_uri(service, platform), state, verifier
    )


def _begin(
    service: Service, tx: Tx, scope: Scope, platform: Platform, profile: str, state: str, secret: dict[str, Any]
) -> None:
    attempt, now = crypto.digest(state), service.now_ms
    ConnectAttempt.insert(
        id=attempt,
        session=_session(scope),
        organization=scope.organization,
        profile=profile,
        platform=platform.name,
        secret=_seal(service, attempt, "secret", secret | {"user": scope.user}),
        created_at=now,
        ends_at=now + LIFE_MS,
    ).execute()


def _random(service: Service) -> str:
    """Generate 256 random bits as 43 URL-safe characters (also a PKCE verifier, RFC 7636, 4.1)."""
    return base64.urlsafe_b64encode(service.runtime.entropy(32)).rstrip(b"=").decode()


def _session(scope: Scope) -> str:
    return crypto.digest(scope.csrf or "")


def _seal(service: Service, attempt: str, column: str, value: Any) -> str:
    return service.runtime.vault.seal(json.dumps(value).encode(), ("connect_attempt", column, attempt))


def _open(service: Service, row: ConnectAttemptRow, column: Literal["secret", "choices"]) -> Any:
    sealed = row[column]
    assert sealed is not None, "it is there before it is asked for"
    try:
        return json.loads(service.runtime.vault.open(sealed, ("connect_attempt", column, row["id"])))
    except crypto.SealError as error:
        raise refuse("connect.state") from error


# --- Completion ----------------------------------------------------------------------------------------------------


async def offer(who: Actor, name: str, request: Completing) -> Offer:
    """Complete a login by the platform's method: fields, code or choice."""
    service, scope, platform = who.service, who.scope, ready(who.service, name)
    if platform.oauth is None and not (request.state or request.code or request.choice_id):
        return await by_fields(service, scope, name, fields_given(platform, request), request.profile_id)
    state, code, choice = back_from(request)
    if choice is not None:
        return await by_choice(service, scope, name, state, choice)
    return await by_code(service, scope, name, state, code or "", request.iss)


async def by_code(service: Service, scope: Scope, name: str, state: str, code: str, iss: str | None = None) -> Offer:
    """Exchange the code for accounts. The state is used up in any case.

    `iss` is the issuer of the code, if given (RFC 9207).
    """
    platform, typed = ready(service, name), upstreams.typed(name, scope.organization)
    for share in (typed, Share(name, scope.organization)):  # use the state up only if the pool has room
        upstreams.threads(service, share).admit(share)
    row = await act.write(service, scope, lambda tx: _take(service, tx, scope, name, state))
    secret = _open(service, row, "secret")
    share = typed if "invited" in secret else Share(name, scope.organization)
    found = await _in(service, share, lambda: _exchange(service, platform, code, secret, iss))
    if not found:
        raise ApiError("platform_auth_failed", "This login gives access to no account that can publish.", platform=name)
    if len(found) == 1:
        return Offer(row["profile"], found)
    await act.write(service, scope, lambda tx: _save_choices(service, tx, row["id"], found))
    return Offer(row["profile"], found, row["id"])


async def declined(service: Service, scope: Scope, name: str, state: str, said: str) -> ApiError:
    """Build the error for a declined login, and use the state up."""
    platform = ready(service, name)
    await act.write(service, scope, lambda tx: _take(service, tx, scope, name, state))
    return ApiError(
        "platform_auth_failed",
        f"{platform.label} did not connect the account: {said}",
        platform=name,
        remediation="Connect again and allow every permission.",
        outcome=Outcome.REJECTED,
    )


async def offered(service: Service, scope: Scope, name: str, state: str) -> Offer | None:
    """Load the accounts that a login left to choose from; None if there are none."""
    row = await service.read(lambda: _attempt(service, scope, name, state))
    if row is None or row["choices"] is None:
        return None
    found = tuple(_unpack(packed) for packed in _open(service, row, "choices"))
    return Offer(row["profile"], found, row["id"])


async def by_choice(service: Service, scope: Scope, name: str, state: str, choice: str) -> Offer:
    """Take one of the offered accounts; repeatable for ten minutes."""
    ready(service, name)
    offer = await offered(service, scope, name, state)
    if offer is None:
        raise refuse("connect.state")
    chosen = tuple(one for one in offer.connected if choice_id(one) == choice)
    if not chosen:
        raise ApiError("not_found", "This login does not give access to that account.")
    return Offer(offer.profile, chosen, is_choice=True)


async def by_fields(service: Service, scope: Scope, name: str, fields: Mapping[str, str], wanted: str | None) -> Offer:
    """Log in with credentials and offer the account."""
    ready(service, name)
    profile = await service.read(lambda: profile_of(scope, wanted))
    share = upstreams.typed(name, scope.organization)
    identity, found = await aside(service, share, lambda: accounts.login(service, name, fields))
    return Offer(profile, (OfferedAccount(identity, found),))


def _attempt(service: Service, scope: Scope, name: str, state: str) -> ConnectAttemptRow | None:
    query = ConnectAttempt.select().where(
        ConnectAttempt.id == crypto.digest(state),
        ConnectAttempt.organization == scope.organization,
        ConnectAttempt.platform == name,
        ConnectAttempt.ends_at > service.now_ms,
    )
    row: ConnectAttemptRow | None = query.dicts().first()
    return row if row is not None and _is_of(service, scope, row) else None


def _is_of(service: Service, scope: Scope, row: ConnectAttemptRow) -> bool:
    """Return whether the attempt began in this session, or in an ended one of the same user."""
    if row["session"] == _session(scope):
        return True
    if scope.user is None or _open(service, row, "secret")["user"] != scope.user:
        return False
    return row["session"] not in map(crypto.digest, tenancy.csrf_tokens(scope.user, service.now_ms))


def _take(service: Service, tx: Tx, scope: Scope, name: str, state: str) -> ConnectAttemptRow:
    row = _attempt(service, scope, name, state)
    if row is None or row["used_at"] is not None:
        raise refuse("connect.state")
    ConnectAttempt.update(used_at=service.now_ms, session=_session(scope)).where(
        ConnectAttempt.id == row["id"]
    ).execute()
    return row


def _exchange(
    service: Service, platform: Platform, code: str, secret: dict[str, Any], iss: str | None
) -> tuple[OfferedAccount, ...]:
    if "invited" in secret:
        return (public_client.accept(service, platform.name, secret["invited"], code, iss),)
    verifier = secret["verifier"]
    connector = cast(SupportsOAuth, platforms.CONNECTORS[platform.name])
    with tokens.open_upstream(service, platform.name, Who(""), Tokens("")) as up:
        uri, now = redirect_uri(service, platform), service.now_ms
        found = oauth.exchange(platform, up.http, up.site, code, uri, verifier, now)
        try:
            return connector.identify(replace(up, tokens=found), now)
        except ApiError as error:
            error.platform_response = tokens.scrub(error.platform_response, found)
            raise


def _save_choices(service: Service, tx: Tx, attempt: str, found: tuple[OfferedAccount, ...]) -> None:
    sealed = _seal(service, attempt, "choices", [_pack(one) for one in found])
    ConnectAttempt.update(choices=sealed, ends_at=service.now_ms + LIFE_MS).where(
        ConnectAttempt.id == attempt
    ).execute()


def _pack(one: OfferedAccount) -> dict[str, Any]:
    identity = one.identity
    who = {"id": identity.platform_account_id, "name": identity.display_name, "extra": dict(identity.extra)}
    return {"who": who, "tokens": tokens.pack(one.tokens), "kind": one.kind}


def _unpack(packed: dict[str, Any]) -> OfferedAccount:
    who = packed["who"]
    return OfferedAccount(
        AccountIdentity(who["id"], who["name"], who["extra"]), tokens.unpack(packed["tokens"]), packed["kind"]
    )


def choice_id(one: OfferedAccount) -> str:
    """Derive a choice's id from the account; it is stable."""
    return crypto.digest(one.identity.platform_account_id)[:20]


def choice_bodies(offer: Offer) -> list[ChoiceBody]:
    """Build the choices for the API."""
    return [
        {
            "id": choice_id(one),
            "platformAccountId": one.identity.platform_account_id,
            "displayName": one.identity.display_name,
            "kind": one.kind,
        }
        for one in offer.connected
    ]


def store(tx: Tx, who: Actor, name: str, offer: Offer) -> Done:
    """Connect the offered account (201 if new), or return the choices if there are several."""
    if offer.attempt is not None:
        return Done(ChoicesBody(choices=choice_bodies(offer)), subject=name)
    profile_of(who.scope, offer.profile)
    (one,) = offer.connected
    organization = who.scope.organization
    body, new = accounts.connect(who.service, tx, organization, offer.profile, name, one.identity, one.tokens)
    return Done(body, 201 if new else 200)


def purge(service: Service) -> None:
    """Delete expired attempts with their encrypted secrets."""
    over = ConnectAttempt.ends_at <= service.now_ms
    if service.read(lambda: ConnectAttempt.select().where(over).exists()).result():
        service.write(lambda tx: ConnectAttempt.delete().where(over).execute()).result()


# --- Disconnection -------------------------------------------------------------------------------------------------


def disconnect(tx: Tx, who: Actor, account: str, *, keep: bool = False) -> Done:
    """Disconnect an account; return `{id, deleted}`. Revoked upstream after the commit.

    `keep`: queued posts stay, and are published if the account is reconnected in time; default: canceled.
    """
    service = who.service
    row = accounts.disconnect(service, tx, who.scope, account, who.request_id, keep=keep)
    return Done(DeletedBody(id=account, deleted=True), after=lambda: revoke(service, row))


async def revoke(service: Service, row: AccountRow) -> bool:
    """Revoke a disconnected account's authorization upstream; return whether that was done.

    Skipped while another connected account uses the same authorization. A failure is only logged.
    """
    return await _in(service, upstreams.share_of(service, row), lambda: _revoke(service, row))


def _revoke(service: Service, row: AccountRow) -> bool:
    if row["secret"] is None or not grants.can_end(row["platform"]):
        return False
    try:
        held = tokens.open_tokens(service, row["id"], row["secret"])
        if service.read(lambda: _is_shared(service, row, held)).result():
            return False
    except ApiError as error:
        log.warning("account %s: its authorization was not ended upstream: %s", row["id"], error.code)
        return False
    return grants.end(service, row, held)


def _is_shared(service: Service, row: AccountRow, held: Tokens) -> bool:
    """Return whether another connected account uses the same account or login."""
    others = rows_where(
        Account, Account.platform == row["platform"], Account.id != row["id"], Account.secret.is_null(False)
    )
    return any(_same_grant(service, row, held, other) for other in others)


def _same_grant(service: Service, row: AccountRow, held: Tokens, other: AccountRow) -> bool:
    if other["platform_account_id"] == row["platform_account_id"]:
        return True
    assert other["secret"] is not None, "only those with tokens are asked for"
    theirs = tokens.open_tokens(service, other["id"], other["secret"])
    mine = {held.access, held.refresh, held.private.get("login")} - {None}
    return bool(mine & {theirs.access, theirs.refresh, theirs.private.get("login")})


async def aside(service: Service, share: Share, work: Callable[[], T]) -> T:
    """Run an upstream call in a thread. Raises ApiError `http.busy` if its queue is full."""
    upstreams.threads(service, share).admit(share)
    return await _in(service, share, work)


async def _in(service: Service, share: Share, work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(upstreams.threads(service, share).submit_for(share, work))

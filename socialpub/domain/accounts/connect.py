"""Connecting accounts: the attempt that a browser carries to the platform and back, and the choice it may come to.

An attempt belongs to one session, organization, profile and platform, works once, and lives ten minutes. A session that
ends meanwhile leaves it to the next one of the same person, who signs in on the way back. Its state is known to the
browser and the platform alone: here is only its digest, which also says that the request is our own.
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
from socialpub.platforms.contract import Account as Who
from socialpub.platforms.contract import Authorizes, Connected, CredentialField, Identity, Invitation, Platform, Tokens
from socialpub.platforms.kit import oauth
from socialpub.store.db import Tx
from socialpub.store.models import Account, ConnectAttempt, rows_where
from socialpub.store.rows import AccountRow, ConnectAttemptRow

log = logging.getLogger("socialpub.connect")

T = TypeVar("T")
LIFE_MS = 10 * 60 * 1000


@dataclass(frozen=True)
class Offer:
    """What a finished login offers: exactly one account to connect, or several to choose from."""

    profile: str
    connected: tuple[Connected, ...]
    attempt: str | None = None  # whose choices these are
    is_choice: bool = False  # one of several; the others may be connected too


# --- Where ---------------------------------------------------------------------------------------------------------


def is_ready(service: Service, name: str) -> bool:
    """Whether accounts can be connected to the platform on this server."""
    try:
        return bool(ready(service, name))
    except ApiError:
        return False


def ready(service: Service, name: str) -> Platform:
    """The platform, when accounts can be connected to it; `not_found` or `platform_not_enabled`, whoever asks."""
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
    """Where the platform sends the browser back to; registered there exactly so."""
    return f"{service.base_url}/connect/{platform.name}/callback"


def profile_of(scope: Scope, wanted: str | None) -> str:
    """The profile to connect in: the one that is named, else the organization's first; ApiError `not_found`."""
    if wanted is None:
        return str(profiles.listed(scope)[0]["id"])
    if not profiles.exists(scope, wanted):
        raise ApiError("not_found", "There is no profile with this id.")
    return wanted


# --- Out -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invited:
    """A login that has begun upstream, by the account's name."""

    state: str
    invitation: Invitation


async def invite(service: Service, scope: Scope, name: str, handle: str | None, wanted: str | None) -> Invited | None:
    """Begin the login of a named account, where the platform has that; else None, and `start` knows how to go on."""
    platform = ready(service, name)
    await service.read(lambda: profile_of(scope, wanted))
    share = upstreams.typed(name, scope.organization)
    if not handle or not public_client.can_invite(service, platform):
        return None
    state = _random(service)
    return Invited(state, await aside(service, share, lambda: public_client.invite(service, name, handle, state)))


def start(tx: Tx, who: Actor, name: str, wanted: str | None, invited: Invited | None) -> Done:
    """How to connect: `{platform, state, descriptor}`, an address to send the browser to or fields to fill in."""
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
    """The fields that somebody fills in, where an account connects by its credentials."""
    return {"type": "credentials", "fields": [_field(field) for field in platform.credentials]}


def _field(field: CredentialField) -> FieldBody:
    return {"name": field.name, "label": field.label, "secret": field.secret}


def _authorize_url(service: Service, tx: Tx, scope: Scope, platform: Platform, profile: str) -> str:
    state, verifier = _random(service), _random(service)
    _begin(service, tx, scope, platform, profile, state, {"verifier": verifier})
    return oauth.authorize_url(platform, service.sites[platform.name], redirect_uri(service, platform), state, verifier)


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
    """256 bits, in 43 characters that need no escaping (also a PKCE verifier, RFC 7636, 4.1)."""
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


# --- Back ----------------------------------------------------------------------------------------------------------


async def offer(who: Actor, name: str, request: Completing) -> Offer:
    """What a login came to, in whichever way its platform has."""
    service, scope, platform = who.service, who.scope, ready(who.service, name)
    if platform.oauth is None and not (request.state or request.code or request.choice_id):
        return await by_fields(service, scope, name, fields_given(platform, request), request.profile_id)
    state, code, choice = back_from(request)
    if choice is not None:
        return await by_choice(service, scope, name, state, choice)
    return await by_code(service, scope, name, state, code or "", request.iss)


async def by_code(service: Service, scope: Scope, name: str, state: str, code: str, iss: str | None = None) -> Offer:
    """The accounts that a code stands for. The state is spent, whatever comes of it.

    `iss`: who issued the code, where the platform tells.
    """
    platform, typed = ready(service, name), upstreams.typed(name, scope.organization)
    for share in (typed, Share(name, scope.organization)):  # the state is spent only where there is room for the rest
        upstreams.threads(service, share).admit(share)
    row = await act.write(service, scope, lambda tx: _take(service, tx, scope, name, state))
    secret = _open(service, row, "secret")
    share = typed if "invited" in secret else Share(name, scope.organization)
    found = await _in(service, share, lambda: _exchange(service, platform, code, secret, iss))
    if not found:
        raise ApiError("platform_auth_failed", "The login offers no account that can be published to.", platform=name)
    if len(found) == 1:
        return Offer(row["profile"], found)
    await act.write(service, scope, lambda tx: _save_choices(service, tx, row["id"], found))
    return Offer(row["profile"], found, row["id"])


async def declined(service: Service, scope: Scope, name: str, state: str, said: str) -> ApiError:
    """The account's owner, or the platform, said no: the state is spent."""
    platform = ready(service, name)
    await act.write(service, scope, lambda tx: _take(service, tx, scope, name, state))
    return ApiError(
        "platform_auth_failed",
        f"{platform.label} did not connect the account: {said}",
        platform=name,
        remediation="Connect again and allow what is asked for.",
        outcome=Outcome.REJECTED,
    )


async def offered(service: Service, scope: Scope, name: str, state: str) -> Offer | None:
    """The accounts that a login has left to choose from; None when it has left none."""
    row = await service.read(lambda: _attempt(service, scope, name, state))
    if row is None or row["choices"] is None:
        return None
    found = tuple(_unpack(packed) for packed in _open(service, row, "choices"))
    return Offer(row["profile"], found, row["id"])


async def by_choice(service: Service, scope: Scope, name: str, state: str, choice: str) -> Offer:
    """One of the accounts that a login offered; as often as wanted, for ten minutes."""
    ready(service, name)
    offer = await offered(service, scope, name, state)
    if offer is None:
        raise refuse("connect.state")
    chosen = tuple(one for one in offer.connected if choice_id(one) == choice)
    if not chosen:
        raise ApiError("not_found", "The login did not offer this account.")
    return Offer(offer.profile, chosen, is_choice=True)


async def by_fields(service: Service, scope: Scope, name: str, fields: Mapping[str, str], wanted: str | None) -> Offer:
    """The account that these credentials belong to."""
    ready(service, name)
    profile = await service.read(lambda: profile_of(scope, wanted))
    share = upstreams.typed(name, scope.organization)
    identity, found = await aside(service, share, lambda: accounts.login(service, name, fields))
    return Offer(profile, (Connected(identity, found),))


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
    """Whether an attempt is this session's: it began here, or in one of the same person that is over."""
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
) -> tuple[Connected, ...]:
    if "invited" in secret:
        return (public_client.accept(service, platform.name, secret["invited"], code, iss),)
    verifier = secret["verifier"]
    connector = cast(Authorizes, platforms.CONNECTORS[platform.name])
    with tokens.open_upstream(service, platform.name, Who(""), Tokens("")) as up:
        uri, now = redirect_uri(service, platform), service.now_ms
        found = oauth.exchange(platform, up.http, up.site, code, uri, verifier, now)
        try:
            return connector.identify(replace(up, tokens=found), now)
        except ApiError as error:
            error.platform_response = tokens.scrub(error.platform_response, found)
            raise


def _save_choices(service: Service, tx: Tx, attempt: str, found: tuple[Connected, ...]) -> None:
    sealed = _seal(service, attempt, "choices", [_pack(one) for one in found])
    ConnectAttempt.update(choices=sealed, ends_at=service.now_ms + LIFE_MS).where(
        ConnectAttempt.id == attempt
    ).execute()


def _pack(one: Connected) -> dict[str, Any]:
    identity = one.identity
    who = {"id": identity.platform_account_id, "name": identity.display_name, "extra": dict(identity.extra)}
    return {"who": who, "tokens": tokens.pack(one.tokens), "kind": one.kind}


def _unpack(packed: dict[str, Any]) -> Connected:
    who = packed["who"]
    return Connected(Identity(who["id"], who["name"], who["extra"]), tokens.unpack(packed["tokens"]), packed["kind"])


def choice_id(one: Connected) -> str:
    """A choice's id: the same account always has the same."""
    return crypto.digest(one.identity.platform_account_id)[:20]


def choice_bodies(offer: Offer) -> list[ChoiceBody]:
    """The choices as the API shows them."""
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
    """Connect what was offered: the account, 201 where it is new; or the choices, where there are several."""
    if offer.attempt is not None:
        return Done(ChoicesBody(choices=choice_bodies(offer)), subject=name)
    profile_of(who.scope, offer.profile)
    (one,) = offer.connected
    organization = who.scope.organization
    body, new = accounts.connect(who.service, tx, organization, offer.profile, name, one.identity, one.tokens)
    return Done(body, 201 if new else 200)


def purge(service: Service) -> None:
    """Forget attempts that are over, with what they have sealed."""
    over = ConnectAttempt.ends_at <= service.now_ms
    if service.read(lambda: ConnectAttempt.select().where(over).exists()).result():
        service.write(lambda tx: ConnectAttempt.delete().where(over).execute()).result()


# --- Gone ----------------------------------------------------------------------------------------------------------


def disconnect(tx: Tx, who: Actor, account: str, *, keep: bool = False) -> Done:
    """`{id, deleted}`; once that is committed, its authorization ends at the platform too, where that is possible.

    `keep`: its waiting posts stay, and go out where it is connected again before their time; else they are canceled.
    """
    service = who.service
    row = accounts.disconnect(service, tx, who.scope, account, who.request_id, keep=keep)
    return Done(DeletedBody(id=account, deleted=True), after=lambda: revoke(service, row))


async def revoke(service: Service, row: AccountRow) -> bool:
    """End a disconnected account's authorization at its platform, where that is possible; whether it was.

    Left alone while another connected account acts by the same authorization. A failure is logged: here, the account
    is gone already.
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
    """Whether another connected account is the same one elsewhere, or acts by the same login."""
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
    """A call upstream, in a thread, so that the loop goes on; ApiError `http.busy` where too many wait for one."""
    upstreams.threads(service, share).admit(share)
    return await _in(service, share, work)


async def _in(service: Service, share: Share, work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(upstreams.threads(service, share).submit_for(share, work))

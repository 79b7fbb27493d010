"""Connected accounts: who they are, the tokens that act for them, and how both stay true."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from socialpub import platforms
from socialpub.base import crypto
from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain import events
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.platforms.base import Account as Who
from socialpub.platforms.base import Identity, Login, Platform, Tokens, Upstream
from socialpub.store.db import Tx
from socialpub.store.models import Account

Row = dict[str, Any]
HIDDEN = "[hidden]"


# --- Reading -----------------------------------------------------------------------------------------------------


def in_scope(scope: Scope, profile: str | None = None) -> list[Row]:
    """The connected accounts of the scope (and profile), oldest first, without secrets."""
    query = Account.select().where(Account.organization == scope.organization, Account.disconnected_at.is_null())
    narrowed = profile or scope.profile
    if narrowed:
        query = query.where(Account.profile == narrowed)
    return list(query.order_by(Account.created_at, Account.id).dicts())


def list_bodies(scope: Scope, profile: str | None) -> list[Row]:
    """GET /v1/accounts: an unknown or malformed profile matches nothing; a bound key sees its own profile only."""
    if profile is not None and scope.profile not in (None, profile):
        return []
    return [body(row) for row in in_scope(scope, profile)]


def get_body(scope: Scope, account: str) -> Row:
    """One account of the scope; ApiError `not_found`."""
    for row in in_scope(scope):
        if row["id"] == account:
            return body(row)
    raise ApiError("not_found", "There is no account with this id in the scope.")


def body(row: Row) -> Row:
    """An account as the API shows it; never a secret."""
    shown = {
        "id": row["id"],
        "profileId": row["profile"],
        "platform": row["platform"],
        "platformAccountId": row["platform_account_id"],
        "displayName": row["display_name"],
        "status": row["status"],
        "createdAt": iso(row["created_at"]),
        "updatedAt": iso(row["updated_at"]),
        "tokenExpiresAt": iso(row["token_expires_at"]),
    }
    block = platforms.platform(row["platform"]).account_block
    if block:
        extra = json.loads(row["extra"])
        shown[row["platform"]] = {name: extra.get(name) for name in block}
    return shown


def who(row: Row) -> Who:
    """The account as connectors and rules may know it."""
    return Who(row["platform_account_id"], row["display_name"], json.loads(row["extra"]))


# --- Connecting --------------------------------------------------------------------------------------------------


def connect(
    service: Service, tx: Tx, organization: str, profile: str, platform: str, identity: Identity, tokens: Tokens
) -> tuple[Row, bool]:
    """The connected account and whether it is new; the same account in the same profile keeps its id."""
    now = service.now_ms
    same = (
        (Account.profile == profile)
        & (Account.platform == platform)
        & (Account.platform_account_id == identity.platform_account_id)
    )
    known = Account.select(Account.id).where(same).scalar()
    account = known or service.runtime.ids.uuid()
    values = {
        "display_name": identity.display_name,
        "status": "active",
        "secret": seal(service, account, tokens),
        "token_expires_at": tokens.expires_at_ms,
        "extra": json.dumps(dict(identity.extra)),
        "updated_at": now,
        "disconnected_at": None,
    }
    if known:
        Account.update(**values).where(same).execute()
    else:
        Account.insert(
            id=account,
            organization=organization,
            profile=profile,
            platform=platform,
            platform_account_id=identity.platform_account_id,
            created_at=now,
            **values,
        ).execute()
    return body(Account.select().where(Account.id == account).dicts().get()), known is None


def login(service: Service, platform: str, fields: Mapping[str, str]) -> tuple[Identity, Tokens]:
    """Who these credentials belong to, as the platform says; ApiError `platform_not_enabled` where there is no way."""
    connector = platforms.CONNECTORS.get(platform)
    enabled(service, platforms.platform(platform))
    log_in: Login | None = getattr(connector, "login", None) and connector  # type: ignore[assignment]
    if log_in is None:
        raise ApiError("platform_not_enabled", f"Accounts of {platform} do not connect by credentials.")
    with line(service, platform, Who(""), Tokens("")) as up:
        return log_in.login(up, fields, service.now_ms)


def enabled(service: Service, platform: Platform) -> None:
    """ApiError `platform_not_enabled` unless this server publishes to the platform."""
    if platform.name not in platforms.CONNECTORS or not service.sites[platform.name].enabled:
        raise ApiError(
            "platform_not_enabled", f"{platform.label} is not enabled on this server.", platform=platform.name
        )


# --- Tokens ------------------------------------------------------------------------------------------------------


def seal(service: Service, account: str, tokens: Tokens) -> str:
    secret = {
        "access": tokens.access,
        "refresh": tokens.refresh,
        "expiresAtMs": tokens.expires_at_ms,
        "private": dict(tokens.private),
    }
    return service.runtime.vault.seal(json.dumps(secret).encode(), ("account", "secret", account))


def open_tokens(service: Service, account: str, sealed: str) -> Tokens:
    """The tokens of an account; ApiError `account.reconnect_required` when they cannot be opened any more."""
    try:
        secret = json.loads(service.runtime.vault.open(sealed, ("account", "secret", account)))
    except crypto.SealError as error:
        raise refuse("account.reconnect_required", "The account's stored authorization cannot be read.") from error
    return Tokens(secret["access"], secret["refresh"], secret["expiresAtMs"], secret["private"])


def ends_before(service: Service, row: Row, at_ms: int) -> bool:
    """Whether the account's authorization ends before an instant and cannot be refreshed by itself."""
    ends = row["token_expires_at"]
    if ends is None or ends >= at_ms or row["secret"] is None:
        return False
    try:
        return open_tokens(service, row["id"], row["secret"]).refresh is None
    except ApiError:
        return True  # sealed with a key that is gone: it is over already


_refreshing: dict[str, threading.Lock] = {}
_refreshing_guard = threading.Lock()


def refresh(service: Service, account: Row, stale: Tokens) -> Tokens:
    """New tokens in place of `stale`, stored; one refresh at a time for an account, others take its result.

    A refusal marks the account revoked (event `token.revoked`) and raises rule `account.reconnect_required`; a network
    failure is raised as it is and changes nothing.
    """
    with _refreshing_guard:
        lock = _refreshing.setdefault(account["id"], threading.Lock())
    with lock:
        sealed = service.read(
            lambda: Account.select(Account.secret).where(Account.id == account["id"]).scalar()
        ).result()
        if sealed is None:
            raise refuse("account.disconnected")
        current = open_tokens(service, account["id"], sealed)
        if current.access != stale.access:
            return current
        return _refresh_now(service, account, current)


def _refresh_now(service: Service, account: Row, current: Tokens) -> Tokens:
    connector = platforms.CONNECTORS[account["platform"]]
    try:
        with line(service, account["platform"], who(account), current) as up:
            fresh = connector.refresh(up, service.now_ms)
    except ApiError as error:
        if error.code != "platform_auth_failed":
            raise
        reason = error.message
        service.write(lambda tx: mark_revoked(service, tx, account["id"], reason)).result()
        raise _reconnect(error) from error
    service.write(lambda tx: _store_tokens(service, account["id"], fresh)).result()
    return fresh


def _reconnect(error: ApiError) -> ApiError:
    gone = refuse("account.reconnect_required", platform_response=error.platform_response)
    gone.platform = error.platform
    return gone


def _store_tokens(service: Service, account: str, tokens: Tokens) -> None:
    Account.update(
        secret=seal(service, account, tokens),
        token_expires_at=tokens.expires_at_ms,
        status="active",
        updated_at=service.now_ms,
    ).where(Account.id == account, Account.disconnected_at.is_null()).execute()


def mark_revoked(service: Service, tx: Tx, account: str, reason: str) -> None:
    """The platform refused the account's authorization: once, with event `token.revoked`."""
    now = service.now_ms
    if (
        not Account.update(status="revoked", updated_at=now)
        .where(Account.id == account, Account.status != "revoked", Account.disconnected_at.is_null())
        .execute()
    ):
        return
    row = Account.select().where(Account.id == account).dicts().get()
    data = {
        "accountId": row["id"],
        "platform": row["platform"],
        "profileId": row["profile"],
        "platformAccountId": row["platform_account_id"],
        "displayName": row["display_name"],
        "revokedAt": iso(now),
        "reason": reason,
    }
    events.emit(service, "token.revoked", row["organization"], data, profile=row["profile"])


# --- Calling -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def line(service: Service, platform: str, account: Who, tokens: Tokens) -> Iterator[Upstream]:
    """A live line to a platform for one job in one thread."""
    runtime = service.runtime
    with (
        runtime.open_http(runtime.http_policy(guarded=False)) as http,
        runtime.open_http(runtime.http_policy(guarded=True)) as guarded,
    ):
        yield Upstream(http, guarded, service.sites[platform], account, tokens)


_SECRET_NAMES = ("token", "jwt", "password", "secret", "authorization", "cookie", "signature", "assertion")


def scrub(value: Any, tokens: Tokens) -> Any:
    """A raw upstream answer without secrets: by the names of its fields, and wherever one of the tokens stands."""
    if isinstance(value, dict):
        return {name: HIDDEN if _is_secret(name, item) else scrub(item, tokens) for name, item in value.items()}
    if isinstance(value, list):
        return [scrub(item, tokens) for item in value]
    if isinstance(value, str):
        for secret in _secrets(tokens):
            value = value.replace(secret, HIDDEN)
    return value


def _is_secret(name: str, value: object) -> bool:
    return isinstance(value, str) and any(word in name.lower() for word in _SECRET_NAMES)


def _secrets(tokens: Tokens) -> list[str]:
    private = [item for item in tokens.private.values() if isinstance(item, str)]
    return [secret for secret in (tokens.access, tokens.refresh, *private) if secret and len(secret) >= 8]

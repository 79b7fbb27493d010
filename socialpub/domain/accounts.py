"""Connected accounts: who they are, how they come and how they go. (Their tokens are in `tokens`.)"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain import moves, unclear
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.domain.tokens import columns, line
from socialpub.platforms.base import Account as Who
from socialpub.platforms.base import Identity, Login, Platform, Tokens
from socialpub.store.db import Tx
from socialpub.store.models import Account, Post

Row = dict[str, Any]


# --- Reading -----------------------------------------------------------------------------------------------------


def in_scope(scope: Scope, profile: str | None = None) -> list[Row]:
    """The connected accounts of the scope (and profile), oldest first."""
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
    return body(find(scope, account))


def find(scope: Scope, account: str) -> Row:
    """The row of a connected account of the scope, with its sealed secret; ApiError `not_found`."""
    query = Account.select().where(
        Account.id == account, Account.organization == scope.organization, Account.disconnected_at.is_null()
    )
    if scope.profile:
        query = query.where(Account.profile == scope.profile)
    row = query.dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no account with this id in the scope.")
    return row  # type: ignore[no-any-return]


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


def ends_before(row: Row, at_ms: int) -> bool:
    """Whether the account's authorization ends before an instant and cannot be renewed by itself."""
    return row["ends_at"] is not None and row["ends_at"] < at_ms


# --- Connecting --------------------------------------------------------------------------------------------------


def connect(
    service: Service, tx: Tx, organization: str, profile: str, platform: str, identity: Identity, tokens: Tokens
) -> tuple[Row, bool]:
    """The connected account and whether it is new; the same account in the same profile keeps its id.

    What its owner had chosen for it (a default board) stays. Another profile's row of the same account is not touched.
    """
    same = (
        (Account.profile == profile)
        & (Account.platform == platform)
        & (Account.platform_account_id == identity.platform_account_id)
    )
    known = Account.select(Account.id, Account.extra).where(same).dicts().first()
    account = known["id"] if known else service.runtime.ids.uuid()
    extra = json.loads(known["extra"]) if known else {}
    values = {
        "display_name": identity.display_name,
        "extra": json.dumps(extra | dict(identity.extra)),
        "disconnected_at": None,
        **columns(service, account, platform, tokens),
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
            created_at=values["updated_at"],
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
    if platform.name not in platforms.CONNECTORS:
        raise ApiError(
            "platform_not_enabled", f"This version cannot publish to {platform.label}.", platform=platform.name
        )
    if not service.sites[platform.name].enabled:
        raise ApiError(
            "platform_not_enabled",
            f"{platform.label} is not enabled on this server.",
            platform=platform.name,
            remediation=f"The operator sets platforms.{platform.name}.enabled = true.",
        )


# --- Disconnecting -----------------------------------------------------------------------------------------------


def disconnect(service: Service, tx: Tx, scope: Scope, account: str, request_id: str) -> Row:
    """Erase an account's secrets and cancel its waiting posts; the row as it was (for revoking upstream).

    The row itself stays for the post log; connecting the same account again revives its id. A post that goes on by
    itself at the platform cannot be called canceled: its next attempt ends it.
    """
    row, now = find(scope, account), service.now_ms
    gone = {"secret": None, "token_expires_at": None, "ends_at": None, "renewed_at": None, "renewal_at": None}
    Account.update(disconnected_at=now, updated_at=now, **gone).where(Account.id == account).execute()
    shown = (Post.id, Post.platform, Post.saved)
    waiting = Post.select(*shown).where(Post.account == account, Post.status.in_(["queued", "validated"])).dicts()
    for post in [post for post in waiting if not unclear.goes_on(post)]:
        moves.move(service, tx, "disconnect", post["id"], request_id=request_id)
        service.jobs.remove(tx, post["id"])
    return row

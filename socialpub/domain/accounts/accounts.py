"""Connected accounts: read, connect and disconnect. For tokens see `tokens`."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain import post_states
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import account_groups, attention, revocation
from socialpub.domain.accounts.tokens import build_columns, decrypt, open_upstream
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.context.upstreams import UpstreamColumns
from socialpub.domain.schemas.accounts import AccountBody, AccountsQuery
from socialpub.platforms.contract import AccountIdentity, ConfiguredSite, Platform, SupportsPasswordLogin, Tokens
from socialpub.platforms.kit import oauth
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, Job
from socialpub.store.queries import maintenance
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account, find_row_where, find_rows, get_row

log = logging.getLogger("socialpub.jobs")

CANCEL_BATCH = 100  # posts canceled per transaction: other writers wait for it
LOG_INTERVAL = 5000


# --- Reading -----------------------------------------------------------------------------------------------------


def list_rows(scope: Scope, profile: str | None = None) -> list[AccountRow]:
    """List the connected accounts of the scope (and profile), oldest first."""
    rows = _list_connected(scope.organization, scope.profile if profile is None else profile)
    return rows if scope.accounts is None else [row for row in rows if row["id"] in scope.accounts]


def _list_connected(organization: str | None, profile: str | None) -> list[AccountRow]:
    query = Account.select().where(Account.disconnected_at.is_null())
    if organization is not None:
        query = query.where(Account.organization == organization)
    if profile is not None:
        query = query.where(Account.profile == profile)
    return list(query.order_by(Account.created_at, Account.id).dicts())


def list_bodies(scope: Scope, query: AccountsQuery | None = None) -> list[AccountBody]:
    """List the accounts for GET /v1/accounts; a bound key sees its own only.

    An unknown, malformed or empty profile matches nothing.
    """
    query = query or AccountsQuery()
    profile = query.profile_id
    if profile is not None and scope.profile not in (None, profile):
        return []
    groups = account_groups.list_names(scope.organization)
    return [to_body(row, groups.get(row["id"])) for row in list_rows(scope, profile) if _is_match(row, query)]


def list_bodies_everywhere(organization: str | None, query: AccountsQuery) -> list[AccountBody]:
    """List the accounts of an organization, or of all if None (the operator's command)."""
    return [to_body(row) for row in _list_connected(organization, query.profile_id) if _is_match(row, query)]


def _is_match(row: AccountRow, query: AccountsQuery) -> bool:
    of_platform = query.platform is None or row["platform"] in query.platform
    return of_platform and (query.status is None or row["status"] in query.status)


def get_body(scope: Scope, account: str) -> AccountBody:
    """Load an account of the scope. Raises ApiError `not_found`."""
    return to_body(find(scope, account), account_groups.list_names(scope.organization).get(account))


def find(scope: Scope, account: str) -> AccountRow:
    """Load a connected account's row, secret encrypted. Raises ApiError `not_found`."""
    row = find_including_disconnected(scope, account)
    if row["disconnected_at"] is not None:
        raise _build_not_found()
    return row


def find_including_disconnected(scope: Scope, account: str) -> AccountRow:
    """Load an account's row, even if disconnected. Raises ApiError `not_found`."""
    row: AccountRow | None = find_row_where(Account, Account.id == account, scope.filter(Account))
    if row is None or not scope.has_account(account):
        raise _build_not_found()
    return row


def list_listed(scope: Scope) -> list[AccountRow]:
    """List the accounts that a key is limited to, in its profile, even if disconnected."""
    return find_rows(Account, scope.filter(Account), Account.id.in_(scope.accounts))


def _build_not_found() -> ApiError:
    return ApiError("not_found", "There is no account with this id in the scope.")


def to_body(row: AccountRow, groups: Sequence[str] | None = None) -> AccountBody:
    """Build the API's account body, without secrets. `groups`: names of the account's groups."""
    body: AccountBody = {
        "id": row["id"],
        "profileId": row["profile"],
        "platform": row["platform"],
        "platformAccountId": row["platform_account_id"],
        "displayName": row["display_name"],
        "status": row["status"],
        "createdAt": format_iso(row["created_at"]),
        "updatedAt": format_iso(row["updated_at"]),
        "tokenExpiresAt": format_iso(row["token_expires_at"]),
    }
    if refused := attention.to_body(row):
        body["attention"] = refused
    if groups:
        body["groups"] = list(groups)
    block = platforms.platform(row["platform"]).account_fields
    if block:
        extra = json.loads(row["extra"])
        cast(dict[str, Any], body)[row["platform"]] = {name: extra.get(name) for name in block}
    return body


class AccountDetail(TypedDict):
    """Account details beside the API body."""

    reason: str | None
    """Reason of the revocation."""
    renewed_at: int | None
    ends_at: int | None
    """Deadline for reconnecting, unless a refresh moves it; None: tokens refresh themselves."""
    renews: bool
    missing: list[str]
    """Requested scopes that the owner did not grant, where the platform reports them."""


def load_detail(service: AppContext, row: AccountRow) -> AccountDetail:
    return {
        "reason": row["revoked_reason"] if row["status"] == "revoked" else None,
        "renewed_at": row["renewed_at"],
        "ends_at": row["ends_at"],
        "renews": row["ends_at"] is None or row["ends_at"] != row["token_expires_at"],
        "missing": _list_missing_scopes(service, row),
    }


def _list_missing_scopes(service: AppContext, row: AccountRow) -> list[str]:
    oauth_row, site = platforms.platform(row["platform"]).oauth, service.sites[row["platform"]]
    is_put_together = isinstance(site, ConfiguredSite) and bool(site.config_id)  # set at the platform, unknown here
    if oauth_row is None or row["secret"] is None or is_put_together:
        return []
    try:
        granted = decrypt(service, row["id"], row["secret"]).private.get("scopes")
    except ApiError:
        return []  # the account's status reports it
    return [scope for scope in oauth.list_scopes(oauth_row, site) if scope not in granted] if granted else []


class AccountColumns(UpstreamColumns):
    """Columns of an account that a post needs before publishing; never the secret."""

    id: str
    profile: str
    ends_at: int | None


class KeyedAccountColumns(AccountColumns):
    """Adds the surrogate keys of organization, profile and account, as post rows use them."""

    numbers: tuple[int, int, int]


def is_ending_before(row: AccountColumns, at_ms: int) -> bool:
    """Return whether the authorization ends before `at_ms` and cannot be refreshed."""
    return row["ends_at"] is not None and row["ends_at"] < at_ms


# --- Connecting --------------------------------------------------------------------------------------------------


def connect(
    service: AppContext,
    tx: Tx,
    organization: str,
    profile: str,
    platform: str,
    identity: AccountIdentity,
    tokens: Tokens,
) -> tuple[AccountBody, bool]:
    """Insert or update an account; return it and whether it is new.

    The same account in the same profile keeps its id and its owner's choices (a default board); its previous session is
    ended upstream. Rows of other profiles are not touched.
    """
    same = (
        (Account.profile == profile)
        & (Account.platform == platform)
        & (Account.platform_account_id == identity.platform_account_id)
    )
    existing = find_row_where(Account, same)
    account = existing["id"] if existing else service.runtime.ids.uuid()
    extra = json.loads(existing["extra"]) if existing else {}
    values = {
        "display_name": identity.display_name,
        "extra": json.dumps(extra | dict(identity.extra)),
        "disconnected_at": None,
        "attention": None,
        **build_columns(service, account, platform, tokens),
    }
    if existing:
        revocation.revoke_replaced(service, tx, existing, tokens)
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
    groups = account_groups.list_names(organization).get(account)
    return to_body(get_row(Account, account), groups), existing is None


def login(service: AppContext, platform: str, fields: Mapping[str, str]) -> tuple[AccountIdentity, Tokens]:
    """Log in with credentials at the platform. Raises ApiError `platform_not_enabled`."""
    connector = platforms.CONNECTORS.get(platform)
    check_enabled(service, platforms.platform(platform))
    log_in: SupportsPasswordLogin | None = getattr(connector, "login", None) and connector  # type: ignore[assignment]
    if log_in is None:
        raise ApiError("platform_not_enabled", f"Accounts of {platform} do not connect by credentials.")
    with open_upstream(service, platform) as up:
        return log_in.login(up, fields, service.now_ms)


def check_enabled(service: AppContext, platform: Platform) -> None:
    """Raise ApiError `platform_not_enabled` unless this server publishes to the platform."""
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


def is_revoked(account: str) -> bool:
    """Return whether the account is marked revoked."""
    return Account.select().where(Account.id == account, Account.status == "revoked").exists()  # type: ignore[no-any-return]


# --- Disconnecting -----------------------------------------------------------------------------------------------


def disconnect(
    service: AppContext, tx: Tx, scope: Scope, account: str, request_id: str, *, keep: bool = False
) -> AccountRow:
    """Erase an account's secrets, start canceling its queued posts; return the old row.

    `keep`: queued posts stay, and are published if the account is reconnected in time. The first slice is canceled
    here, the rest by a job, so that other writes get in between. Nothing is sent meanwhile: a post of a disconnected
    account fails when claimed. The row stays for the post log; reconnecting revives its id.
    """
    row, now = find(scope, account), service.now_ms
    names = ("secret", "token_expires_at", "ends_at", "renewed_at", "renewal_at", "renewing", "renewing_until")
    cleared = dict.fromkeys(names)
    Account.update(disconnected_at=now, updated_at=now, **cleared).where(Account.id == account).execute()
    if not keep:
        cancel_posts(service, tx, account, request_id)
    return row


def cancel_posts(service: AppContext, tx: Tx, account: str, request_id: str, at_once: int | None = None) -> int:
    """Cancel up to `at_once` queued posts, leave the rest to a job; return the number.

    `at_once` is CANCEL_BATCH if None.
    """
    now, at_once = service.now_ms, CANCEL_BATCH if at_once is None else at_once
    first = _select_cancelable(account, now, at_once + 1)
    _cancel_batch(service, tx, _exclude_remote(first[:at_once]), now, request_id)
    if len(first) > at_once:
        service.jobs.put(tx, "cancel", f"cancel:{account}:{now}:{request_id}", now)
    return min(len(first), at_once)


def count_queued(service: AppContext, scope: Scope, account: str) -> int:
    """Count the queued posts of an account. Raises ApiError `not_found`."""
    find(scope, account)
    count: int = sql.fetch_value(maintenance.COUNT_WAITING, (account, service.now_ms))
    return count


def run_cancel_job(service: AppContext, claim: Claim, stopping: Callable[[], bool]) -> None:
    """Run the cancel job slice by slice; a stopped or killed run is resumed."""
    _, account, at, request_id = claim.key.split(":", 3)
    posts = service.read(lambda: _exclude_remote(_select_cancelable(account, int(at)))).result()
    for start in range(0, len(posts), CANCEL_BATCH):
        if stopping():
            service.write(lambda tx: service.jobs.reschedule(tx, claim, service.now_ms)).result()
            return
        part = posts[start : start + CANCEL_BATCH]
        service.write(
            functools.partial(_cancel_batch, service, posts=part, at_ms=int(at), request_id=request_id)
        ).result()
        if start % LOG_INTERVAL == 0:
            log.info("account %s: %d queued posts are still to be canceled", account, len(posts) - start)
    service.write(lambda tx: service.jobs.finish(tx, claim)).result()
    log.info("account %s: all its queued posts are canceled", account)


def count_uncanceled() -> int:
    """Count the posts of disconnected accounts that are still to be canceled."""
    jobs = Job.select(Job.key).where(Job.key >= "cancel:", Job.key < "cancel;").tuples()
    parts = (key.split(":", 3) for (key,) in jobs)
    return sum(sql.fetch_value(maintenance.COUNT_WAITING, (account, int(at))) for _, account, at, _ in parts)


class CancelablePost(post_states.PreparedColumns):
    """Columns that tell whether a queued post can be canceled."""

    id: str


def _select_cancelable(account: str, at_ms: int, limit: int | None = None) -> list[CancelablePost]:
    """Select the posts queued at `at_ms`: the account may have been reconnected since."""
    rows = sql.fetch_all(maintenance.FIND_WAITING, (account, at_ms, -1 if limit is None else limit))
    return [{"id": post, "platform": platform, "saved": saved} for post, platform, saved in rows]


def _exclude_remote(posts: Sequence[CancelablePost]) -> list[str]:
    """Exclude posts that the platform completes by itself; their next attempt ends them."""
    return [post["id"] for post in posts if not post_states.is_completed_remotely(post)]


def _cancel_batch(service: AppContext, tx: Tx, posts: Sequence[str], at_ms: int, request_id: str) -> None:
    where = ("updated_at <= ?", at_ms)
    for post in posts:
        if post_states.apply(service, tx, "disconnect", post, where=where, request_id=request_id):
            service.jobs.remove(tx, post)

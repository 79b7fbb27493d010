"""Connected accounts: who they are, how they come and how they go. (Their tokens are in `tokens`.)"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain.accounts import attention, grants
from socialpub.domain.accounts.tokens import columns, open_tokens, open_upstream
from socialpub.domain.core import moves
from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.accounts import AccountBody, AccountsQuery
from socialpub.platforms.contract import Account as Who
from socialpub.platforms.contract import ConfiguredSite, Identity, Login, Platform, Tokens
from socialpub.platforms.kit import oauth
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import Account, Post, row_where, the_row
from socialpub.store.queue import Claim, Job
from socialpub.store.rows import AccountRow
from socialpub.store.statements import sweeps

log = logging.getLogger("socialpub.jobs")

SLICE = 100  # posts canceled in one transaction: other writers wait for it
TOLD_EVERY = 5000


# --- Reading -----------------------------------------------------------------------------------------------------


def in_scope(scope: Scope, profile: str | None = None) -> list[AccountRow]:
    """The connected accounts of the scope (and profile), oldest first."""
    return _connected(scope.organization, scope.profile if profile is None else profile)


def _connected(organization: str | None, profile: str | None) -> list[AccountRow]:
    query = Account.select().where(Account.disconnected_at.is_null())
    if organization is not None:
        query = query.where(Account.organization == organization)
    if profile is not None:
        query = query.where(Account.profile == profile)
    return list(query.order_by(Account.created_at, Account.id).dicts())


def list_bodies(scope: Scope, query: AccountsQuery | None = None) -> list[AccountBody]:
    """GET /v1/accounts: an unknown, malformed or empty profile matches nothing; a bound key sees its own only."""
    query = query or AccountsQuery()
    profile = query.profile_id
    if profile is not None and scope.profile not in (None, profile):
        return []
    return [body(row) for row in in_scope(scope, profile) if _is_wanted(row, query)]


def list_everywhere(organization: str | None, query: AccountsQuery) -> list[AccountBody]:
    """The accounts of an organization, or of all (the operator's command)."""
    return [body(row) for row in _connected(organization, query.profile_id) if _is_wanted(row, query)]


def _is_wanted(row: AccountRow, query: AccountsQuery) -> bool:
    of_platform = query.platform is None or row["platform"] in query.platform
    return of_platform and (query.status is None or row["status"] in query.status)


def get_body(scope: Scope, account: str) -> AccountBody:
    """One account of the scope; ApiError `not_found`."""
    return body(find(scope, account))


def find(scope: Scope, account: str) -> AccountRow:
    """The row of a connected account of the scope, with its sealed secret; ApiError `not_found`."""
    row = find_ever(scope, account)
    if row["disconnected_at"] is not None:
        raise _unknown()
    return row


def find_ever(scope: Scope, account: str) -> AccountRow:
    """The row of an account of the scope, also of one that was disconnected; ApiError `not_found`."""
    query = Account.select().where(Account.id == account, Account.organization == scope.organization)
    if scope.profile:
        query = query.where(Account.profile == scope.profile)
    row: AccountRow | None = query.dicts().first()
    if row is None:
        raise _unknown()
    return row


def _unknown() -> ApiError:
    return ApiError("not_found", "There is no account with this id in the scope.")


def body(row: AccountRow) -> AccountBody:
    """An account as the API shows it; never a secret."""
    shown: AccountBody = {
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
    if refused := attention.body(row):
        shown["attention"] = refused
    block = platforms.platform(row["platform"]).account_block
    if block:
        extra = json.loads(row["extra"])
        cast(dict[str, Any], shown)[row["platform"]] = {name: extra.get(name) for name in block}
    return shown


class Standing(TypedDict):
    """What of an account people are told beside its body."""

    reason: str | None
    """Why its authorization is over."""
    renewed_at: int | None
    ends_at: int | None
    """By then its owner has to connect it again, unless a renewal moves it; None: its access renews itself."""
    renews: bool
    missing: list[str]
    """The scopes that its owner was asked for and did not allow, as far as the platform tells."""


def standing(service: Service, row: AccountRow) -> Standing:
    return {
        "reason": row["revoked_reason"] if row["status"] == "revoked" else None,
        "renewed_at": row["renewed_at"],
        "ends_at": row["ends_at"],
        "renews": row["ends_at"] is None or row["ends_at"] != row["token_expires_at"],
        "missing": _missing(service, row),
    }


def _missing(service: Service, row: AccountRow) -> list[str]:
    oauth_row, site = platforms.platform(row["platform"]).oauth, service.sites[row["platform"]]
    is_put_together = isinstance(site, ConfiguredSite) and bool(site.config_id)  # at the platform: we do not know how
    if oauth_row is None or row["secret"] is None or is_put_together:
        return []
    try:
        granted = open_tokens(service, row["id"], row["secret"]).private.get("scopes")
    except ApiError:
        return []  # which its state tells, and what to do
    return [scope for scope in oauth.asked(oauth_row, site) if scope not in granted] if granted else []


class Named(TypedDict):
    """What of an account's row a post needs before it is published: never its secret."""

    id: str
    organization: str
    profile: str
    platform: str
    platform_account_id: str
    display_name: str | None
    ends_at: int | None
    extra: str


class Numbered(Named):
    """The same, and the numbers of its organization, its profile and its own: by these a post's row calls them."""

    numbers: tuple[int, int, int]


def who(row: Named) -> Who:
    """The account as connectors and rules may know it."""
    return Who(row["platform_account_id"], row["display_name"], sql.loads(row["extra"]))


def ends_before(row: Named, at_ms: int) -> bool:
    """Whether the account's authorization ends before an instant and cannot be renewed by itself."""
    return row["ends_at"] is not None and row["ends_at"] < at_ms


# --- Connecting --------------------------------------------------------------------------------------------------


def connect(
    service: Service, tx: Tx, organization: str, profile: str, platform: str, identity: Identity, tokens: Tokens
) -> tuple[AccountBody, bool]:
    """The connected account and whether it is new; the same account in the same profile keeps its id.

    What its owner had chosen for it (a default board) stays, the session that it had is ended upstream. Another
    profile's row of the same account is not touched.
    """
    same = (
        (Account.profile == profile)
        & (Account.platform == platform)
        & (Account.platform_account_id == identity.platform_account_id)
    )
    known = row_where(Account, same)
    account = known["id"] if known else service.runtime.ids.uuid()
    extra = json.loads(known["extra"]) if known else {}
    values = {
        "display_name": identity.display_name,
        "extra": json.dumps(extra | dict(identity.extra)),
        "disconnected_at": None,
        "attention": None,
        **columns(service, account, platform, tokens),
    }
    if known:
        grants.replaced(service, tx, known, tokens)
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
    return body(the_row(Account, account)), known is None


def login(service: Service, platform: str, fields: Mapping[str, str]) -> tuple[Identity, Tokens]:
    """Who these credentials belong to, as the platform says; ApiError `platform_not_enabled` where there is no way."""
    connector = platforms.CONNECTORS.get(platform)
    enabled(service, platforms.platform(platform))
    log_in: Login | None = getattr(connector, "login", None) and connector  # type: ignore[assignment]
    if log_in is None:
        raise ApiError("platform_not_enabled", f"Accounts of {platform} do not connect by credentials.")
    with open_upstream(service, platform, Who(""), Tokens("")) as up:
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


def is_revoked(account: str) -> bool:
    """Whether the platform takes the account's authorization no more."""
    return Account.select().where(Account.id == account, Account.status == "revoked").exists()  # type: ignore[no-any-return]


# --- Disconnecting -----------------------------------------------------------------------------------------------


def disconnect(
    service: Service, tx: Tx, scope: Scope, account: str, request_id: str, *, keep: bool = False
) -> AccountRow:
    """Erase an account's secrets and begin to cancel its waiting posts; the row as it was (for revoking upstream).

    `keep`: its waiting posts stay, and go out where the account is connected again before their time.

    The first slice is canceled here, the rest by a job, so that others can write in between: nothing of them is sent
    meanwhile, since a post of a disconnected account ends at its claim. The row itself stays for the post log;
    connecting the same account again revives its id.
    """
    row, now = find(scope, account), service.now_ms
    gone = {"secret": None, "token_expires_at": None, "ends_at": None, "renewed_at": None, "renewal_at": None}
    Account.update(disconnected_at=now, updated_at=now, **gone).where(Account.id == account).execute()
    if not keep:
        cancel(service, tx, account, request_id)
    return row


def cancel(service: Service, tx: Tx, account: str, request_id: str, at_once: int | None = None) -> int:
    """Cancel what waits for a disconnected account: at most `at_once` posts (SLICE) here, the rest by a job.

    The number of posts that were canceled here.
    """
    now, at_once = service.now_ms, SLICE if at_once is None else at_once
    first = _waiting(account, now, at_once + 1)
    _cancel(service, tx, _ours(first[:at_once]), now, request_id)
    if len(first) > at_once:
        service.jobs.put(tx, "cancel", f"cancel:{account}:{now}:{request_id}", now)
    return min(len(first), at_once)


def waiting(service: Service, scope: Scope, account: str) -> int:
    """How many posts wait for an account of the scope; ApiError `not_found`."""
    find(scope, account)
    found: int = sql.value(sweeps.WAITING_COUNT, (account, service.now_ms))
    return found


def cancel_waiting(service: Service, claim: Claim, stopping: Callable[[], bool]) -> None:
    """Cancel what waited for an account when it was disconnected, slice by slice; goes on after a stop or a kill."""
    _, account, at, request_id = claim.key.split(":", 3)
    posts = service.read(lambda: _ours(_waiting(account, int(at)))).result()
    for start in range(0, len(posts), SLICE):
        if stopping():
            service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms)).result()
            return
        part = posts[start : start + SLICE]
        service.write(functools.partial(_cancel, service, posts=part, at_ms=int(at), request_id=request_id)).result()
        if start % TOLD_EVERY == 0:
            log.info("account %s: %d of its waiting posts are still to be canceled", account, len(posts) - start)
    service.write(lambda tx: service.jobs.finish(tx, claim)).result()
    log.info("account %s: its waiting posts are canceled", account)


def to_cancel() -> int:
    """How many posts of disconnected accounts still wait to be canceled."""
    jobs = Job.select(Job.key).where(Job.key >= "cancel:", Job.key < "cancel;").tuples()
    asked = (key.split(":", 3) for (key,) in jobs)
    return sum(sql.value(sweeps.WAITING_COUNT, (account, int(at))) for _, account, at, _ in asked)


class Waiting(moves.Prepared):
    """What of a waiting post's row tells whether it can be canceled."""

    id: str


def _waiting(account: str, at_ms: int, limit: int | None = None) -> list[Waiting]:
    """The waiting posts of an account as it was at a moment: it may have been connected again since."""
    found = sql.every(sweeps.WAITING_OF_ACCOUNT, (account, at_ms, -1 if limit is None else limit))
    return [{"id": post, "platform": platform, "saved": saved} for post, platform, saved in found]


def _ours(posts: Sequence[Waiting]) -> list[str]:
    """Without those that go on by themselves at the platform and cannot be called canceled: their next attempt ends
    them.
    """
    return [post["id"] for post in posts if not moves.goes_on(post)]


def _cancel(service: Service, tx: Tx, posts: Sequence[str], at_ms: int, request_id: str) -> None:
    for post in posts:
        if moves.move(service, tx, "disconnect", post, where=Post.updated_at <= at_ms, request_id=request_id):
            service.jobs.remove(tx, post)

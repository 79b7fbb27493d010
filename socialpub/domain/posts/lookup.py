"""What a publish request names, as far as it rarely changes: from memory, or one look at the database.

On the loop it is what was there a moment ago; the transaction that writes looks again, and has a memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.domain.accounts import accounts, known
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.people import limits
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.posts.targets import Candidate, Named, candidate, media_ids
from socialpub.domain.shapes.posts import PublishRequest
from socialpub.store import sql
from socialpub.store.rows import AccountRow
from socialpub.store.statements import accepting

_Names = frozenset[str | None]

# --- Before the transaction ------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """Of an organization: whether publishing is paused, its quota, and of what a request names what is there."""

    paused: bool
    quota: int | None
    profile: bool
    accounts: Mapping[str, Candidate]


class LookedUp(NamedTuple):
    """What there is of what a request names, and how much of the quota is left."""

    paused: bool
    named: Named
    standing: limits.Standing


def look_up(service: Service, scope: Scope, request: PublishRequest) -> LookedUp:
    """In a read: a statement where it is not known yet, one for a quota and one for stored media."""
    name = _name(scope, request)
    known: Known = service.known.get_now(name, lambda: _look(service, scope, request.profile_id, *name[-2:]))
    held = library.held(scope, media_ids(request))
    standing = limits.standing(service, scope.organization, known.quota)
    return LookedUp(known.paused, Named(known.accounts, known.profile, held), standing)


def remembered(service: Service, scope: Scope, request: PublishRequest) -> LookedUp | None:
    """The same where it takes no read; else None."""
    known: Known | None = service.known.found(_name(scope, request))
    if known is None or known.quota is not None or media_ids(request):
        return None
    standing = limits.standing(service, scope.organization, None)
    return LookedUp(known.paused, Named(known.accounts, known.profile, {}), standing)


def _name(scope: Scope, request: PublishRequest) -> tuple[str, str | None, str | None, _Names, _Names]:
    """What is kept under one name: the accounts and the platforms come last."""
    ids = frozenset([target.account_id for target in request.targets])
    platforms = frozenset([target.platform for target in request.targets if target.account_id is None])
    return scope.organization, scope.profile, request.profile_id, ids, platforms


def _look(
    service: Service,
    scope: Scope,
    profile: str | None,
    ids: _Names,
    platforms: _Names,
) -> Known:
    where = scope.profile if profile is None else profile
    statement = accepting.NAMED if platforms else accepting.NAMED_BY_ID
    found = sql.first(statement, (scope.organization, where, profile, _json(platforms), _json(ids)))
    paused, there, named, tier = found
    rows = [_account(values) for values in sql.loads(named)]
    meant = {row["id"]: candidate(row) for row in rows}
    return Known(bool(paused), limits.quota_of(service, tier), bool(there), meant)


def _json(names: Collection[str | None]) -> str:
    return sql.json_of([name for name in names if name is not None])


def _account(values: list[Any]) -> accounts.Numbered:
    (organization_number, profile_number, number), *rest = values
    account, organization, profile, platform, platform_account, name, ends_at, extra = rest
    return {
        "numbers": (organization_number, profile_number, number),
        "id": account,
        "organization": organization,
        "profile": profile,
        "platform": platform,
        "platform_account_id": platform_account,
        "display_name": name,
        "ends_at": ends_at,
        "extra": extra,
    }


# --- In the transaction ----------------------------------------------------------------------------------------------


@dataclass
class Owner:
    """What the transaction finds of an organization. `newest`: when its newest post was made."""

    quota: int | None
    newest: int | None


def owner(service: Service, organization: str) -> Owner:
    """Of the organization that posts now."""
    found: Owner = service.standing.get_now(("organization", organization), lambda: _owner(service, organization))
    return found


def _owner(service: Service, organization: str) -> Owner:
    tier, newest = sql.first(accepting.OWNER, (organization,))
    return Owner(limits.quota_of(service, tier), newest)


def connected(service: Service, ids: Collection[str]) -> Mapping[str, AccountRow]:
    """The rows of those of these accounts that are there, as `known.row`."""
    version = service.db.settled()
    there = {id_: row for id_ in ids if (row := known.row(service, id_))}
    if unknown := [id_ for id_ in ids if id_ not in there]:
        found = sql.loads(sql.value(accepting.CONNECTED, (sql.json_of(unknown),)))
        rows = [sql.row(AccountRow, values) for values in found]
        known.keep(service, rows, version)
        there |= {row["id"]: row for row in rows}
    return there


def media_there(ids: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """Of these media those that are there, each with its organization and profile."""
    if not ids:
        return {}
    found = sql.loads(sql.value(accepting.MEDIA_THERE, (sql.json_of(list(ids)),)))
    return {id_: (organization, profile) for id_, organization, profile in found}

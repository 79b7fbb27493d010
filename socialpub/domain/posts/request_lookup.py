"""Rows that a publish request names: one query before the transaction, and one in it.

An earlier request that it repeats is looked up in either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.domain.access import idempotency, lost_responses
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts.targets import ReferencedRows, TargetCandidate, build_candidate, collect_media_ids
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance
from socialpub.store.rows import AccountRow

RequestIdentity = tuple[idempotency.IdempotencyKey | None, lost_responses.PendingResponse | None]
"""Identifies a repeated request."""


def check_repeats(service: AppContext, repeats: Sequence[RequestIdentity]) -> None:
    """Raise KeyInUseError or JoinEarlierRequestError for a repeated request."""
    if not repeats:
        return
    asked = sql.dump_json([[key and key.id, *(pending.bounds if pending else ())] for key, pending in repeats])
    now = service.now_ms
    found = sql.load_json(
        sql.fetch_value(acceptance.FIND_EARLIER_REQUESTS, (asked, now, now - lost_responses.WINDOW_MS))
    )
    for (_, pending), (used, same) in zip(repeats, found, strict=True):
        if used:
            raise idempotency.KeyInUseError
        if pending and (first := lost_responses.pick_undelivered(service, same)):
            raise lost_responses.JoinEarlierRequestError(first)


# --- Before the transaction ------------------------------------------------------------------------------------------


class RequestLookup(NamedTuple):
    """Rows named by a request, pause state and quota usage."""

    paused: bool
    rows: ReferencedRows
    usage: quotas.QuotaUsage


def look_up(service: AppContext, scope: Scope, request: BatchRequest) -> RequestLookup:
    """Look up the request's names in one statement, plus one each for quota and stored media."""
    profile = scope.profile if request.profile_id is None else request.profile_id
    ids = {target.account_id for target in request.targets}
    platforms = {target.platform for target in request.targets if target.account_id is None}
    statement = acceptance.FIND_REFERENCES if platforms else acceptance.FIND_REFERENCES_BY_ID
    names = (scope.organization, profile, request.profile_id, _encode_names(platforms), _encode_names(ids))
    paused, has_profile, account_rows, tier = sql.fetch_one(statement, names)
    rows = list(map(_build_account, sql.load_json(account_rows)))
    if scope.accounts is not None:
        rows = [row for row in rows if scope.has_account(row["id"])]
    connected = {row["id"]: build_candidate(row) for row in rows}
    media = library.load_all(scope, collect_media_ids(request))
    usage = quotas.load_usage(service, scope.organization, quotas.get_quota(service, tier))
    return RequestLookup(bool(paused), ReferencedRows(connected, bool(has_profile), media), usage)


def look_up_accounts(scope: Scope, ids: Collection[str]) -> Mapping[str, TargetCandidate]:
    """Look up the connected ones of these accounts in the scope, by id."""
    names = (scope.organization, scope.profile, None, "[]", _encode_names(ids))
    account_rows = sql.fetch_one(acceptance.FIND_REFERENCES_BY_ID, names)[2]
    return {row["id"]: build_candidate(row) for row in map(_build_account, sql.load_json(account_rows))}


def _encode_names(names: Collection[str | None]) -> str:
    return sql.dump_json([name for name in names if name is not None])


def _build_account(values: list[Any]) -> accounts.KeyedAccountColumns:
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
class OrganizationState:
    """Organization state in the transaction. `newest`: creation time of its newest post."""

    quota: int | None
    newest: int | None


def load_organization(service: AppContext, organization: str) -> OrganizationState:
    """Load the quota of an organization and the time of its newest post."""
    tier, newest = sql.fetch_one(acceptance.FIND_ORGANIZATION, (organization,))
    return OrganizationState(quotas.get_quota(service, tier), newest)


def load_connected(ids: Collection[str]) -> Mapping[str, AccountRow]:
    """Load the connected ones of these accounts, by id."""
    found = sql.load_json(sql.fetch_value(acceptance.FIND_CONNECTED_ACCOUNTS, (sql.dump_json(list(ids)),)))
    rows = [sql.to_row(AccountRow, values) for values in found]
    return {row["id"]: row for row in rows}


def load_media_owners(ids: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """Map the existing ones of these media to organization and profile."""
    if not ids:
        return {}
    found = sql.load_json(sql.fetch_value(acceptance.FIND_MEDIA_SCOPES, (sql.dump_json(list(ids)),)))
    return {id_: (organization, profile) for id_, organization, profile in found}


def check_media(
    organization: str, used: Collection[tuple[str, str]], owners: Mapping[str, tuple[str, str | None]] | None = None
) -> None:
    """Check that the media of pairs (profile, media) still exist. Raises `media.unknown`.

    `owners`: what `load_media_owners` gave for these media, and others.
    """
    if owners is None:
        owners = load_media_owners({asset for _, asset in used})
    profiles = {asset: owners[asset][1] for _, asset in used if owners.get(asset, ("",))[0] == organization}
    for profile, asset in used:
        library.check_usable(profiles, profile, asset)

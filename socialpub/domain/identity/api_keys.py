"""API keys: create, list and revoke. The secret is shown once and stored as a digest."""

from __future__ import annotations

from collections.abc import Sequence

from socialpub.base import key_scopes
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.base.security import crypto
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import KEY_LABELS, Scope, list_key_prefixes
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.api_keys import KeyBody, KeyRequest, MintedKeyBody, RevokedKeyBody
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.rows import ApiKeyRow
from socialpub.store.schema.models import ApiKey, find_row_where, get_row


def create(tx: Tx, who: Actor, request: KeyRequest, label: str = KEY_LABELS[0]) -> ActionResult:
    """Create a key; the body shows the secret as `key`. `label` picks the default prefix."""
    organization, service = who.scope.organization, who.service
    prefix = check_limits(who, request, label)
    key = crypto.generate_api_key(prefix, service.runtime.entropy)
    id = service.runtime.ids.uuid()
    ApiKey.insert(
        id=id,
        organization=organization,
        profile=request.profile_id,
        name=request.name,
        prefix=prefix,
        last4=key[-4:],
        digest=crypto.digest(key),
        scopes=sql.dump_json(key_scopes.list_granted(request.scopes)) if request.scopes else None,
        accounts=sql.dump_json(sorted(set(request.accounts))) if request.accounts else None,
        expires_at=request.expires_at,
        created_at=service.now_ms,
    ).execute()
    minted: MintedKeyBody = {**to_body(get_row(ApiKey, id)), "key": key}
    return ActionResult(minted, 201, secret=True)


def check_limits(who: Actor, request: KeyRequest, label: str = KEY_LABELS[0]) -> str:
    """Return the prefix of a key that can be created so. Raises ApiError."""
    organization = who.scope.organization
    prefix = _check_request(who.service, request, label)
    profiles.check_organization(organization)
    profiles.check_profile(Scope(organization), request.profile_id)
    _check_accounts(Scope(organization, request.profile_id), request.accounts or ())
    return prefix


def _check_request(service: AppContext, request: KeyRequest, label: str) -> str:
    """Return the key's prefix.

    Raises ApiError for a prefix this server does not use, and for an expiry in the past.
    """
    known, issues = dict(zip(KEY_LABELS, list_key_prefixes(service), strict=True)), []
    if request.prefix is not None and request.prefix not in known.values():
        words = " or ".join(known.values())
        issues.append(validation.build_issue("prefix", ["prefix"], f"A prefix is {words}", words, request.prefix))
    if request.expires_at is not None and request.expires_at <= service.now_ms:
        problem = ("too_early", ["expiresAt"], "Must be in the future", "a later date-time")
        issues.append(validation.build_issue(*problem, str(format_iso(request.expires_at))))
    if issues:
        raise validation.build_schema_error(issues)
    return known[label] if request.prefix is None else request.prefix


def _check_accounts(scope: Scope, ids: Sequence[str]) -> None:
    """Raise ApiError `not_found`, which names them, for accounts that the scope does not have."""
    if unknown := set(ids).difference(row["id"] for row in accounts.list_rows(scope)) if ids else ():
        named = ", ".join(sorted(unknown))
        raise ApiError("not_found", f"There is no account with one of these ids in the scope of the key: {named}.")


def revoke(tx: Tx, who: Actor, key: str) -> RevokedKeyBody:
    """Revoke a key, idempotently; return `{id, revokedAt}`. Raises ApiError `not_found`.

    Without an organization in scope (the operator's command), any organization's key.
    """
    query = ApiKey.select().where(ApiKey.id == key)
    if who.scope.organization:
        query = query.where(ApiKey.organization == who.scope.organization)
    if who.scope.profile is not None:
        query = query.where(ApiKey.profile == who.scope.profile)
    row: ApiKeyRow | None = query.dicts().first()
    if row is None:
        raise build_not_found()
    revoked = row["revoked_at"] or who.service.now_ms
    ApiKey.update(revoked_at=revoked).where(ApiKey.id == key).execute()
    return {"id": key, "revokedAt": format_iso(revoked)}


def to_body(row: ApiKeyRow) -> KeyBody:
    return {
        "id": row["id"],
        "name": row["name"],
        "prefix": row["prefix"],
        "last4": row["last4"],
        "profileId": row["profile"],
        "scopes": key_scopes.list_granted(sql.load_optional_json(row["scopes"])),
        "accounts": sql.load_optional_json(row["accounts"]),
        "expiresAt": format_iso(row["expires_at"]),
        "createdAt": format_iso(row["created_at"]),
        "lastUsedAt": format_iso(row["last_used_at"]),
        "revokedAt": format_iso(row["revoked_at"]),
    }


def get_body(scope: Scope, key: str) -> KeyBody:
    """Load a key of the organization. Raises ApiError `not_found`."""
    row: ApiKeyRow | None = find_row_where(ApiKey, ApiKey.id == key, ApiKey.organization == scope.organization)
    if row is None:
        raise build_not_found()
    return to_body(row)


def build_not_found() -> ApiError:
    """Build the error for a key id the organization does not have."""
    return ApiError("not_found", "There is no API key with this id.")


def list_bodies(organization: str | None) -> list[KeyBody]:
    """List keys, newest first; of all organizations if None (the operator's command)."""
    query = ApiKey.select()
    if organization:
        query = query.where(ApiKey.organization == organization)
    return [to_body(row) for row in query.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).dicts()]

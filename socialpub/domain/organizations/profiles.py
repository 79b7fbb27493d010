"""Organizations and their profiles."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.schemas.common import DeletedBody
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileBody, ProfileRequest
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import post_json
from socialpub.store.rows import ProfileRow
from socialpub.store.schema.models import Account, ApiKey, Organization, Profile, User, find_row_where, get_row

# --- Organizations -----------------------------------------------------------------------------------------------


def create_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """Create an organization with a profile `default`; return `{id, name}`."""
    service = who.service
    organization = service.runtime.ids.uuid()
    Organization.insert(id=organization, name=request.name, created_at=service.now_ms).execute()
    create(tx, who.within(organization), ProfileRequest(name="default"))
    return {"id": organization, "name": request.name}


def rename_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """Rename the organization; return `{id, name}`. Raises ApiError `not_found`."""
    organization = who.scope.organization
    check_organization(organization)
    Organization.update(name=request.name).where(Organization.id == organization).execute()
    return {"id": organization, "name": request.name}


def create_first_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """Rename the only organization or create one, for the first owner; return `{id, name}`."""
    rows = list_organizations()
    if len(rows) == 1:
        return rename_organization(tx, who.within(rows[0]["id"]), request)
    return create_organization(tx, who, request)


def list_organizations() -> list[dict[str, Any]]:
    """List `{id, name}` of all organizations, oldest first."""
    query = Organization.select(Organization.id, Organization.name).where(Organization.deleted_at.is_null())
    return list(query.order_by(Organization.created_at, Organization.id).dicts())


def describe_organization(organization: str) -> dict[str, Any]:
    """Describe an existing organization: name, tier, and counts of what it has."""
    row = get_row(Organization, organization)
    here = Account.organization == organization
    return {
        "id": row["id"],
        "name": row["name"],
        "tier": row["tier"],
        "createdAt": format_iso(row["created_at"]),
        "profiles": Profile.select().where(Profile.organization == organization, Profile.deleted_at.is_null()).count(),
        "users": User.select().where(User.organization == organization).count(),
        "accounts": Account.select().where(here, Account.disconnected_at.is_null()).count(),
        "keys": ApiKey.select().where(ApiKey.organization == organization, ApiKey.revoked_at.is_null()).count(),
    }


def is_only_organization(organization: str) -> bool:
    """Return whether this server has no other organization."""
    others = (Organization.id != organization) & Organization.deleted_at.is_null()
    return not Organization.select().where(others).exists()


def resolve_organization(named: str | None) -> str:
    """Resolve an organization id, or the only one. Raises ApiError if missing or ambiguous."""
    rows = list_organizations()
    if named is not None and named not in [row["id"] for row in rows]:
        raise ApiError("not_found", "There is no organization with this id.")
    if named is None and len(rows) > 1:
        ids = ", ".join(f"{row['id']} ({row['name']})" for row in rows)
        raise ApiError(
            "validation_failed", "There are several organizations.", remediation=f"Name one with --org: {ids}."
        )
    if not rows:
        raise ApiError("not_found", "There is no organization yet.", remediation="Make one: socialpub org create NAME")
    return named or str(rows[0]["id"])


def check_organization(organization: str) -> None:
    """Raise ApiError `not_found` unless the organization exists."""
    is_existing = (Organization.id == organization) & Organization.deleted_at.is_null()
    if not Organization.select().where(is_existing).exists():
        raise ApiError("not_found", "There is no organization with this id.")


# --- Profiles ----------------------------------------------------------------------------------------------------


def create(tx: Tx, who: Actor, request: ProfileRequest) -> ActionResult:
    """Create a profile. Raises ApiError `not_found`, `profile.slug.unique`."""
    organization = who.scope.organization
    check_organization(organization)
    slug, now = _make_slug(request.name), who.service.now_ms
    if Profile.select().where(Profile.organization == organization, Profile.slug == slug).exists():
        raise rule_error("profile.slug.unique")
    profile = who.service.runtime.ids.uuid()
    Profile.insert(
        id=profile, organization=organization, name=request.name, slug=slug, created_at=now, updated_at=now
    ).execute()
    return ActionResult(to_body(get_row(Profile, profile)), 201)


def rename(tx: Tx, who: Actor, profile: str, request: ProfileRequest) -> ProfileBody:
    """Rename a profile, which changes its slug. Raises `not_found`, `profile.slug.unique`."""
    row = _find_row(who.scope, profile)
    slug, now = _make_slug(request.name), who.service.now_ms
    same = (Profile.organization == who.scope.organization) & (Profile.slug == slug) & (Profile.id != profile)
    if Profile.select().where(same).exists():
        raise rule_error("profile.slug.unique")
    Profile.update(name=request.name, slug=slug, updated_at=now).where(Profile.id == profile).execute()
    renamed: ProfileRow = {**row, "name": request.name, "slug": slug, "updated_at": now}
    return to_body(renamed)


def delete(tx: Tx, who: Actor, profile: str) -> DeletedBody:
    """Soft-delete a profile and revoke its keys. Raises `profile.delete.not_empty`."""
    row, now = _find_row(who.scope, profile), who.service.now_ms
    if Account.select().where(Account.profile == profile, Account.disconnected_at.is_null()).exists():
        raise rule_error("profile.delete.not_empty")
    # Free the slug for a new profile of this name.
    Profile.update(deleted_at=now, updated_at=now, slug=f"{row['slug']}~{profile}").where(
        Profile.id == profile
    ).execute()
    ApiKey.update(revoked_at=now).where(ApiKey.profile == profile, ApiKey.revoked_at.is_null()).execute()
    return {"id": profile, "deleted": True}


@dataclass(frozen=True)
class ProfileUsage:
    """Numbers of connected accounts and live keys of a profile."""

    accounts: int
    keys: int


def count_usage(scope: Scope, profile: str) -> ProfileUsage:
    """Count the accounts and keys of a profile. Raises ApiError `not_found`."""
    _find_row(scope, profile)
    connected = Account.select().where(Account.profile == profile, Account.disconnected_at.is_null())
    keys = ApiKey.select().where(ApiKey.profile == profile, ApiKey.revoked_at.is_null())
    return ProfileUsage(connected.count(), keys.count())


def get_body(scope: Scope, profile: str) -> ProfileBody:
    """Load a profile of the scope. Raises ApiError `not_found`."""
    return to_body(_find_row(scope, profile))


def _find_row(scope: Scope, profile: str) -> ProfileRow:
    here = (Profile.organization == scope.organization) & Profile.deleted_at.is_null()
    row: ProfileRow | None = find_row_where(Profile, Profile.id == profile, here)
    if row is None or scope.profile not in (None, profile):
        raise ApiError("not_found", "There is no profile with this id.")
    return row


def find_only(scope: Scope) -> ProfileRow | None:
    """Load the scope's profile, or the organization's only one; None if there are several.

    Raises ApiError `not_found`.
    """
    if scope.profile is not None:
        return _find_row(scope, scope.profile)
    query = Profile.select().where(Profile.organization == scope.organization, Profile.deleted_at.is_null())
    found = list(query.limit(2).dicts())
    return found[0] if len(found) == 1 else None


def _make_slug(name: str) -> str:
    """Return the name in lower case with hyphens. In another script it keeps its letters."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if plain and not any(char.isalpha() and not char.isascii() for char in unicodedata.normalize("NFKD", name)):
        return plain
    return "-".join(unicodedata.normalize("NFKC", name).lower().split())


def to_body(row: ProfileRow) -> ProfileBody:
    return {
        "id": row["id"],
        "name": row["name"],
        "slug": row["slug"],
        "createdAt": format_iso(row["created_at"]),
        "updatedAt": format_iso(row["updated_at"]),
    }


def list_bodies(scope: Scope) -> list[ProfileBody]:
    """List the profiles of the scope, oldest first; for a bound key its one profile."""
    query = Profile.select().where(Profile.organization == scope.organization, Profile.deleted_at.is_null())
    if scope.profile:
        query = query.where(Profile.id == scope.profile)
    return [to_body(row) for row in query.order_by(Profile.created_at, Profile.id).dicts()]


def has_profile(scope: Scope, profile: str) -> bool:
    """Return whether the organization has this profile."""
    return sql.fetch_one(post_json.HAS_PROFILE, (profile, scope.organization)) is not None


def check_profile(scope: Scope, profile: str | None) -> None:
    """Raise ApiError `not_found` for a profile the organization does not have; None passes."""
    if profile is not None and not has_profile(scope, profile):
        raise build_not_found()


def build_not_found() -> ApiError:
    """Build the error for a profile id the organization does not have."""
    return ApiError("not_found", "The organization has no profile with this id.")

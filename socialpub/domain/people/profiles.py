"""Organizations, and the profiles that they are divided into."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain.people.actor import Actor, Done
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.common import DeletedBody
from socialpub.domain.shapes.profiles import OrganizationRequest, ProfileBody, ProfileRequest
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import Account, ApiKey, Organization, Profile, User, the_row
from socialpub.store.rows import ProfileRow
from socialpub.store.statements import reading

# --- Organizations -----------------------------------------------------------------------------------------------


def create_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """`{id, name}` of a new organization, which starts with a profile `default`."""
    service = who.service
    organization = service.runtime.ids.uuid()
    Organization.insert(id=organization, name=request.name, created_at=service.now_ms).execute()
    create(tx, who.within(organization), ProfileRequest(name="default"))
    return {"id": organization, "name": request.name}


def rename_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """`{id, name}` of the organization with its new name; ApiError `not_found`."""
    organization = who.scope.organization
    check_organization(organization)
    Organization.update(name=request.name).where(Organization.id == organization).execute()
    return {"id": organization, "name": request.name}


def first_organization(tx: Tx, who: Actor, request: OrganizationRequest) -> dict[str, Any]:
    """`{id, name}` of the organization of the first owner: the only one that a command has made, or a new one."""
    there = list_organizations()
    if len(there) == 1:
        return rename_organization(tx, who.within(there[0]["id"]), request)
    return create_organization(tx, who, request)


def list_organizations() -> list[dict[str, Any]]:
    """`{id, name}` of every organization, oldest first."""
    query = Organization.select(Organization.id, Organization.name).where(Organization.deleted_at.is_null())
    return list(query.order_by(Organization.created_at, Organization.id).dicts())


def describe(organization: str) -> dict[str, Any]:
    """`{id, name, tier, createdAt, profiles, users, accounts, keys}` of one that is there."""
    row = the_row(Organization, organization)
    here = Account.organization == organization
    return {
        "id": row["id"],
        "name": row["name"],
        "tier": row["tier"],
        "createdAt": iso(row["created_at"]),
        "profiles": Profile.select().where(Profile.organization == organization, Profile.deleted_at.is_null()).count(),
        "users": User.select().where(User.organization == organization).count(),
        "accounts": Account.select().where(here, Account.disconnected_at.is_null()).count(),
        "keys": ApiKey.select().where(ApiKey.organization == organization, ApiKey.revoked_at.is_null()).count(),
    }


def is_alone(organization: str) -> bool:
    """Whether this server has no other organization."""
    others = (Organization.id != organization) & Organization.deleted_at.is_null()
    return not Organization.select().where(others).exists()


def the_organization(named: str | None) -> str:
    """The organization that the operator named, or the only one there is; ApiError where that does not say which."""
    there = list_organizations()
    if named is not None and named not in [row["id"] for row in there]:
        raise ApiError("not_found", "There is no organization with this id.")
    if named is None and len(there) > 1:
        ids = ", ".join(f"{row['id']} ({row['name']})" for row in there)
        raise ApiError(
            "validation_failed", "There are several organizations.", remediation=f"Name one with --org: {ids}."
        )
    if not there:
        raise ApiError("not_found", "There is no organization yet.", remediation="Make one: socialpub org create NAME")
    return named or str(there[0]["id"])


def check_organization(organization: str) -> None:
    """ApiError `not_found` unless there is one with this id."""
    there = (Organization.id == organization) & Organization.deleted_at.is_null()
    if not Organization.select().where(there).exists():
        raise ApiError("not_found", "There is no organization with this id.")


# --- Profiles ----------------------------------------------------------------------------------------------------


def create(tx: Tx, who: Actor, request: ProfileRequest) -> Done:
    """The new profile as the API shows it; `not_found`: no such organization; `profile.slug.unique`: it is taken."""
    organization = who.scope.organization
    check_organization(organization)
    slug, now = _slug(request.name), who.service.now_ms
    if Profile.select().where(Profile.organization == organization, Profile.slug == slug).exists():
        raise refuse("profile.slug.unique")
    row: ProfilePart = {
        "id": who.service.runtime.ids.uuid(),
        "name": request.name,
        "slug": slug,
        "created_at": now,
        "updated_at": now,
    }
    Profile.insert(organization=organization, **row).execute()
    return Done(body(row), 201)


def rename(tx: Tx, who: Actor, profile: str, request: ProfileRequest) -> ProfileBody:
    """The profile with its new name and slug; `not_found`, `profile.slug.unique`."""
    row = _find(who.scope, profile)
    slug, now = _slug(request.name), who.service.now_ms
    same = (Profile.organization == who.scope.organization) & (Profile.slug == slug) & (Profile.id != profile)
    if Profile.select().where(same).exists():
        raise refuse("profile.slug.unique")
    Profile.update(name=request.name, slug=slug, updated_at=now).where(Profile.id == profile).execute()
    renamed: ProfileRow = {**row, "name": request.name, "slug": slug, "updated_at": now}
    return body(renamed)


def delete(tx: Tx, who: Actor, profile: str) -> DeletedBody:
    """`{id, deleted}`: the row stays, its keys are revoked; `profile.delete.not_empty` while it owns accounts."""
    row, now = _find(who.scope, profile), who.service.now_ms
    if Account.select().where(Account.profile == profile, Account.disconnected_at.is_null()).exists():
        raise refuse("profile.delete.not_empty")
    # The slug is free again for another profile of this name.
    Profile.update(deleted_at=now, updated_at=now, slug=f"{row['slug']}~{profile}").where(
        Profile.id == profile
    ).execute()
    ApiKey.update(revoked_at=now).where(ApiKey.profile == profile, ApiKey.revoked_at.is_null()).execute()
    return {"id": profile, "deleted": True}


@dataclass(frozen=True)
class Holdings:
    """What belongs to a profile: how many accounts, and how many keys that are not revoked."""

    accounts: int
    keys: int


def holds(scope: Scope, profile: str) -> Holdings:
    """What belongs to a profile of the scope; ApiError `not_found`."""
    _find(scope, profile)
    connected = Account.select().where(Account.profile == profile, Account.disconnected_at.is_null())
    keys = ApiKey.select().where(ApiKey.profile == profile, ApiKey.revoked_at.is_null())
    return Holdings(connected.count(), keys.count())


def one(scope: Scope, profile: str) -> ProfileBody:
    """One profile of the scope; ApiError `not_found`."""
    return body(_find(scope, profile))


def _find(scope: Scope, profile: str) -> ProfileRow:
    query = Profile.select().where(
        Profile.id == profile, Profile.organization == scope.organization, Profile.deleted_at.is_null()
    )
    row: ProfileRow | None = query.dicts().first() if scope.profile in (None, profile) else None
    if row is None:
        raise ApiError("not_found", "There is no profile with this id.")
    return row


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "profile"


class ProfilePart(TypedDict):
    """What of a profile's row is shown."""

    id: str
    name: str
    slug: str
    created_at: int
    updated_at: int


def body(row: ProfilePart) -> ProfileBody:
    return {
        "id": row["id"],
        "name": row["name"],
        "slug": row["slug"],
        "createdAt": iso(row["created_at"]),
        "updatedAt": iso(row["updated_at"]),
    }


def listed(scope: Scope) -> list[ProfileBody]:
    """The profiles of the scope, oldest first; for a bound key its one profile."""
    query = Profile.select().where(Profile.organization == scope.organization, Profile.deleted_at.is_null())
    if scope.profile:
        query = query.where(Profile.id == scope.profile)
    return [body(row) for row in query.order_by(Profile.created_at, Profile.id).dicts()]


def exists(scope: Scope, profile: str) -> bool:
    """Whether the organization has this profile."""
    return sql.first(reading.PROFILE_EXISTS, (profile, scope.organization)) is not None


def check(scope: Scope, profile: str | None) -> None:
    """ApiError `not_found` for a profile that is named, and that the organization does not have."""
    if profile is not None and not exists(scope, profile):
        raise unknown()


def unknown() -> ApiError:
    """A profile was named that the organization does not have."""
    return ApiError("not_found", "The organization has no profile with this id.")


def organization_of(profile: str) -> str:
    """The organization that owns a profile; ApiError `not_found`."""
    found = Profile.select(Profile.organization).where(Profile.id == profile, Profile.deleted_at.is_null()).scalar()
    if found is None:
        raise ApiError("not_found", "There is no profile with this id.")
    return str(found)

"""Organizations, profiles, API keys, sessions, and the Scope that every query carries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from socialpub.base import crypto
from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain.core.service import Service
from socialpub.store.db import Tx
from socialpub.store.models import Account, ApiKey, Organization, Profile, Session, User

USED_EVERY_MS = 60_000
SESSION_IDLE_MS = 2 * 3600 * 1000
LABELS = ("live", "test")


@dataclass(frozen=True)
class Scope:
    """Who asks: one organization, and one profile where the key is bound to it. Every query is narrowed by it."""

    organization: str
    profile: str | None = None
    key: str | None = None  # the API key's id; None for a signed-in user or the operator
    user: str | None = None
    role: str = "owner"
    csrf: str | None = None
    session: str | None = None  # the session's id; None for a key or the operator
    needs: tuple[str, ...] = ()  # the roles that may do what is asked; none named: every role

    def narrowed(self, profile: str | None) -> str | None:
        """The profile to look in when the caller names one (None: all of the scope).

        Raises `not_found` when the key is bound to another profile.
        """
        if profile is not None and self.profile not in (None, profile):
            raise refuse("api_key.profile_scope")
        return profile or self.profile


def key_prefixes(service: Service) -> tuple[str, ...]:
    """What API keys begin with: `svc_live_`, `svc_test_`, or the configured word in place of `svc`."""
    word = service.runtime.settings.security.key_prefix
    return tuple(f"{word}_{label}_" for label in LABELS)


async def authenticate_key(service: Service, presented: str) -> Scope:
    """The scope of an API key; ApiError `unauthenticated` for any other text. At most one write a minute and key."""
    if not crypto.key_is_well_formed(presented, key_prefixes(service)):
        raise ApiError("unauthenticated")
    digest = crypto.digest(presented)
    row = await service.look_up(lambda: _find_key(digest))
    if row is None:
        raise ApiError("unauthenticated")
    key, organization, profile, used = row
    if used is None or service.now_ms - used > USED_EVERY_MS:
        now = service.now_ms
        service.write(lambda tx: ApiKey.update(last_used_at=now).where(ApiKey.id == key).execute())
    return Scope(organization, profile, key)


def _find_key(digest: str) -> tuple[str, str, str | None, int | None] | None:
    query = ApiKey.select(ApiKey.id, ApiKey.organization, ApiKey.profile, ApiKey.last_used_at).where(
        ApiKey.digest == digest, ApiKey.revoked_at.is_null()
    )
    return query.tuples().first()  # type: ignore[no-any-return]


def key_is_valid(key: str) -> bool:
    """Whether a key, by its id, is there and not revoked."""
    return bool(ApiKey.select().where(ApiKey.id == key, ApiKey.revoked_at.is_null()).exists())


async def authenticate_session(service: Service, cookie: str) -> Scope:
    """The scope of a signed-in browser; ApiError `unauthenticated` when the session is unknown, idle or over."""
    now, digest = service.now_ms, crypto.digest(cookie)
    row = await service.look_up(lambda: _find_session(digest, now))
    if row is None:
        raise ApiError("unauthenticated")
    user, organization, role, csrf, seen = row
    if now - seen > USED_EVERY_MS:
        service.write(lambda tx: Session.update(seen_at=now).where(Session.id == digest).execute())
    return Scope(organization, user=user, role=role, csrf=csrf, session=digest)


def _find_session(digest: str, now: int) -> tuple[str, str, str, str, int] | None:
    query = (
        Session.select(User.id, User.organization, User.role, Session.csrf, Session.seen_at)
        .join(User, on=(Session.user == User.id))
        .where(Session.id == digest, _is_open(now))
    )
    return query.tuples().first()  # type: ignore[no-any-return]


def role_now(session: str, now: int) -> str | None:
    """The role of the person whose session this is; None when the session is unknown, idle or over."""
    row = _find_session(session, now)
    return row[2] if row is not None else None


def csrf_tokens(user: str, now: int) -> list[str]:
    """The CSRF tokens of somebody's sessions that are not over: a name for each."""
    return [row[0] for row in Session.select(Session.csrf).where(Session.user == user, _is_open(now)).tuples()]


def _is_open(now: int) -> Any:
    return (Session.ends_at > now) & (Session.seen_at > now - SESSION_IDLE_MS)


# --- Organizations and profiles ----------------------------------------------------------------------------------


def create_organization(service: Service, tx: Tx, name: str) -> dict[str, Any]:
    """`{id, name}` of a new organization, which starts with a profile `default`."""
    organization = service.runtime.ids.uuid()
    Organization.insert(id=organization, name=name, created_at=service.now_ms).execute()
    create_profile(service, tx, organization, "default")
    return {"id": organization, "name": name}


def list_organizations() -> list[dict[str, Any]]:
    """`{id, name}` of every organization, oldest first."""
    query = Organization.select(Organization.id, Organization.name)
    return list(query.order_by(Organization.created_at, Organization.id).dicts())


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


def create_profile(service: Service, tx: Tx, organization: str, name: str) -> dict[str, Any]:
    """The new profile as the API shows it; `not_found`: no such organization; `profile.slug.unique`: has a twin."""
    if not Organization.select().where(Organization.id == organization).exists():
        raise ApiError("not_found", "There is no organization with this id.")
    slug, now = _slug(name), service.now_ms
    if Profile.select().where(Profile.organization == organization, Profile.slug == slug).exists():
        raise refuse("profile.slug.unique")
    row = {"id": service.runtime.ids.uuid(), "name": name, "slug": slug, "created_at": now, "updated_at": now}
    Profile.insert(organization=organization, **row).execute()
    return profile_body(row)


def rename_profile(service: Service, tx: Tx, scope: Scope, profile: str, name: str) -> dict[str, Any]:
    """The profile with its new name and slug; `not_found`, `profile.slug.unique`."""
    row = _profile(scope, profile)
    slug, now = _slug(name), service.now_ms
    twin = (Profile.organization == scope.organization) & (Profile.slug == slug) & (Profile.id != profile)
    if Profile.select().where(twin).exists():
        raise refuse("profile.slug.unique")
    Profile.update(name=name, slug=slug, updated_at=now).where(Profile.id == profile).execute()
    return profile_body(row | {"name": name, "slug": slug, "updated_at": now})


def delete_profile(service: Service, tx: Tx, scope: Scope, profile: str) -> dict[str, Any]:
    """`{id, deleted}`: the row stays, its keys are revoked; `profile.delete.not_empty` while it owns accounts."""
    row, now = _profile(scope, profile), service.now_ms
    if Account.select().where(Account.profile == profile, Account.disconnected_at.is_null()).exists():
        raise refuse("profile.delete.not_empty")
    # The slug is free again for another profile of this name.
    Profile.update(deleted_at=now, updated_at=now, slug=f"{row['slug']}~{profile}").where(
        Profile.id == profile
    ).execute()
    ApiKey.update(revoked_at=now).where(ApiKey.profile == profile, ApiKey.revoked_at.is_null()).execute()
    return {"id": profile, "deleted": True}


def _profile(scope: Scope, profile: str) -> dict[str, Any]:
    query = Profile.select().where(
        Profile.id == profile, Profile.organization == scope.organization, Profile.deleted_at.is_null()
    )
    row = query.dicts().first() if scope.profile in (None, profile) else None
    if row is None:
        raise ApiError("not_found", "There is no profile with this id.")
    return dict(row)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "profile"


def profile_body(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "slug": row["slug"],
        "createdAt": iso(row["created_at"]),
        "updatedAt": iso(row["updated_at"]),
    }


def list_profiles(scope: Scope) -> list[dict[str, Any]]:
    """The profiles of the scope, oldest first; for a bound key its one profile."""
    query = Profile.select().where(Profile.organization == scope.organization, Profile.deleted_at.is_null())
    if scope.profile:
        query = query.where(Profile.id == scope.profile)
    return [profile_body(row) for row in query.order_by(Profile.created_at, Profile.id).dicts()]


def profile_exists(scope: Scope, profile: str) -> bool:
    """Whether the organization has this profile."""
    query = Profile.select().where(
        Profile.id == profile, Profile.organization == scope.organization, Profile.deleted_at.is_null()
    )
    return bool(query.exists())


def organization_of(profile: str) -> str:
    """The organization that owns a profile; ApiError `not_found`."""
    found = Profile.select(Profile.organization).where(Profile.id == profile, Profile.deleted_at.is_null()).scalar()
    if found is None:
        raise ApiError("not_found", "There is no profile with this id.")
    return str(found)


# --- Keys --------------------------------------------------------------------------------------------------------


def label_of(service: Service, prefix: str | None) -> str:
    """The label (live, test) of a key prefix; ApiError for a prefix that keys of this server do not have."""
    known = dict(zip(key_prefixes(service), LABELS, strict=True))
    if prefix is None:
        return LABELS[0]
    if prefix not in known:
        raise ApiError("validation_failed", f"A prefix is one of {', '.join(known)}.", rule="prefix")
    return known[prefix]


def mint_key(
    service: Service, tx: Tx, organization: str, *, profile: str | None, name: str, label: str
) -> dict[str, Any]:
    """The new key's record with `key`, the secret, which is shown this once and stored nowhere."""
    if not Organization.select().where(Organization.id == organization).exists():
        raise ApiError("not_found", "There is no organization with this id.")
    if profile is not None and not profile_exists(Scope(organization), profile):
        raise ApiError("not_found", "The organization has no profile with this id.")
    prefix = f"{service.runtime.settings.security.key_prefix}_{label}_"
    key = crypto.mint_key(prefix, service.runtime.entropy)
    row = {
        "id": service.runtime.ids.uuid(),
        "name": name,
        "prefix": prefix,
        "last4": key[-4:],
        "profile": profile,
        "created_at": service.now_ms,
        "last_used_at": None,
        "revoked_at": None,
    }
    ApiKey.insert(organization=organization, digest=crypto.digest(key), **row).execute()
    return key_body(row) | {"key": key}


def key_body(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "prefix": row["prefix"],
        "last4": row["last4"],
        "profileId": row["profile"],
        "createdAt": iso(row["created_at"]),
        "lastUsedAt": iso(row["last_used_at"]),
        "revokedAt": iso(row["revoked_at"]),
    }


def list_keys(organization: str | None) -> list[dict[str, Any]]:
    """Key records, newest first; of every organization when none is named (the operator's command)."""
    query = ApiKey.select()
    if organization:
        query = query.where(ApiKey.organization == organization)
    return [key_body(row) for row in query.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).dicts()]


def revoke_key(service: Service, tx: Tx, scope: Scope | None, key: str) -> dict[str, Any]:
    """`{id, revokedAt}`; the same again for a key that is revoked already; ApiError `not_found`.

    Without a scope it may be anybody's (the operator's command).
    """
    query = ApiKey.select().where(ApiKey.id == key)
    if scope is not None:
        query = query.where(ApiKey.organization == scope.organization)
    if scope is not None and scope.profile is not None:
        query = query.where(ApiKey.profile == scope.profile)
    row = query.dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no API key with this id.")
    revoked = row["revoked_at"] or service.now_ms
    ApiKey.update(revoked_at=revoked).where(ApiKey.id == key).execute()
    return {"id": key, "revokedAt": iso(revoked)}

"""The caller of a request, as GET /v1/me shows it."""

from __future__ import annotations

from socialpub.domain.access.authentication import Scope
from socialpub.domain.identity import api_keys, members
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.caller import CallerBody, CallerKey, CallerUser
from socialpub.store.schema.models import Organization, get_row


def load_body(scope: Scope) -> CallerBody:
    """Load the caller. Raises ApiError `not_found` if it was deleted meanwhile."""
    organization = get_row(Organization, scope.organization)
    profile = None if scope.profile is None else profiles.get_body(scope, scope.profile)
    return {
        "organization": {"id": organization["id"], "name": organization["name"]},
        "profile": None if profile is None else {"id": profile["id"], "name": profile["name"]},
        "key": _load_key(scope),
        "user": _load_user(scope),
    }


def _load_key(scope: Scope) -> CallerKey | None:
    if scope.key is None:
        return None
    key = api_keys.get_body(scope, scope.key)
    return {
        "id": key["id"],
        "name": key["name"],
        "prefix": key["prefix"],
        "last4": key["last4"],
        "scopes": key["scopes"],
        "accounts": key["accounts"],
        "expiresAt": key["expiresAt"],
        "createdAt": key["createdAt"],
    }


def _load_user(scope: Scope) -> CallerUser | None:
    if scope.user is None:
        return None
    user = members.get_member(scope, scope.user)
    return {"id": user["id"], "email": user["email"], "role": user["role"]}

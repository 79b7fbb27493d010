"""Resolve names and ids typed by an operator. An ambiguous name raises, with the matches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from peewee import SQL

from socialpub.base.errors import ApiError
from socialpub.domain.organizations import profiles
from socialpub.store.rows import AccountRow, ApiKeyRow, ProfileRow, UserRow
from socialpub.store.schema.models import Account, ApiKey, Profile, User, find_rows

SHOWN_MAX = 10
NAME_SHOWN_MAX = 80  # characters
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
T = TypeVar("T")
NamedCandidate = tuple[T, str, Sequence[str | None]]
"""Candidate: object, id and further names."""


def _match_organization(model: Any, organization: str | None) -> Any:
    """Return the condition that selects one organization, or all if None."""
    return SQL("1") if organization is None else model.organization == organization


def find_one(what: str, named: str, candidates: Iterable[NamedCandidate[T]]) -> T:
    """Resolve an id or name. Raises ApiError `not_found`, or `validation_failed` if ambiguous."""
    known = list(candidates)
    found = [one for one in known if one[1] == named] or [one for one in known if _has_name(one, named)]
    if len(found) == 1:
        return found[0][0]
    if not found:
        described = "with this id" if _ID.fullmatch(named) else f"called {named[:NAME_SHOWN_MAX]!r}"
        raise ApiError("not_found", f"There is no {what} {described}.")
    matches = ", ".join(f"{one[1]} ({_format_names(one)})" for one in found[:SHOWN_MAX])
    more = f", and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    message = f"{len(found)} {what}s are called {named!r}."
    raise ApiError("validation_failed", message, remediation=f"Name one by its id: {matches}{more}.")


def _has_name(one: NamedCandidate[T], named: str) -> bool:
    return named.casefold() in [name.casefold() for name in one[2] if name]


def _format_names(one: NamedCandidate[T]) -> str:
    return ", ".join(name for name in one[2] if name)


def find_organization(named: str | None) -> str:
    """Resolve an organization to its id; None: the only one."""
    rows = profiles.list_organizations()
    if named is not None and rows:
        return str(find_one("organization", named, ((row["id"], row["id"], (row["name"],)) for row in rows)))
    return profiles.resolve_organization(named)


def find_organization_or_all(named: str | None) -> str | None:
    """Resolve an organization to its id; None stays None (all)."""
    return None if named is None else find_organization(named)


def find_profile(organization: str | None, named: str) -> ProfileRow:
    """Find a profile by id, name or slug, in one organization or all."""
    rows = find_rows(Profile, Profile.deleted_at.is_null(), _match_organization(Profile, organization))
    return find_one("profile", named, ((row, row["id"], (row["name"], row["slug"])) for row in rows))


def find_only_profile(organization: str) -> ProfileRow:
    """Return the only profile. Raises ApiError `validation_failed` if there are several."""
    rows = find_rows(Profile, Profile.deleted_at.is_null(), Profile.organization == organization)
    rows.sort(key=lambda row: row["created_at"])
    if len(rows) > 1:
        named = ", ".join(f"{row['id']} ({row['name']})" for row in rows[:SHOWN_MAX])
        raise ApiError(
            "validation_failed", "There are several profiles.", remediation=f"Name one with --profile: {named}."
        )
    return rows[0]


def find_key(organization: str | None, named: str) -> ApiKeyRow:
    """Find an API key by id, name or last four characters, in one organization or all."""
    rows = find_rows(ApiKey, _match_organization(ApiKey, organization))
    return find_one("API key", named, ((row, row["id"], (row["name"], row["last4"])) for row in rows))


def find_user(organization: str | None, named: str) -> UserRow:
    """Find a user by id or e-mail address; None: of any organization, for the operator."""
    rows = find_rows(User, _match_organization(User, organization))
    return find_one("user", named, ((row, row["id"], (row["email"],)) for row in rows))


def find_account(organization: str | None, named: str) -> AccountRow:
    """Find a connected account by id, display name, handle or platform id."""
    rows = find_rows(Account, Account.disconnected_at.is_null(), _match_organization(Account, organization))
    return find_one("account", named, ((row, row["id"], _list_account_names(row)) for row in rows))


def _list_account_names(row: AccountRow) -> tuple[str | None, ...]:
    extra = json.loads(row["extra"])
    names = (row["display_name"], extra.get("handle"), extra.get("username"), row["platform_account_id"])
    return (*dict.fromkeys(names), f"{row['platform']} {names[0] or names[-1]}")

"""Resolve names and ids typed by an operator. An ambiguous name raises, with the matches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from peewee import SQL

from socialpub.base.errors import ApiError
from socialpub.domain.people import profiles
from socialpub.store.models import Account, ApiKey, Profile, User, rows_where
from socialpub.store.rows import AccountRow, ApiKeyRow, ProfileRow, UserRow

SHOWN = 10
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
T = TypeVar("T")
Known = tuple[T, str, Sequence[str | None]]
"""Candidate: object, id and further names."""


def _of(model: Any, organization: str | None) -> Any:
    """Return the condition that selects one organization, or all if None."""
    return SQL("1") if organization is None else model.organization == organization


def the_one(what: str, named: str, there: Iterable[Known[T]]) -> T:
    """Resolve an id or name. Raises ApiError `not_found`, or `validation_failed` if ambiguous."""
    known = list(there)
    found = [one for one in known if one[1] == named] or [one for one in known if _is_called(one, named)]
    if len(found) == 1:
        return found[0][0]
    if not found:
        by = "with this id" if _ID.fullmatch(named) else "of this name"
        raise ApiError("not_found", f"There is no {what} {by}.")
    meant = ", ".join(f"{one[1]} ({_words(one)})" for one in found[:SHOWN])
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    message = f"{len(found)} {what}s are called {ascii(named)}."
    raise ApiError("validation_failed", message, remediation=f"Name one by its id: {meant}{more}.")


def _is_called(one: Known[T], named: str) -> bool:
    return named.casefold() in [name.casefold() for name in one[2] if name]


def _words(one: Known[T]) -> str:
    return ", ".join(name for name in one[2] if name)


def organization(named: str | None) -> str:
    """Resolve an organization to its id; None: the only one."""
    there = profiles.list_organizations()
    if named is not None and there:
        return str(the_one("organization", named, ((row["id"], row["id"], (row["name"],)) for row in there)))
    return profiles.the_organization(named)


def organization_or_all(named: str | None) -> str | None:
    """Resolve an organization to its id; None stays None (all)."""
    return None if named is None else organization(named)


def profile(organization: str | None, named: str) -> ProfileRow:
    """Find a profile by id, name or slug, in one organization or all."""
    there = rows_where(Profile, Profile.deleted_at.is_null(), _of(Profile, organization))
    return the_one("profile", named, ((row, row["id"], (row["name"], row["slug"])) for row in there))


def only_profile(organization: str) -> ProfileRow:
    """Return the only profile. Raises ApiError `validation_failed` if there are several."""
    there = rows_where(Profile, Profile.deleted_at.is_null(), Profile.organization == organization)
    there.sort(key=lambda row: row["created_at"])
    if len(there) > 1:
        named = ", ".join(f"{row['id']} ({row['name']})" for row in there[:SHOWN])
        raise ApiError(
            "validation_failed", "There are several profiles.", remediation=f"Name one with --profile: {named}."
        )
    return there[0]


def key(organization: str | None, named: str) -> ApiKeyRow:
    """Find an API key by id, name or last four characters, in one organization or all."""
    there = rows_where(ApiKey, _of(ApiKey, organization))
    return the_one("API key", named, ((row, row["id"], (row["name"], row["last4"])) for row in there))


def user(organization: str | None, named: str) -> UserRow:
    """Find a user by id or e-mail address."""
    there = rows_where(User, _of(User, organization))
    return the_one("user", named, ((row, row["id"], (row["email"],)) for row in there))


def account(organization: str | None, named: str) -> AccountRow:
    """Find a connected account by id, display name, handle or platform id."""
    there = rows_where(Account, Account.disconnected_at.is_null(), _of(Account, organization))
    return the_one("account", named, ((row, row["id"], _names(row)) for row in there))


def _names(row: AccountRow) -> tuple[str | None, ...]:
    extra = json.loads(row["extra"])
    names = (row["display_name"], extra.get("handle"), extra.get("username"), row["platform_account_id"])
    return (*dict.fromkeys(names), f"{row['platform']} {names[0] or names[-1]}")

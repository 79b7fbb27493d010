"""Named groups of accounts of an organization, which are chosen together."""

from __future__ import annotations

import json
from collections.abc import Sequence

from socialpub.base.errors import ApiError
from socialpub.domain.access.actor import ActionBody, ActionResult, Actor
from socialpub.domain.named_values import NamedValues
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Organization

GROUPS_MAX, ACCOUNTS_MAX = 20, 100
GROUPS = NamedValues(
    "group",
    GROUPS_MAX,
    40,
    ACCOUNTS_MAX,
    f"Up to {GROUPS_MAX} groups can be saved, of up to {ACCOUNTS_MAX} accounts.",
)


def list_names(organization: str | None) -> dict[str, list[str]]:
    """Return the names of the groups of each account that is in one, by its id."""
    names: dict[str, list[str]] = {}
    for name, ids in load(organization).items():
        for id in ids:
            names.setdefault(id, []).append(name)
    return names


def load(organization: str | None) -> dict[str, list[str]]:
    """Return the ids of each group's accounts by its name; some may be disconnected."""
    groups = Organization.select(Organization.account_groups).where(Organization.id == organization).scalar()
    return json.loads(groups) if groups else {}


def save(tx: Tx, who: Actor, name: str, chosen: Sequence[str]) -> ActionResult:
    """Save accounts as a group; without any, delete it. Raises ApiError beyond the limits."""
    groups = GROUPS.change(load(who.scope.organization), name, list(chosen))
    named = (Account.id.in_(list(chosen)), Account.disconnected_at.is_null(), who.scope.filter(Account))
    if chosen and Account.select().where(*named).count() < len(set(chosen)):
        raise ApiError("not_found", "An account of the group was disconnected in the meantime.")
    organization = who.scope.organization
    Organization.update(account_groups=groups).where(Organization.id == organization).execute()
    nothing: ActionBody = {}
    return ActionResult(nothing, subject=organization)

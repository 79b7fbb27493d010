"""Named groups of accounts of an organization, which the composer chooses together."""

from __future__ import annotations

import json
from collections.abc import Sequence

from socialpub.base.errors import ApiError
from socialpub.domain.access.actor import ActionBody, ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.store.database import Tx
from socialpub.store.schema.models import Organization

GROUPS_MAX, NAME_MAX, ACCOUNTS_MAX = 20, 40, 100


def load(scope: Scope) -> dict[str, list[str]]:
    """Return the ids of each group's accounts by its name; some may be disconnected."""
    groups = Organization.select(Organization.account_groups).where(Organization.id == scope.organization).scalar()
    return json.loads(groups) if groups else {}


def save(tx: Tx, who: Actor, name: str, chosen: Sequence[str]) -> ActionResult:
    """Save accounts as a group; without any, delete it. Raises ApiError beyond the limits."""
    groups = load(who.scope)
    known = {row["id"] for row in accounts.list_rows(who.scope)}
    if not chosen:
        groups.pop(name, None)
    elif not 0 < len(name) <= NAME_MAX:
        raise ApiError("validation_failed", f"A group needs a name of 1 to {NAME_MAX} characters.")
    elif len(chosen) > ACCOUNTS_MAX or len(groups.keys() | {name}) > GROUPS_MAX:
        message = f"Up to {GROUPS_MAX} groups can be saved, of up to {ACCOUNTS_MAX} accounts."
        raise ApiError("validation_failed", message)
    elif not known.issuperset(chosen):
        raise ApiError("not_found", "An account of the group was disconnected in the meantime.")
    else:
        groups[name] = list(chosen)
    organization = who.scope.organization
    Organization.update(account_groups=json.dumps(groups)).where(Organization.id == organization).execute()
    nothing: ActionBody = {}
    return ActionResult(nothing, subject=organization)

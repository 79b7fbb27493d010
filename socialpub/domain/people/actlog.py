"""Query the audit log of an organization, newest entries first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.domain.core import cursors
from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.store import sql
from socialpub.store.models import Account, ApiKey, FormerUser, Profile, User, WebhookEndpoint
from socialpub.store.statements import acts

LISTING = "acts"
PAGE = 50
PEOPLE_MAX = 500
_NEVER_MS = 1 << 53


@dataclass(frozen=True)
class Wanted:
    """Filter on user, verbs and time range (epoch milliseconds); None does not restrict."""

    person: str | None = None
    verbs: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None
    cursor: str | None = None


class Row(NamedTuple):
    """Audit log row, in the column order of the SQL. `number` is its sequence number."""

    number: int
    at: int
    key: str | None
    user: str | None
    verb: str
    subject: str | None
    address: str


@dataclass(frozen=True)
class Page:
    """Page of the audit log: rows, display names by id, and the cursor of the next page."""

    acts: Sequence[Row]
    names: dict[str, str]
    posts: dict[str, str]  # page address by batch id
    cursor: str | None


def page(service: Service, scope: Scope, wanted: Wanted) -> Page:
    """Load one page of the organization's audit log. Raises ApiError `cursor`."""
    before, number = wanted.before or _NEVER_MS, "0"
    if wanted.cursor:
        before, number = cursors.unseal(service, LISTING, scope.organization, wanted.cursor)
    given = (scope.organization, before, int(number), wanted.since or 0, PAGE + 1)
    found = [Row(*row) for row in _found(wanted, given)]
    shown = found[:PAGE]
    more = len(found) > PAGE
    cursor = cursors.seal(service, LISTING, scope.organization, shown[-1].at, str(shown[-1].number)) if more else None
    return Page(shown, _names(scope, shown), _posts(scope, shown), cursor)


def _found(wanted: Wanted, given: tuple[object, ...]) -> list[Any]:
    verbs = None if wanted.verbs is None else json.dumps(wanted.verbs)
    if wanted.person is not None and verbs is not None:
        return sql.every(acts.OF_PERSON_AND_VERBS, (*given, wanted.person, verbs))
    if wanted.person is not None:
        return sql.every(acts.OF_PERSON, (*given, wanted.person))
    if verbs is not None:
        return sql.every(acts.OF_VERBS, (*given, verbs))
    return sql.every(acts.ALL, given)


def people(scope: Scope) -> list[tuple[str, str]]:
    """List (id, e-mail) of current and removed members, as choices for the filter."""
    found = [(row[0], row[1]) for row in _of(User, User.email, scope)]
    return found + [(row[0], f"{row[1]} (removed)") for row in _of(FormerUser, FormerUser.email, scope)]


def _of(table: type[User] | type[FormerUser], name: object, scope: Scope) -> list[tuple[str, str]]:
    query = table.select(table.id, name).where(table.organization == scope.organization).order_by(name)
    return list(query.limit(PEOPLE_MAX).tuples())


def _posts(scope: Scope, rows: Sequence[Row]) -> dict[str, str]:
    """Map each batch id to the address of its post's page, or to the filtered post log."""
    ids = sorted({row.subject for row in rows if row.subject})
    found = sql.every(acts.BATCHES, (json.dumps(ids), scope.organization))
    return {batch: f"/posts/{post}" if count == 1 else f"/posts?batchId={batch}" for batch, post, count in found}


def _names(scope: Scope, rows: Sequence[Row]) -> dict[str, str]:
    """Map the ids in these rows to display names; things without a name are left out."""
    ids = sorted({id for row in rows for id in (row.key, row.user, row.subject) if id})
    named = {}
    for table, name in (
        (Profile, Profile.name),
        (Account, Account.display_name),
        (WebhookEndpoint, WebhookEndpoint.url),
        (ApiKey, ApiKey.name),
        (FormerUser, FormerUser.email),
        (User, User.email),
    ):
        mine = (table.organization == scope.organization) & table.id.in_(ids)
        named.update({id: name for id, name in table.select(table.id, name).where(mine).tuples() if name})
    return named

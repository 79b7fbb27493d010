"""Query the audit log of an organization, newest entries first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors
from socialpub.store.engine import sql
from socialpub.store.queries import audit_log
from socialpub.store.schema.models import Account, ApiKey, Profile, RemovedUser, User, WebhookEndpoint

LISTING = "acts"
PAGE_SIZE = 50
USERS_MAX = 500
_FAR_FUTURE_MS = 1 << 53


@dataclass(frozen=True)
class AuditFilter:
    """Filter on user, verbs and time range (epoch milliseconds); None does not restrict."""

    person: str | None = None
    verbs: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None
    cursor: str | None = None


class AuditRecord(NamedTuple):
    """Audit log row, in the column order of the SQL. `number` is its sequence number."""

    number: int
    at: int
    key: str | None
    user: str | None
    verb: str
    subject: str | None
    address: str


@dataclass(frozen=True)
class AuditPage:
    """Page of the audit log: rows, display names by id, and the cursor of the next page."""

    rows: Sequence[AuditRecord]
    names: dict[str, str]
    posts: dict[str, str]  # page address by batch id
    cursor: str | None


def load_page(service: AppContext, scope: Scope, query: AuditFilter) -> AuditPage:
    """Load one page of the organization's audit log. Raises ApiError `cursor`."""
    before, number = query.before or _FAR_FUTURE_MS, "0"
    if query.cursor:
        before, number = cursors.decode(service, LISTING, scope.organization, query.cursor)
    bounds = (scope.organization, before, int(number), query.since or 0, PAGE_SIZE + 1)
    found = [AuditRecord(*row) for row in _select_rows(query, bounds)]
    rows = found[:PAGE_SIZE]
    more = len(found) > PAGE_SIZE
    cursor = cursors.encode(service, LISTING, scope.organization, rows[-1].at, str(rows[-1].number)) if more else None
    return AuditPage(rows, _load_display_names(scope, rows), _map_batch_links(scope, rows), cursor)


def _select_rows(query: AuditFilter, bounds: tuple[object, ...]) -> list[Any]:
    verbs = None if query.verbs is None else json.dumps(query.verbs)
    if query.person is not None and verbs is not None:
        return sql.fetch_all(audit_log.PAGE_OF_USER_AND_VERBS, (*bounds, query.person, verbs))
    if query.person is not None:
        return sql.fetch_all(audit_log.PAGE_OF_USER, (*bounds, query.person))
    if verbs is not None:
        return sql.fetch_all(audit_log.PAGE_OF_VERBS, (*bounds, verbs))
    return sql.fetch_all(audit_log.PAGE, bounds)


def list_users(scope: Scope) -> list[tuple[str, str]]:
    """List (id, e-mail) of current and removed members, as choices for the filter."""
    found = [(row[0], row[1]) for row in _select_names(User, User.email, scope)]
    return found + [(row[0], f"{row[1]} (removed)") for row in _select_names(RemovedUser, RemovedUser.email, scope)]


def _select_names(table: type[User] | type[RemovedUser], name: object, scope: Scope) -> list[tuple[str, str]]:
    query = table.select(table.id, name).where(table.organization == scope.organization).order_by(name)
    return list(query.limit(USERS_MAX).tuples())


def _map_batch_links(scope: Scope, rows: Sequence[AuditRecord]) -> dict[str, str]:
    """Map each batch id to the address of its post's page, or to the filtered post log."""
    ids = sorted({row.subject for row in rows if row.subject})
    found = sql.fetch_all(audit_log.FIND_BATCHES, (json.dumps(ids), scope.organization))
    return {batch: f"/posts/{post}" if count == 1 else f"/posts?batchId={batch}" for batch, post, count in found}


def _load_display_names(scope: Scope, rows: Sequence[AuditRecord]) -> dict[str, str]:
    """Map the ids in these rows to display names; things without a name are left out."""
    ids = sorted({id for row in rows for id in (row.key, row.user, row.subject) if id})
    names = {}
    for table, name in (
        (Profile, Profile.name),
        (Account, Account.display_name),
        (WebhookEndpoint, WebhookEndpoint.url),
        (ApiKey, ApiKey.name),
        (RemovedUser, RemovedUser.email),
        (User, User.email),
    ):
        mine = (table.organization == scope.organization) & table.id.in_(ids)
        names.update({id: name for id, name in table.select(table.id, name).where(mine).tuples() if name})
    return names

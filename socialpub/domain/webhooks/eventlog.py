"""The log of events as GET /v1/events shows it, oldest first.

An event's number is its place. Numbers are given inside the transaction that writes, and SQLite lets one write at a
time: so whoever has read up to a number has read all below it, also where several processes write. A database that
lets several write at once has to hold one lock from the giving of a number to the commit.
"""

from __future__ import annotations

from typing import NamedTuple

from socialpub.base.compact import dumps
from socialpub.base.errors import refuse
from socialpub.base.runtime import iso
from socialpub.domain.core import cursors
from socialpub.domain.core.service import Service
from socialpub.domain.people import profiles
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.events import EventsQuery
from socialpub.store import sql
from socialpub.store.statements import events as statements

LISTING = "events"
END = "end"  # the cursor of what happens from now on
LOOKED_AT = 2000
"""Events of the organization that one page looks at, so that a filter that nothing passes costs no more."""


class Shown(NamedTuple):
    """What of an event's row is shown."""

    number: int
    id: str
    type: str
    organization: str
    data: str
    created_at: int


def envelope(event: Shown) -> str:
    """An event as it is shown and delivered: the same event is always the same text."""
    head = {
        "id": event.id,
        "type": event.type,
        "createdAt": iso(event.created_at),
        "organizationId": event.organization,
    }
    return f'{dumps(head)[:-1]},"data":{event.data}}}'


def page(service: Service, scope: Scope, query: EventsQuery) -> str:
    """One page as JSON (`EventPage`): what passes the filters among the next events after the cursor.

    ApiError `not_found` for a profile out of scope, `cursor` for a cursor that this list did not make.
    """
    profile = scope.narrowed(query.profile_id)
    profiles.check(scope, query.profile_id)
    after = _after(service, scope, query.cursor) if query.cursor else 0
    till, seen = sql.first(statements.REACH, (scope.organization, after, LOOKED_AT))
    wanted = (after, till or after, scope.organization, profile, sql.json_of(query.type or []))
    found = [Shown(*row) for row in sql.every(statements.PAGE, (*wanted, query.limit + 1))]
    shown = found[: query.limit]
    end, goes_on = till or after, seen == LOOKED_AT
    if len(found) > query.limit:
        end, goes_on = shown[-1].number, True
    cursor = dumps(cursors.seal(service, LISTING, scope.organization, end, ""))
    data = ",".join(envelope(event) for event in shown)
    return f'{{"data":[{data}],"nextCursor":{cursor if goes_on else "null"},"endCursor":{cursor}}}'


def _after(service: Service, scope: Scope, cursor: str) -> int:
    """The number to go on after: of a page's end, of the newest event, or of the event whose id it is."""
    if cursor == END:
        return sql.value(statements.NEWEST, (scope.organization,)) or 0
    if not cursor.startswith("evt_"):
        return cursors.unseal(service, LISTING, scope.organization, cursor)[0]
    number: int | None = sql.value(statements.NUMBER, (cursor, scope.organization, scope.profile))
    if number is None:
        raise refuse("cursor", "There is no event with this id in the scope.")
    return number

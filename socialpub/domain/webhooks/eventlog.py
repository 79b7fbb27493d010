"""The log of events as GET /v1/events shows it, oldest first.

An event's number is its place. Numbers are given inside the transaction that writes, and SQLite lets one write at a
time: so whoever has read up to a number has read all below it, also where several processes write. A database that
lets several write at once has to hold one lock from the giving of a number to the commit.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from socialpub.base import crypto
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
PREFIX, WIDTH = "evt_", 22
_BYTES = 16  # of an id
END = "end"  # the cursor of what happens from now on
LOOKED_AT = 2000
"""Events of the organization that one page looks at, so that a filter that nothing passes costs no more."""


class Place(NamedTuple):
    """What an event's id is made of."""

    number: int
    created_at: int


def id_of(organization: str, number: int, created_at: int, former: bytes | None = None) -> str:
    """The id of an event: a UUIDv7 of its time whose random bits are its number and a part of its organization's id.

    So no row and no index has to keep it. Of one time and organization, no two have the same number; and databases that
    know nothing of each other have other organizations. `former`: what a row from before was given.
    """
    if former is not None:
        return _former_id(former)
    low = zlib.crc32(organization.encode()) << 42 | number
    value = created_at << 80 | 0x7 << 76 | (low >> 62) << 64 | 0b10 << 62 | low & (1 << 62) - 1
    return PREFIX + crypto.base62(value, WIDTH)


def _former_id(kept: bytes) -> str:
    """What is no UUID, as no version has given any, is kept as it was."""
    return PREFIX + crypto.base62(int.from_bytes(kept, "big"), WIDTH) if len(kept) == _BYTES else kept.decode()


def _value_of(id: str) -> int | None:
    """What the characters of an id stand for; None where they can be no event's."""
    value = crypto.of_base62(id.removeprefix(PREFIX)) if len(id) == len(PREFIX) + WIDTH else None
    return None if value is None or value >> 8 * _BYTES else value


def _place_of(organization: str, id: str, value: int) -> Place | None:
    """The number and the time that an id is made of; None where it was not made so."""
    place = Place(value & (1 << 42) - 1, value >> 80)
    return place if id_of(organization, *place) == id else None


class Shown(NamedTuple):
    """What of an event's row is shown."""

    number: int
    id: str
    type: str
    organization: str
    data: str
    created_at: int


def _shown(organization: str, number: int, former: bytes | None, type_: int, data: str, created_at: int) -> Shown:
    """Of the columns of `statements.PAGE`."""
    id = id_of(organization, number, created_at, former)
    return Shown(number, id, statements.TYPE_OF[type_], organization, data, created_at)


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
    types = sql.json_of([statements.TYPES[type_] for type_ in query.type or []])
    wanted = (after, till or after, scope.organization, profile, types, query.limit + 1)
    found = [_shown(scope.organization, *row) for row in sql.every(statements.PAGE, wanted)]
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
    if not cursor.startswith(PREFIX):
        return cursors.unseal(service, LISTING, scope.organization, cursor)[0]
    value = _value_of(cursor)
    place = None if value is None else _place_of(scope.organization, cursor, value)
    former = None if value is None else value.to_bytes(_BYTES, "big")
    asked = (scope.organization, scope.profile, former, *(place or (None, None)))
    number: int | None = sql.value(statements.NUMBER, asked)
    if number is None:
        raise refuse("cursor", "There is no event with this id in the scope.")
    return number

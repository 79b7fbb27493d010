"""Event log behind GET /v1/events, oldest first.

The event number is its position. Numbers are assigned inside the write transaction, and SQLite allows one writer at a
time: a reader at number N has seen all below N, even with several processes. A database with concurrent writers would
need one lock from assigning the number to the commit.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from socialpub.base.errors import rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import format_iso
from socialpub.base.security import crypto
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.events import EventsQuery
from socialpub.store.engine import sql
from socialpub.store.queries import events as statements

LISTING = "events"
PREFIX, ID_DIGITS = "evt_", 22
END_CURSOR = "end"  # cursor for future events only


class EventPosition(NamedTuple):
    """Number and time that an event id encodes."""

    number: int
    created_at: int


def compute_id(organization: str, number: int, created_at: int) -> str:
    """Compute the event id: a UUIDv7 of its time, number, and a CRC of its organization's id.

    So no row or index stores it. Within one time and organization the number is unique, and unrelated databases have
    other organizations.
    """
    low = zlib.crc32(organization.encode()) << 42 | number
    value = created_at << 80 | 0x7 << 76 | (low >> 62) << 64 | 0b10 << 62 | low & (1 << 62) - 1
    return PREFIX + crypto.encode_base62(value, ID_DIGITS)


def _parse_id(organization: str, id: str) -> EventPosition | None:
    """Extract number and time from an id; None if it was not computed by `compute_id`."""
    value = crypto.decode_base62(id.removeprefix(PREFIX)) if len(id) == len(PREFIX) + ID_DIGITS else None
    if value is None:
        return None
    position = EventPosition(value & (1 << 42) - 1, value >> 80)
    return position if compute_id(organization, *position) == id else None


class EventColumns(NamedTuple):
    """Columns of an event that are shown."""

    number: int
    id: str
    type: str
    organization: str
    data: str
    created_at: int


def _build_columns(organization: str, number: int, type_: int, data: str, created_at: int) -> EventColumns:
    """Build it from the columns of `statements.PAGE`."""
    id = compute_id(organization, number, created_at)
    return EventColumns(number, id, statements.TYPE_NAMES[type_], organization, data, created_at)


def build_envelope(event: EventColumns) -> str:
    """Build an event's JSON as shown and delivered; always the same text."""
    head = {
        "id": event.id,
        "type": event.type,
        "createdAt": format_iso(event.created_at),
        "organizationId": event.organization,
    }
    return f'{dumps(head)[:-1]},"data":{event.data}}}'


def load_page(service: AppContext, scope: Scope, query: EventsQuery) -> str:
    """Build one page as JSON (`EventPage`): the matching events after the cursor.

    Raises ApiError `not_found` for a profile out of scope, `cursor` for a foreign cursor.
    """
    profile = scope.narrowed(query.profile_id)
    profiles.check_profile(scope, query.profile_id)
    after = _find_start(service, scope, query.cursor) if query.cursor else 0
    reach, seen = sql.fetch_one(statements.FIND_PAGE_REACH, (scope.organization, after, cursors.SCAN_MAX))
    types = sql.dump_json([statements.TYPE_NUMBERS[type_] for type_ in query.type or []])
    wanted = (after, reach or after, scope.organization, profile, types, scope.account_list, query.limit + 1)
    found = [_build_columns(scope.organization, *row) for row in sql.fetch_all(statements.PAGE, wanted)]
    shown = found[: query.limit]
    end, has_more = reach or after, seen == cursors.SCAN_MAX
    if len(found) > query.limit:
        end, has_more = shown[-1].number, True
    cursor = dumps(cursors.encode(service, LISTING, scope.organization, end, ""))
    data = ",".join(build_envelope(event) for event in shown)
    return f'{{"data":[{data}],"nextCursor":{cursor if has_more else "null"},"endCursor":{cursor}}}'


def fix_start(service: AppContext, scope: Scope, query: EventsQuery) -> EventsQuery:
    """Replace the cursor END by that of the newest event now, for a query that is repeated."""
    if query.cursor != END_CURSOR:
        return query
    number = _find_start(service, scope, END_CURSOR)
    return query.model_copy(update={"cursor": cursors.encode(service, LISTING, scope.organization, number, "")})


def has_news(page: str) -> bool:
    """Return whether a page has an event, or more to read behind it."""
    return not page.startswith('{"data":[],"nextCursor":null')


def _find_start(service: AppContext, scope: Scope, cursor: str) -> int:
    """Return the number to continue after: from a page cursor, END, or an event id."""
    if cursor == END_CURSOR:
        return sql.fetch_value(statements.FIND_NEWEST, (scope.organization,)) or 0
    if not cursor.startswith(PREFIX):
        return cursors.decode(service, LISTING, scope.organization, cursor)[0]
    position = _parse_id(scope.organization, cursor) or (None, None)
    wanted = (scope.organization, scope.profile, *position, scope.account_list)
    number: int | None = sql.fetch_value(statements.FIND_NUMBER, wanted)
    if number is None:
        raise rule_error("cursor", "There is no event with this id in the scope.")
    return number

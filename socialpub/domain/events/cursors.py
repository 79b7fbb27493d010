"""Cursors of lists, by (createdAt, id) or by number, signed for one list and organization."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from socialpub.base.errors import rule_error
from socialpub.base.security import crypto
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.notifications import NotificationsQuery
from socialpub.domain.schemas.webhooks import DeliveriesQuery
from socialpub.store.engine import sql

_TIME = struct.Struct(">q")
_MAC_BYTES = 16
_NEWEST = 1 << 62


def encode(service: AppContext, listing: str, organization: str, created_at: int, row: str) -> str:
    """Build the cursor that continues after this row."""
    return _sign(service, listing, organization, _TIME.pack(created_at) + row.encode())


def decode(service: AppContext, listing: str, organization: str, cursor: str) -> tuple[int, str]:
    """Return (created_at, id) of the row to continue after. Raises ApiError `cursor`."""
    try:
        position = base64.b64decode(cursor.encode(), b"-_", validate=True)[_MAC_BYTES:]
    except ValueError as error:
        raise rule_error("cursor") from error
    if not crypto.is_equal(_sign(service, listing, organization, position).encode(), cursor.encode()):
        raise rule_error("cursor")
    return _TIME.unpack_from(position)[0], position[_TIME.size :].decode()


# --- Logs by number, newest first ------------------------------------------------------------------------------------


class NumberedRow(Protocol):
    """Row of a log, ordered by number."""

    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=NumberedRow)


SCAN_MAX = 2000
"""Rows of a log examined per page at most, so that a filter without matches costs no more."""


def load_log_page(
    service: AppContext,
    listing: str,
    organization: str,
    query: DeliveriesQuery | NotificationsQuery,
    find_reach: str,
    load: Callable[[int, int], Sequence[N]],
) -> tuple[Sequence[N], str | None]:
    """Load one page of a filtered log; return it with the cursor of the next page, or None.

    `find_reach`: SQL that returns the number at which SCAN_MAX rows end, and how many there are. `load`: returns at
    most `limit` + 1 matching rows below its first and down to its second number. Raises ApiError `cursor`.
    """
    before = decode(service, listing, organization, query.cursor)[0] if query.cursor else _NEWEST
    reach, seen = sql.fetch_one(find_reach, (organization, before, SCAN_MAX))
    rows = load(before, reach or 0)
    page = rows[: query.limit]
    end = reach if seen == SCAN_MAX else None  # a filtering query stopped there
    if len(rows) > query.limit:
        end = page[-1].number
    return page, None if end is None else encode(service, listing, organization, end, "")


def _sign(service: AppContext, listing: str, organization: str, position: bytes) -> str:
    signed = f"{listing}\0{organization}\0".encode() + position
    mac = service.runtime.vault.sign("cursor", signed)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + position).decode()

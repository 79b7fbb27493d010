"""Cursors of lists, by (createdAt, id) or by number, signed for one list and organization."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Protocol, TypeVar

from socialpub.base.errors import rule_error
from socialpub.base.security import crypto
from socialpub.domain.context.app_context import AppContext

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


def decode_number(service: AppContext, listing: str, organization: str, cursor: str | None) -> int:
    """Return the number below which the page begins. Raises ApiError `cursor`."""
    return decode(service, listing, organization, cursor)[0] if cursor else _NEWEST


def paginate(
    service: AppContext, listing: str, organization: str, rows: Sequence[N], limit: int, scanned_to: int | None
) -> tuple[Sequence[N], str | None]:
    """Cut `limit` + 1 rows to a page; return it with the cursor of the next page, or None.

    `scanned_to`: number at which a filtering query stopped; None if it scanned everything.
    """
    page = rows[:limit]
    end = page[-1].number if len(rows) > limit else scanned_to
    return page, None if end is None else encode(service, listing, organization, end, "")


def _sign(service: AppContext, listing: str, organization: str, position: bytes) -> str:
    signed = f"{listing}\0{organization}\0".encode() + position
    mac = service.runtime.vault.sign("cursor", signed)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + position).decode()

"""Cursors of lists, by (createdAt, id) or by number: opaque, and good only for their list and organization."""

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
    """A cursor that continues after this row."""
    return _sign(service, listing, organization, _TIME.pack(created_at) + row.encode())


def decode(service: AppContext, listing: str, organization: str, cursor: str) -> tuple[int, str]:
    """(created_at, id) of the row to continue after; ApiError `cursor` for anything that `encode` did not make."""
    try:
        place = base64.b64decode(cursor.encode(), b"-_", validate=True)[_MAC_BYTES:]
    except ValueError as error:
        raise rule_error("cursor") from error
    if not crypto.is_equal(_sign(service, listing, organization, place).encode(), cursor.encode()):
        raise rule_error("cursor")
    return _TIME.unpack_from(place)[0], place[_TIME.size :].decode()


# --- Logs by number, newest first ------------------------------------------------------------------------------------


class NumberedRow(Protocol):
    """A row of a log."""

    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=NumberedRow)


def decode_number(service: AppContext, listing: str, organization: str, cursor: str | None) -> int:
    """The number below which a page begins; ApiError `cursor`."""
    return decode(service, listing, organization, cursor)[0] if cursor else _NEWEST


def paginate(
    service: AppContext, listing: str, organization: str, found: Sequence[N], limit: int, looked_to: int | None
) -> tuple[Sequence[N], str | None]:
    """What a page shows of one row more than it may, and the cursor of the next, where there may be one.

    `looked_to`: the number at which a look that filters stopped; None where it has seen everything.
    """
    shown = found[:limit]
    end = shown[-1].number if len(found) > limit else looked_to
    return shown, None if end is None else encode(service, listing, organization, end, "")


def _sign(service: AppContext, listing: str, organization: str, place: bytes) -> str:
    signed = f"{listing}\0{organization}\0".encode() + place
    mac = service.runtime.vault.sign("cursor", signed)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + place).decode()

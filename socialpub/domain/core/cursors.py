"""Cursors of lists that page by (createdAt, id): opaque, and good only for the list and organization they came from."""

from __future__ import annotations

import base64
import struct

from socialpub.base import crypto
from socialpub.base.errors import refuse
from socialpub.domain.core.service import Service

_TIME = struct.Struct(">q")
_MAC_BYTES = 16


def seal(service: Service, listing: str, organization: str, created_at: int, row: str) -> str:
    """A cursor that continues after this row."""
    return _sealed(service, listing, organization, _TIME.pack(created_at) + row.encode())


def unseal(service: Service, listing: str, organization: str, cursor: str) -> tuple[int, str]:
    """(created_at, id) of the row to continue after; ApiError `cursor` for anything that `seal` did not make."""
    try:
        place = base64.b64decode(cursor.encode(), b"-_", validate=True)[_MAC_BYTES:]
    except ValueError as error:
        raise refuse("cursor") from error
    if not crypto.same(_sealed(service, listing, organization, place).encode(), cursor.encode()):
        raise refuse("cursor")
    return _TIME.unpack_from(place)[0], place[_TIME.size :].decode()


def _sealed(service: Service, listing: str, organization: str, place: bytes) -> str:
    signed = f"{listing}\0{organization}\0".encode() + place
    mac = service.runtime.vault.sign("cursor", signed)[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + place).decode()

"""Schemas of platform apps, as entered by an owner."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.domain.schemas.common import RequestModel

ID_MAX, SECRET_MAX = 200, 500
_VISIBLE_ASCII = r"^[!-~]+$"  # accepted unchanged by HTTP Basic and forms: ASCII without spaces


class AppRequest(RequestModel):
    """App id and secret, by the names of the platform's console."""

    client_id: Annotated[str, Field(pattern=_VISIBLE_ASCII, max_length=ID_MAX)]
    client_secret: Annotated[str, Field(pattern=_VISIBLE_ASCII, max_length=SECRET_MAX, repr=False)]


class AppBody(TypedDict):
    """Platform whose app was changed, without the app."""

    platform: str

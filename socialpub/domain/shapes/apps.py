"""The app that this server is registered as at a platform: how an owner types it in."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from socialpub.domain.shapes.common import Request

ID_MAX, SECRET_MAX = 200, 500
_WORD = r"^[!-~]+$"  # what HTTP Basic and forms take as it stands: ASCII without spaces


class AppRequest(Request):
    """What the platform's console calls the app's id and its secret."""

    client_id: Annotated[str, Field(pattern=_WORD, max_length=ID_MAX)]
    client_secret: Annotated[str, Field(pattern=_WORD, max_length=SECRET_MAX, repr=False)]


class AppBody(TypedDict):
    """Whose app was changed; nothing of it is told."""

    platform: str

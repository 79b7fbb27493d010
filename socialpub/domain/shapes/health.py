"""What the server says of itself."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

PausedReason = Literal["clock", "damaged", "restored"]


class HealthBody(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class ReadyBody(TypedDict):
    """The server can do its work."""

    status: Literal["ok"]
    publishing: Literal["active", "paused"]
    """`paused`: posts are accepted for later, none is published."""
    reason: NotRequired[PausedReason]
    """Why, while it is paused."""
    canceling: NotRequired[int]
    """Posts of disconnected accounts that are still to be canceled, while there are any."""
    silent: NotRequired[list[str]]
    """Platforms that have not answered the last calls, while there are any: their posts wait until they do."""

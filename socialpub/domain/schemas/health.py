"""Schemas of health checks."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

PausedReason = Literal["clock", "damaged", "restored"]


class HealthBody(TypedDict):
    """Liveness: the process responds."""

    status: Literal["ok"]


class ReadyBody(TypedDict):
    """Readiness: the server can work."""

    status: Literal["ok"]
    publishing: Literal["active", "paused"]
    """`paused`: posts are accepted for later, none is published."""
    reason: NotRequired[PausedReason]
    """Why publishing is paused."""
    canceling: NotRequired[int]
    """Posts of disconnected accounts that are still to be canceled, if any."""
    silent: NotRequired[list[str]]
    """Platforms that did not respond to the last calls, if any. Their posts wait until they respond."""

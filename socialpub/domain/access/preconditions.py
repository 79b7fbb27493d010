"""Preconditions: an action runs only if the resource is as its client has seen it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from socialpub.base.errors import rule_error
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.access.actor import ActionResult
from socialpub.store.database import Tx


class Resource(NamedTuple):
    """Resource as its GET shows it. `hidden`: what is not shown but can be changed."""

    shown: bytes
    hidden: bytes = b""

    @property
    def tag(self) -> str:
        """Strong ETag; a restart of the server does not change it."""
        return f'"{hashlib.sha256(self.shown + self.hidden).hexdigest()[:32]}"'


LoadResource = Callable[[], bytes | Resource]
"""Reads a resource as its GET shows it. Raises ApiError `not_found`."""
ANY_TAG = "*"


def compute_tag(resource: bytes) -> str:
    """Compute the strong ETag of a resource that shows all that can be changed."""
    return Resource(resource).tag


def require_tag(action: BoundAction, expected: Collection[str], load: LoadResource) -> BoundAction:
    """Require, in the action's transaction, that the resource has one of these ETags.

    The action then raises as `check_tag`.
    """

    def run(tx: Tx) -> ActionResult:
        check_tag(expected, load)
        return action.run(tx)

    return replace(action, run=run)


def check_tag(expected: Collection[str], load: LoadResource) -> None:
    """Raise 412 `http.if_match` with the current resource if it has none of these ETags."""
    found = load()
    current = found if isinstance(found, Resource) else Resource(found)
    if ANY_TAG not in expected and current.tag not in expected:
        shown = json.loads(current.shown)
        raise rule_error("http.if_match", platform_response=shown, headers={"ETag": current.tag})

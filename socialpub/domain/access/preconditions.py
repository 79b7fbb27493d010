"""Preconditions: an action runs only if the resource is as its client has seen it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import replace

from socialpub.base.errors import rule_error
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.access.actor import ActionResult
from socialpub.store.database import Tx

LoadResource = Callable[[], bytes]
"""Reads a resource as its GET shows it. Raises ApiError `not_found`."""
ANY_TAG = "*"


def compute_tag(resource: bytes) -> str:
    """Compute the strong ETag of a resource that clients change; a restart does not change it."""
    return f'"{hashlib.sha256(resource).hexdigest()[:32]}"'


def require_tag(action: BoundAction, expected: Collection[str], load: LoadResource) -> BoundAction:
    """Require, in the action's transaction, that the resource has one of these ETags.

    The action then raises 412 `http.if_match` with the current resource if it has none of them.
    """

    def run(tx: Tx) -> ActionResult:
        current = load()
        tag = compute_tag(current)
        if ANY_TAG not in expected and tag not in expected:
            raise rule_error("http.if_match", platform_response=json.loads(current), headers={"ETag": tag})
        return action.run(tx)

    return replace(action, run=run)

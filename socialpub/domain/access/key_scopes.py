"""Scopes of API keys: what a limited key may do. Routes, OpenAPI and pages read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

KeyScopeName = Literal["posts:read", "posts:plan", "posts:write", "media", "accounts:read", "webhooks"]
RouteScope = KeyScopeName | Literal["any"]
"""The scope that a route needs; "any": every key may call it, and where the route takes no key, none is needed."""
ALL_SCOPES: tuple[KeyScopeName, ...] = get_args(KeyScopeName)


@dataclass(frozen=True)
class KeyScope:
    """Scope of API keys: what it permits, for people, and the scopes that it contains."""

    name: KeyScopeName
    label: str
    about: str
    contains: tuple[KeyScopeName, ...] = ()


KEY_SCOPES: dict[KeyScopeName, KeyScope] = {
    scope.name: scope
    for scope in (
        KeyScope("posts:read", "Read posts", "Read posts, batches, drafts, slots, events and notifications."),
        KeyScope(
            "posts:plan",
            "Plan posts",
            "Check posts, and write and propose drafts. Nothing is published.",
            contains=("posts:read",),
        ),
        KeyScope(
            "posts:write",
            "Publish posts",
            "Publish, schedule, change, cancel, retry and settle posts; approve drafts; set slots and default boards.",
            contains=("posts:read", "posts:plan"),
        ),
        KeyScope("media", "Media", "Upload, read and delete files."),
        KeyScope("accounts:read", "Read accounts", "Read accounts, profiles and boards."),
        KeyScope("webhooks", "Webhooks", "Webhook endpoints, deliveries, notification channels, and their tests."),
    )
}


def expand(scopes: Iterable[KeyScopeName]) -> frozenset[KeyScopeName]:
    """Return the scopes with those that they contain."""
    return frozenset(part for scope in scopes for part in (scope, *KEY_SCOPES[scope].contains))

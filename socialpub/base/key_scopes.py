"""Scopes of API keys: what a limited key may do. Routes, OpenAPI and pages read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from socialpub.base.errors import rule_error

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
        KeyScope("media", "Media", "Upload, read, describe and delete files."),
        KeyScope("accounts:read", "Read accounts", "Read accounts, profiles and boards."),
        KeyScope("webhooks", "Webhooks", "Webhook endpoints, deliveries, notification channels, and their tests."),
    )
}


@dataclass(frozen=True)
class KeyPreset:
    """Choice of scopes on the dashboard's key page. `scopes`: None for every scope."""

    name: str
    label: str
    scopes: tuple[KeyScopeName, ...] | None


KEY_PRESETS: dict[str, KeyPreset] = {
    preset.name: preset
    for preset in (
        KeyPreset("everything", "Everything", None),
        KeyPreset("read", "Read posts and accounts", ("posts:read", "accounts:read")),
        KeyPreset("plan", "Plan posts: draft, check and upload, but not publish", (
            "posts:plan", "media", "accounts:read",
        )),
    )
}  # fmt: skip


def describe(scopes: Iterable[KeyScopeName]) -> str:
    """Return in words what a key with these scopes may do."""
    granted = set(scopes)
    if granted.issuperset(ALL_SCOPES):
        return "Everything"
    return ", ".join(KEY_SCOPES[name].label for name in ALL_SCOPES if name in granted)


def expand(scopes: Iterable[KeyScopeName]) -> frozenset[KeyScopeName]:
    """Return the scopes with those that they contain."""
    return frozenset(part for scope in scopes for part in (scope, *KEY_SCOPES[scope].contains))


def list_granted(scopes: Iterable[KeyScopeName] | None) -> list[KeyScopeName]:
    """Return the scopes of a key in the table's order; None: every scope."""
    return [name for name in ALL_SCOPES if scopes is None or name in scopes]


def check(granted: tuple[KeyScopeName, ...] | None, needed: RouteScope | None) -> None:
    """Raise ApiError `api_key.scope` unless the granted scopes (None: all) have this one."""
    if granted is None or needed == "any" or needed in expand(granted):
        return
    has = list_granted(granted)
    message = f"This needs the scope `{needed}`; the key has {', '.join(f'`{name}`' for name in has)}."
    raise rule_error("api_key.scope", message, platform_response={"needed": needed, "has": has})

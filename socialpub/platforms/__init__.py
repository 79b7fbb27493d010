"""Platforms by name: connectors, declarations and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import Connector, Platform, Rule, Site
from socialpub.platforms.facebook import connector as facebook
from socialpub.platforms.instagram import connector as instagram
from socialpub.platforms.kit.rule_catalog import build_catalogue
from socialpub.platforms.linkedin import connector as linkedin
from socialpub.platforms.pinterest import connector as pinterest
from socialpub.platforms.threads import connector as threads
from socialpub.platforms.tiktok import connector as tiktok
from socialpub.platforms.twitter import connector as twitter

CONNECTORS: dict[str, Connector] = {
    "bluesky": bluesky,
    "facebook": facebook,
    "instagram": instagram,
    "linkedin": linkedin,
    "pinterest": pinterest,
    "threads": threads,
    "tiktok": tiktok,
    "twitter": twitter,
}

PLATFORMS: dict[str, Platform] = {name: connector.PLATFORM for name, connector in CONNECTORS.items()}

CATALOGUE: dict[str, Rule] = build_catalogue(PLATFORMS.values())


def platform(name: str) -> Platform:
    """Return the platform of this name. Raises KeyError."""
    return PLATFORMS[name]


def site(name: str, table: Mapping[str, Any]) -> Site:
    """Parse the settings `[platforms.NAME]`. Raises pydantic's ValidationError."""
    return PLATFORMS[name].site.model_validate(table)

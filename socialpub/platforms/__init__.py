"""The platforms by name: their connectors, what they declare, and every rule of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.platforms import (
    bluesky,
    facebook,
    instagram,
    linkedin,
    pinterest,
    threads,
    tiktok,
    twitter,
)
from socialpub.platforms.base import Connector, Platform, Rule, Site
from socialpub.platforms.rules import catalogue

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

CATALOGUE: dict[str, Rule] = catalogue(PLATFORMS.values())


def platform(name: str) -> Platform:
    """The platform of this name; KeyError when there is none."""
    return PLATFORMS[name]


def site(name: str, table: Mapping[str, Any]) -> Site:
    """The settings `[platforms.NAME]`, typed; pydantic's ValidationError names what cannot be used."""
    return PLATFORMS[name].site.model_validate(table)

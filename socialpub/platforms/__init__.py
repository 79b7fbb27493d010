"""The platforms by name: their connectors, what they declare, and every rule of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import Connector, Platform, Rule, Site
from socialpub.platforms.facebook import connector as facebook
from socialpub.platforms.instagram import connector as instagram
from socialpub.platforms.kit.rules import catalogue
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

CATALOGUE: dict[str, Rule] = catalogue(PLATFORMS.values())


def platform(name: str) -> Platform:
    """The platform of this name; KeyError when there is none."""
    return PLATFORMS[name]


def site(name: str, table: Mapping[str, Any]) -> Site:
    """The settings `[platforms.NAME]`, typed; pydantic's ValidationError names what cannot be used."""
    return PLATFORMS[name].site.model_validate(table)

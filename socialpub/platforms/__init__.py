"""The eight platforms, by name; those that can publish in this build; and every rule of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.platforms import bluesky, facebook, instagram, linkedin, pinterest, threads, tiktok, twitter
from socialpub.platforms.base import Connector, Platform, Rule, Site
from socialpub.platforms.rules import catalogue

PLATFORMS: dict[str, Platform] = {
    "bluesky": bluesky.PLATFORM,
    "facebook": facebook.PLATFORM,
    "instagram": instagram.PLATFORM,
    "linkedin": linkedin.PLATFORM,
    "pinterest": pinterest.PLATFORM,
    "threads": threads.PLATFORM,
    "tiktok": tiktok.PLATFORM,
    "twitter": twitter.PLATFORM,
}

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

CATALOGUE: dict[str, Rule] = catalogue(PLATFORMS.values())


def platform(name: str) -> Platform:
    """The platform of this name; KeyError when there is none."""
    return PLATFORMS[name]


def site(name: str, table: Mapping[str, Any]) -> Site:
    """The settings `[platforms.NAME]`, typed; pydantic's ValidationError names what cannot be used."""
    return PLATFORMS[name].site.model_validate(table)

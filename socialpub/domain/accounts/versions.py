"""Ending API versions of platforms: notify each organization with an account there, once.

The end is known from `Platform.sunsets`, or from the platform refusing the version.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.core import events
from socialpub.domain.core.service import Service
from socialpub.domain.shapes.common import parse_instant
from socialpub.domain.shapes.events import VersionDeprecated
from socialpub.platforms.contract import Platform
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import versions as statements

log = logging.getLogger("socialpub.versions")

AHEAD_MS = 90 * 86_400_000
LOOK_SECONDS = 86_400.0
AT_ONCE = 100  # organizations notified per transaction
RETIRED = ".version.retired"  # suffix of the rules for a refused version


Heard = Literal["good", "ended", "unknown"]


class Asked(NamedTuple):
    """Last version check: the pinned version and the next one (None: unknown)."""

    platform: str
    pin: str
    heard: Heard
    newer: str | None
    next_heard: Heard | None
    said: str
    at: int


def keep(tx: Tx, found: Asked) -> None:
    """Store the check, replacing the previous one."""
    sql.change(statements.KEEP_ASKED, found)


def asked(platform: str) -> Asked | None:
    """Load the last check of a platform. Call within a read."""
    row = sql.first(statements.ASKED, (platform,))
    return None if row is None else Asked(*row)


def all_asked() -> list[Asked]:
    """Load the last check of every platform. Call within a read."""
    return [Asked(*row) for row in sql.every(statements.ALL_ASKED)]


def look(service: Service) -> None:
    """Send the notifications that are due."""
    for platform in _ending(service):
        tell_all(service, platform)


def tell_all(service: Service, platform: Platform) -> None:
    """Notify every organization with an account there that was not notified yet."""
    wanted = (platform.name, _pin(service, platform), AT_ONCE)
    while untold := service.read(lambda: [row[0] for row in sql.every(statements.UNTOLD, wanted)]).result():
        log.warning("%s ends version %s of its API, which this server calls", platform.label, wanted[1])
        service.write(functools.partial(_tell_these, service, platform, untold)).result()


def _tell_these(service: Service, platform: Platform, organizations: Sequence[str], tx: Tx) -> None:
    for organization in organizations:
        _tell(service, tx, organization, platform)


def refused(service: Service, tx: Tx, organization: str, platform: str, error: ApiError) -> None:
    """Notify the organization whose call was refused because the version has ended."""
    if error.rule is not None and error.rule.endswith(RETIRED):
        _tell(service, tx, organization, platforms.platform(platform))


def _ending(service: Service) -> Iterator[Platform]:
    """Yield platforms whose pinned version ends soon or has ended, by date or by response."""
    said = {each.platform: each.pin for each in service.read(all_asked).result() if each.heard == "ended"}
    for name, platform in platforms.PLATFORMS.items():
        sunset = platform.sunset_of(service.sites[name])
        is_near = sunset is not None and parse_instant(sunset) - AHEAD_MS <= service.now_ms
        if is_near or said.get(name) == _pin(service, platform):
            yield platform


def _tell(service: Service, tx: Tx, organization: str, platform: Platform) -> None:
    pin = _pin(service, platform)
    if not sql.change(statements.TELL, (organization, platform.name, pin, service.now_ms)):
        return
    data: VersionDeprecated = {
        "platform": platform.name,
        "currentPin": pin,
        "nextPin": platform.version if platform.version != pin else _next(platform, pin),
        "sunsetAt": platform.sunset_of(service.sites[platform.name]),
    }
    events.emit(service, tx, "version.deprecated", organization, data)


def _next(platform: Platform, pin: str) -> str | None:
    """Return the next version if the platform is known to serve it."""
    found = asked(platform.name)
    return found.newer if found and found.pin == pin and found.next_heard == "good" else None


def _pin(service: Service, platform: Platform) -> str:
    return platform.pinned(service.sites[platform.name])

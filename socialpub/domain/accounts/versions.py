"""Versions of the platforms' APIs that come to their end: whoever has an account there is told, once for each version.

The day is known from what the platform declares (`Platform.sunsets`); or the platform refuses the version.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence

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
AT_ONCE = 100  # organizations told in one transaction
RETIRED = ".version.retired"  # the end of the rules by which platforms refuse the version


class Versions:
    """The daily look of one server."""

    def __init__(self, service: Service) -> None:
        self._service, self._rests_until = service, float("-inf")

    def look(self) -> None:
        """Tell whoever has not been told, if the last look was a day ago."""
        now = self._service.runtime.clock.monotonic()
        if now < self._rests_until:
            return
        for platform in _ending(self._service):
            self._tell_all(platform)
        self._rests_until = now + LOOK_SECONDS

    def _tell_all(self, platform: Platform) -> None:
        service, asked = self._service, (platform.name, _pin(self._service, platform), AT_ONCE)
        while untold := service.read(lambda: [row[0] for row in sql.every(statements.UNTOLD, asked)]).result():
            log.warning("%s ends version %s of its API, which this server calls", platform.label, asked[1])
            service.write(functools.partial(_tell_these, service, platform, untold)).result()


def _tell_these(service: Service, platform: Platform, organizations: Sequence[str], tx: Tx) -> None:
    for organization in organizations:
        _tell(service, tx, organization, platform)


def refused(service: Service, tx: Tx, organization: str, platform: str, error: ApiError) -> None:
    """Tell the organization at once where its call was refused because the version has ended."""
    if error.rule is not None and error.rule.endswith(RETIRED):
        _tell(service, tx, organization, platforms.platform(platform))


def _ending(service: Service) -> Iterator[Platform]:
    """The platforms whose pinned version ends soon, or has ended."""
    for name, platform in platforms.PLATFORMS.items():
        sunset = platform.sunset_of(service.sites[name])
        if sunset is not None and parse_instant(sunset) - AHEAD_MS <= service.now_ms:
            yield platform


def _tell(service: Service, tx: Tx, organization: str, platform: Platform) -> None:
    pin = _pin(service, platform)
    if not sql.change(statements.TELL, (organization, platform.name, pin, service.now_ms)):
        return
    data: VersionDeprecated = {
        "platform": platform.name,
        "currentPin": pin,
        "nextPin": platform.version if platform.version != pin else None,
        "sunsetAt": platform.sunset_of(service.sites[platform.name]),
    }
    events.emit(service, tx, "version.deprecated", organization, data)


def _pin(service: Service, platform: Platform) -> str:
    return platform.pinned(service.sites[platform.name])

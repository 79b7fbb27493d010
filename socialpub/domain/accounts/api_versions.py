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
from socialpub.base.runtime import DAY_MS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.events import VersionDeprecated
from socialpub.platforms.contract import Platform
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import api_versions as statements

log = logging.getLogger("socialpub.versions")

NOTICE_MS = 90 * DAY_MS
CHECK_SECONDS = 86_400.0
NOTICE_BATCH = 100  # organizations notified per transaction
RETIRED_RULE_SUFFIX = ".version.retired"  # suffix of the rules for a refused version


VersionVerdict = Literal["good", "ended", "unknown"]


class VersionCheckResult(NamedTuple):
    """Last version check: the pinned version and the next one (None: unknown)."""

    platform: str
    pin: str
    verdict: VersionVerdict
    newer: str | None
    next_verdict: VersionVerdict | None
    reason: str
    at: int


def save_check(tx: Tx, check: VersionCheckResult) -> None:
    """Store the check, replacing the previous one."""
    sql.update(statements.SET_CHECK, check)


def find_check(platform: str) -> VersionCheckResult | None:
    """Load the last check of a platform. Call within a read."""
    row = sql.fetch_one(statements.FIND_CHECK, (platform,))
    return None if row is None else VersionCheckResult(*row)


def list_checks() -> list[VersionCheckResult]:
    """Load the last check of every platform. Call within a read."""
    return [VersionCheckResult(*row) for row in sql.fetch_all(statements.FIND_ALL_CHECKS)]


def notify_due(service: AppContext) -> None:
    """Send the notifications that are due."""
    for platform in _list_ending(service):
        notify_all(service, platform)


def notify_all(service: AppContext, platform: Platform) -> None:
    """Notify every organization with an account there that was not notified yet."""
    bounds = (platform.name, _get_pinned(service, platform), NOTICE_BATCH)
    while unnotified := service.read(
        lambda: [row[0] for row in sql.fetch_all(statements.FIND_UNNOTIFIED, bounds)]
    ).result():
        log.warning(
            "%s ends version %s of its API, which this server uses; organizations with an account there are notified",
            platform.label,
            bounds[1],
        )
        service.write(functools.partial(_notify_batch, service, platform, unnotified)).result()


def _notify_batch(service: AppContext, platform: Platform, organizations: Sequence[str], tx: Tx) -> None:
    for organization in organizations:
        _notify(service, tx, organization, platform)


def notify_refused(service: AppContext, tx: Tx, organization: str, platform: str, error: ApiError) -> None:
    """Notify the organization whose call was refused because the version has ended."""
    if error.rule is not None and error.rule.endswith(RETIRED_RULE_SUFFIX):
        _notify(service, tx, organization, platforms.platform(platform))


def _list_ending(service: AppContext) -> Iterator[Platform]:
    """Yield platforms whose pinned version ends soon or has ended, by date or by response."""
    ended = {each.platform: each.pin for each in service.read(list_checks).result() if each.verdict == "ended"}
    for name, platform in platforms.PLATFORMS.items():
        sunset = platform.find_sunset(service.sites[name])
        is_near = sunset is not None and parse_instant(sunset) - NOTICE_MS <= service.now_ms
        if is_near or ended.get(name) == _get_pinned(service, platform):
            yield platform


def _notify(service: AppContext, tx: Tx, organization: str, platform: Platform) -> None:
    pin = _get_pinned(service, platform)
    if not sql.update(statements.INSERT_NOTICE, (organization, platform.name, pin, service.now_ms)):
        return
    data: VersionDeprecated = {
        "platform": platform.name,
        "currentPin": pin,
        "nextPin": platform.version if platform.version != pin else _find_next(platform, pin),
        "sunsetAt": platform.find_sunset(service.sites[platform.name]),
    }
    events.emit(service, tx, "version.deprecated", organization, data)


def _find_next(platform: Platform, pin: str) -> str | None:
    """Return the next version if the platform is known to serve it."""
    check = find_check(platform.name)
    return check.newer if check and check.pin == pin and check.next_verdict == "good" else None


def _get_pinned(service: AppContext, platform: Platform) -> str:
    return platform.pinned(service.sites[platform.name])

"""System information for the settings page, read from the ends of indexes and from memory."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from socialpub import platforms
from socialpub.base.system.host_identity import find_network_problem
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import api_versions
from socialpub.domain.accounts.api_versions import NOTICE_MS
from socialpub.domain.background.engine import HEARTBEAT_SECONDS, BackgroundEngine
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.server import instance
from socialpub.store.engine import sql
from socialpub.store.engine.locks import list_files
from socialpub.store.queries import gauges


@dataclass(frozen=True)
class ApiVersionInfo:
    """API version of a platform that this server calls."""

    platform: str
    label: str
    version: str
    enabled: bool
    ends_at: str | None
    state: Literal["good", "soon", "over"]
    next: str | None
    last_check: api_versions.VersionCheckResult | None


@dataclass(frozen=True)
class JobKindBacklog:
    """Waiting and due jobs of a kind, counted up to a maximum."""

    kind: str
    waiting: int
    due: int


@dataclass(frozen=True)
class BackupScheduleInfo:
    """Backup schedule, with the newest backup (ms), which was verified when it was made."""

    directory: str  # or bucket, or both
    every_seconds: float
    keep: int
    newest_at: int | None
    problem: str


@dataclass(frozen=True)
class ServerWideInfo:
    """Information about the whole server, across organizations."""

    path: str
    database_bytes: int
    free_bytes: int | None
    network: str | None  # why the file system is not safe for the database
    queues: list[JobKindBacklog]
    deliveries: int
    notifications: int
    oldest_due: int | None
    backups: BackupScheduleInfo


@dataclass(frozen=True)
class SystemInfo:
    """System information. `server` is for the operator: None with several organizations."""

    started_at: int
    silent_seconds: int
    paused: PausedReason | None
    breakers: list[str]
    versions: list[ApiVersionInfo]
    server: ServerWideInfo | None


def load_system_info(engine: BackgroundEngine, scope: Scope) -> SystemInfo:
    """Load the information for an organization. Call within a read."""
    service = engine.service
    silent = service.runtime.clock.monotonic() - engine.heartbeat
    return SystemInfo(
        started_at=engine.started_at,
        silent_seconds=int(silent) if silent > HEARTBEAT_SECONDS else 0,
        paused=instance.get_pause_reason(),
        breakers=[
            platforms.platform(each.name).label
            for each in service.upstream.breakers.open()
            if each.name in service.sites
        ],
        versions=list(_list_versions(service)),
        server=_load_server_wide(engine) if profiles.is_only_organization(scope.organization) else None,
    )


def _list_versions(service: AppContext) -> Iterator[ApiVersionInfo]:
    checks = {each.platform: each for each in api_versions.list_checks()}
    for name, platform in platforms.PLATFORMS.items():
        site, check = service.sites[name], checks.get(name)
        ends, pinned = platform.find_sunset(site), platform.pinned(site)
        left = None if ends is None else parse_instant(ends) - service.now_ms
        state: Literal["good", "soon", "over"] = "good" if left is None or left > NOTICE_MS else "soon"
        newer = platform.version if platform.version != pinned else None
        check = check if check and check.pin == pinned else None
        over = (left is not None and left <= 0) or (check is not None and check.verdict == "ended")
        yield ApiVersionInfo(name, platform.label, pinned, site.enabled, ends, "over" if over else state, newer, check)


def _load_server_wide(engine: BackgroundEngine) -> ServerWideInfo:
    service = engine.service
    return ServerWideInfo(
        path=str(service.db.path),
        database_bytes=_measure_database(service),
        free_bytes=_measure_free_space(service),
        network=find_network_problem(service.db.path.absolute().parent, service.runtime.host.mounts),
        queues=[_count_jobs(kind.name, service.now_ms) for kind in JOB_KINDS],
        deliveries=sql.fetch_value(gauges.COUNT_PENDING_DELIVERIES),
        notifications=sql.fetch_value(gauges.COUNT_PENDING_NOTIFICATIONS),
        oldest_due=sql.fetch_value(gauges.FIND_OLDEST_DUE),
        backups=_load_backups(engine),
    )


def _count_jobs(kind: str, now_ms: int) -> JobKindBacklog:
    return JobKindBacklog(
        kind, sql.fetch_value(gauges.COUNT_JOBS, (kind,)), sql.fetch_value(gauges.COUNT_DUE_JOBS, (kind, now_ms))
    )


def _measure_database(service: AppContext) -> int:
    """Return the size in bytes, including the WAL."""
    total = 0
    for path in list_files(service.db.path):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _measure_free_space(service: AppContext) -> int | None:
    try:
        return shutil.disk_usage(service.db.path.parent).free
    except OSError:
        return None


def _load_backups(engine: BackgroundEngine) -> BackupScheduleInfo:
    settings, backups = engine.service.runtime.settings.backup, engine.periodic.backups
    bucket = f"s3://{settings.s3_bucket}" if settings.s3_endpoint else ""
    where = " and ".join(filter(None, (settings.directory, bucket)))
    return BackupScheduleInfo(where, settings.every, settings.keep, backups.newest(), backups.problem)

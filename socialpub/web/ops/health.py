"""Health checks for monitoring: `/healthz` (alive) and `/readyz` (able to work)."""

from __future__ import annotations

import asyncio
import shutil

from socialpub.base.errors import rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import find_key_problem
from socialpub.domain.accounts import accounts
from socialpub.domain.background.engine import HEARTBEAT_SECONDS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files
from socialpub.domain.schemas.common import cast_present, without_none
from socialpub.domain.schemas.health import HealthBody, ReadyBody
from socialpub.domain.server import instance
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse

RETRY_SECONDS = 5
FREE_DISK_MIN = 4 * 1024 * 1024


HEALTHY: HealthBody = {"status": "ok"}
_HEALTHY_RESPONSE = HandlerResponse(dumps(HEALTHY))
HEALTHZ = Operation(
    "Health",
    "readHealth",
    "Check that the process runs",
    answers={200: SuccessResponse(HealthBody, "The process runs.", HEALTHY)},
)


async def healthz(call: RequestContext) -> HandlerResponse:
    """GET /healthz: the process answers."""
    return _HEALTHY_RESPONSE


ACTIVE: ReadyBody = {"status": "ok", "publishing": "active"}
READYZ = Operation(
    "Health",
    "readReadiness",
    "Check that the server is ready",
    "The database accepts writes and the scheduler is running.",
    answers={200: SuccessResponse(ReadyBody, "The server is ready.", ACTIVE)},
    errors=("storage.unavailable",),
)


async def readyz(call: RequestContext) -> HandlerResponse:
    """GET /readyz: data directory, database and scheduler work."""
    service = call.service
    needs_write = await asyncio.to_thread(_is_write_check_needed, service)
    await instance.probe_write(service, needs_write)
    paused, has_files, uncanceled, key = await service.read(
        lambda: (
            instance.get_pause_reason(),
            files.has_references(),
            accounts.count_uncanceled(),
            instance.find_key_id(),
        )
    )
    problem = await asyncio.to_thread(_find_problem, service, has_files, key or service.runtime.vault.key_id)
    if problem is None and service.runtime.clock.monotonic() - call.engine.heartbeat > HEARTBEAT_SECONDS:
        problem = "the scheduler is not responding"
    if problem:
        raise rule_error("storage.unavailable", f"{problem[0].upper()}{problem[1:]}.", retry_after=RETRY_SECONDS)
    silent = [circuit.name for circuit in service.upstream.breakers.open() if circuit.name in service.sites]
    state: ReadyBody = {
        "status": "ok",
        "publishing": "paused" if paused else "active",
        "reason": cast_present(paused),
        "canceling": cast_present(uncanceled or None),
        "silent": cast_present(silent or None),
    }
    return HandlerResponse(without_none(state, "reason", "canceling", "silent"))


def _is_write_check_needed(service: AppContext) -> bool:
    """Return whether to test a real write: the last one failed, or the disk is nearly full."""
    try:
        return bool(service.db.failing) or shutil.disk_usage(service.db.path.parent).free < FREE_DISK_MIN
    except OSError:
        return True


def _find_problem(service: AppContext, has_files: bool, key: str) -> str | None:
    settings = service.runtime.settings
    return files.find_problem(settings.data_dir, has_files) or find_key_problem(settings, key)

"""For whatever watches the server: is the process there, and can it do its work."""

from __future__ import annotations

from socialpub.base.errors import refuse
from socialpub.domain import instance
from socialpub.web.http import Call, Reply

HEARTBEAT_SECONDS = 60.0


async def healthz(call: Call) -> Reply:
    """GET /healthz: the process answers."""
    return Reply({"status": "ok"})


async def readyz(call: Call) -> Reply:
    """GET /readyz: the database can be read and written, the scheduler is alive."""
    await call.service.write(lambda tx: None)
    paused = await call.service.read(instance.paused)
    late = call.service.runtime.clock.monotonic() - call.engine.heartbeat
    if late > HEARTBEAT_SECONDS:
        raise refuse("storage.unavailable", "The scheduler does not answer.", retry_after=5)
    return Reply({"status": "ok", "publishing": "paused" if paused else "active"})

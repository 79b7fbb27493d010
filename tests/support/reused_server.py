"""One server for many tests, emptied between them.

It is started anew where a test has left more than rows behind. A start and a stop take ten times as long as emptying
the database.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from socialpub.domain.media import files
from socialpub.simulator.server import SimulatorThread
from socialpub.store import database as db
from socialpub.store.engine.sqlite import proxy
from socialpub.store.schema.models import TABLES, Instance
from tests.support.app_server import AppServer, MovableClock

EMPTY = [f'DELETE FROM "{table._meta.table_name}"' for table in TABLES if table is not Instance] + [
    "INSERT INTO post_search (post_search) VALUES ('delete-all')",
    "UPDATE post_search_order SET disorder = 0",
    "UPDATE post_search_filed SET texts = 0",
]

# Its periodic tasks begin five seconds after a start; no test is to find them at work that would not with a new server.
USED_SECONDS_MAX = 4.0
SOON_MS = 600_000
# Work that would go on beside the next test, and meet rows with the numbers of its own.
FIND_WORK = """
    SELECT EXISTS (SELECT 1 FROM job WHERE visible_at < ? OR epoch IS NOT NULL)
    OR EXISTS (SELECT 1 FROM webhook_delivery WHERE status = 'pending')
    OR EXISTS (SELECT 1 FROM notification WHERE status = 'pending')
"""
KEPT_INSTANCE_FIELDS = (Instance.uid, Instance.epoch, Instance.paused, Instance.moved, Instance.key_id)


class ReusedServer:
    """The server of a module's tests, for as long as they ask for the same settings."""

    def __init__(self, make_home: Callable[[], Path], lab: SimulatorThread) -> None:
        self._make_home, self._lab = make_home, lab
        self._server: AppServer | None = None
        self._clock = MovableClock()
        self._parts: dict[str, Any] = {}  # of the server as it was started
        self._secrets: set[str] = set()  # of its settings
        self._used_secrets: set[str] = set()  # of the tests before: its files are searched for them once it has stopped
        self._started = 0.0

    @property
    def clock(self) -> MovableClock:
        """The clock of the server that `get` will return: it shows the real time."""
        if self._server is not None and not self._is_reusable(self._server):
            self.close()
        if _is_moved(self._clock):
            self.close()
            self._clock = MovableClock()
        return self._clock

    def get(self, lab: SimulatorThread, settings: Mapping[str, Mapping[str, Any]]) -> AppServer:
        """Return a server with these settings and an empty database."""
        clock, server = self.clock, self._server
        if server and (server.overrides != settings or clock.monotonic() - self._started > USED_SECONDS_MAX):
            self.close()
        if self._server is None:
            given = {section: dict(values) for section, values in settings.items()}
            self._started = clock.monotonic()
            self._server = AppServer(self._make_home(), lab, clock, given).start()
            self._parts, self._secrets = _list_parts(self._server), set(self._server.watch.secrets)
            self._used_secrets = set()
        else:
            self._empty(self._server)
        return self._server

    def release(self) -> None:
        """End the use by one test: look for secrets in the clear, and stop a server that has more to do."""
        server = self._server
        if server is None:
            return
        if _is_moved(self._clock) or not self._is_reusable(server):
            self.close()
            return
        for api in server._apis:
            api.close()
        server._apis.clear()
        leaks = server.watch.leaks(server.home, is_open=True)
        assert not leaks, f"secrets in the clear: {leaks}"

    def close(self) -> None:
        """Stop the server."""
        server, self._server = self._server, None
        if server is not None:
            server.watch.secrets |= self._used_secrets
            server.stop()

    def _is_reusable(self, server: AppServer) -> bool:
        service = server.service
        return (
            server.lab is self._lab
            and not server.engine._stopping.is_set()
            and not service.process.stopping.is_set()
            and server.engine.paused is None
            and not service.is_busy()
            and not service.upstream.breakers._breakers
            and not service.lost.unstored
            and not service.db.failing
            and not service.db.fenced.is_set()
            and not service.db.files.lost
            and not (server.home / "media").is_file()
            and not service.read(lambda: _has_work(service.now_ms)).result()
            and _list_parts(server) == self._parts
        )

    def _empty(self, server: AppServer) -> None:
        service = server.service
        service.write(_delete_rows).result()
        shutil.rmtree(server.home / "media", ignore_errors=True)
        files._leases.clear()
        server.app.ctx.pipeline.windows._hits.clear()
        server.engine.throttle._guesses.clear()
        server.engine.fetched._cleaned_at = None
        server.engine.periodic._newest = server.engine.periodic._indexed = None
        service.process.setup_digest = None
        service.upstream.notes._kept.clear()
        watch = server.watch
        self._used_secrets |= watch.secrets
        watch.secrets.intersection_update(self._secrets)
        watch.lines.clear()
        watch.answers.clear()
        watch.__post_init__()


def _list_parts(server: AppServer) -> dict[str, Any]:
    """What a test replaces that restarts the server, changes its settings or gives it another part."""
    owners = {
        "server": server,
        "service": server.service,
        "runtime": server.service.runtime,
        "engine": server.engine,
        "pipeline": server.app.ctx.pipeline,
    }
    instance = Instance.select(*KEPT_INSTANCE_FIELDS)
    parts: dict[str, Any] = {
        f"{name}.{part}": id(value)
        for name, owner in owners.items()
        for part, value in vars(owner).items()
        if part not in ("webhook_http", "_running", "_closed")  # made at first use, and numbers
    }
    parts["instance"] = server.service.read(lambda: list(instance.tuples())).result()
    return parts | {"overrides": {section: dict(values) for section, values in server.overrides.items()}}


def _is_moved(clock: MovableClock) -> bool:
    return vars(clock) != vars(MovableClock())


def _has_work(now: int) -> bool:
    return bool(proxy.connection().execute(FIND_WORK, (now + SOON_MS,)).fetchone()[0])


def _delete_rows(tx: db.Tx) -> None:
    connection = proxy.connection()
    connection.execute("PRAGMA defer_foreign_keys = 1")
    for statement in EMPTY:
        connection.execute(statement)

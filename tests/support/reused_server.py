"""One server for the tests of a module, emptied between them.

A start and a stop take ten times as long. A test gets a server of its own wherever the one before may have left more
than is emptied here (`_is_quiet`, `_list_parts`), and wherever it takes `monkeypatch` itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import http as outbound
from socialpub.base.config import Settings
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.domain.background.periodic_tasks import PeriodicTasks
from socialpub.domain.context.app_context import AdmissionControllers, AppContext, LostResponses
from socialpub.domain.context.recent_posts import RecentPosts
from socialpub.domain.identity.signin import LoginThrottle
from socialpub.domain.media import files, probe
from socialpub.platforms.contract import CallNotes
from socialpub.simulator.server import SimulatorThread
from socialpub.store import database as db
from socialpub.store.engine.sqlite import proxy
from socialpub.store.schema.models import TABLES, Instance
from socialpub.web.pipeline import RequestPipeline
from tests.support.app_server import AppServer, MovableClock
from tests.support.database_costs import DatabaseCounter

EMPTY = [f'DELETE FROM "{table._meta.table_name}"' for table in TABLES if table is not Instance] + [
    "INSERT INTO post_search (post_search) VALUES ('delete-all')",
    "UPDATE post_search_order SET disorder = 0",
    "UPDATE post_search_filed SET texts = 0",
]

SOON_MS = 600_000
# Work that would go on beside the next test, and meet rows with the numbers of its own.
FIND_WORK = """
    SELECT EXISTS (SELECT 1 FROM job WHERE visible_at < ? OR epoch IS NOT NULL)
    OR EXISTS (SELECT 1 FROM webhook_endpoint)
    OR EXISTS (SELECT 1 FROM notification_channel)
"""
KEPT_INSTANCE_FIELDS = (Instance.uid, Instance.epoch, Instance.paused, Instance.moved, Instance.key_id)
CLEARED_FOLDERS = ("media", "fetched")


class ReusedServer:
    """The server of a module's tests, for as long as they ask for the same settings."""

    def __init__(self, make_home: Callable[[], Path], lab: SimulatorThread) -> None:
        self._make_home, self._lab = make_home, lab
        self._server: AppServer | None = None
        self._clock = MovableClock()
        self._parts: dict[str, Any] = {}  # of the server as it was started
        self._settings: Settings | None = None
        self._secrets: set[str] = set()  # of its settings
        self._used_secrets: set[str] = set()  # of the tests before: its files are searched for them once it has stopped

    @property
    def clock(self) -> MovableClock:
        """The clock of the server that `get` will return: it shows the real time, until the test moves it."""
        if _is_moved(self._clock):
            self.close()
            self._clock = MovableClock()
        return self._clock

    def get(self, lab: SimulatorThread, settings: Mapping[str, Mapping[str, Any]]) -> AppServer:
        """Return a server with these settings and an empty database."""
        clock, server = self._clock, self._server
        if server is not None and not (
            lab is self._lab
            and server.overrides == settings
            and not _is_moved(clock)
            and self._is_reusable(server)
            and self._empty(server)
        ):
            self.close()
        if self._server is None:
            given = {section: dict(values) for section, values in settings.items()}
            self._server = AppServer(self._make_home(), lab, clock, given).start()
            self._secrets, self._used_secrets = set(self._server.watch.secrets), set()
            self._settings = self._server.service.runtime.settings.model_copy(deep=True)
        self._parts = _list_parts(self._server)
        return self._server

    def release(self) -> None:
        """End the use by one test: look for secrets in the clear, and stop a server that has more to do."""
        server = self._server
        if server is None:
            return
        if server.lab is not self._lab or _is_moved(self._clock) or not self._is_reusable(server):
            self.close()
            self._clock = MovableClock()
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
        try:
            return (
                _is_quiet(server)
                and server.service.runtime.settings == self._settings
                and _has_same_parts(_list_parts(server), self._parts)
            )
        except (ApiError, OSError):  # the database or its folder cannot be read
            return False

    def _empty(self, server: AppServer) -> bool:
        """Make it as it was after its start; False if something has begun meanwhile."""
        service, engine, clock = server.service, server.engine, self._clock
        _restart_periodic_tasks(server)
        service.write(_delete_rows).result()
        for folder in CLEARED_FOLDERS:
            shutil.rmtree(server.home / folder, ignore_errors=True)
        files._leases.clear()
        outbound.close_idle(0)
        _renew(server.app.ctx.pipeline, RequestPipeline(service, engine))
        _renew(service.admission, AdmissionControllers())
        _renew(service.lost, LostResponses())
        _renew(service.recent_posts, RecentPosts(clock))
        _renew(service.upstream.notes, CallNotes())
        _renew(engine.throttle, LoginThrottle(clock))
        service.upstream.revoked.clear()
        service.upstream.renewals.clear()
        service.db._inline._thread_only.clear()
        service.process.setup_digest = None
        engine.fetched._cleaned_at = None
        engine._heartbeat.newest_event = 0
        watch = server.watch
        self._used_secrets |= watch.secrets
        watch.secrets.intersection_update(self._secrets)
        watch.lines.clear()
        watch.answers.clear()
        watch.__post_init__()
        return _is_quiet(server) and not any((server.home / folder).exists() for folder in CLEARED_FOLDERS)


def _renew(owner: Any, new: Any) -> None:
    """Give an object that others hold the state of one that was just made."""
    vars(owner).update(vars(new))


def _restart_periodic_tasks(server: AppServer) -> None:
    """Let the periodic tasks be due as after a start, however long the server has been running."""
    service, engine = server.service, server.engine
    registry = service.jobs._registry
    for task in tuple(registry._periodic_tasks):
        registry.unregister(task)
    engine.periodic = PeriodicTasks(service, engine.fetched, engine.gate, engine._heartbeat, engine._stopping)
    engine.periodic.register()


def _is_moved(clock: MovableClock) -> bool:
    return vars(clock) != vars(MovableClock())


def _is_quiet(server: AppServer) -> bool:
    """Return whether nothing is under way, refused or awaited that the next test could meet."""
    service, engine, pipeline = server.service, server.engine, server.app.ctx.pipeline
    gate, jobs, deliverer, fetched = engine.gate, service.jobs, engine._deliverer, engine.fetched
    storage, groups = jobs.storage, jobs.groups
    stopped = (
        engine._stopping.is_set(),
        service.process.stopping.is_set(),
        service.waiting.is_closed,
        pipeline._closed,
    )
    held_back = (gate.reason, gate.held_back, gate._doubt, gate._is_failing_overdue, service.process.pending_check)
    damaged = (service.db.failing, service.db.fenced.is_set(), service.db.files.lost, service.lost.unstored)
    calling = (service.is_busy(), *(pool.is_busy or pool.waiting_count for pool in _list_pools(service)))
    writing = (service.db._writer._queues, not service.db._writer._inbox.empty())
    waiting = (pipeline._running, service.waiting._waiting, service.waiting.count, service.batch_observers._observers)
    working = (storage._tasks, storage._running, storage._later, storage._ready)
    publishing = (groups._busy, groups._waiting, groups._rest_until, fetched._entries, fetched._folder.names())
    delivering = (deliverer._timers, deliverer._woken, deliverer._deferred, deliverer._in_progress)
    blocked = (deliverer._backlogged, deliverer._blocked, deliverer._unwritten)
    upstream = (service.upstream.breakers._breakers, tokens.has_unsaved(service))
    found = (stopped, held_back, damaged, calling, writing, waiting, working, publishing, delivering, blocked, upstream)
    return not any(map(any, found)) and not service.read(lambda: _has_work(service.now_ms)).result()


def _list_pools(service: AppContext) -> tuple[Any, ...]:
    return (*service.executors.pools, probe.reader_pool)


def _list_parts(server: AppServer) -> dict[str, Any]:
    """What a test changes that restarts the server, changes its settings or gives it another part."""
    service, engine = server.service, server.engine
    owners = {
        "server": server,
        "service": service,
        "runtime": service.runtime,
        "vault": service.runtime.vault,
        "database": service.db,
        "executors": service.executors,
        "upstream": service.upstream,
        "engine": engine,
        "app": server.app.ctx,
        "pipeline": server.app.ctx.pipeline,
    }
    parts = {f"{name}.{part}": value for name, owner in owners.items() for part, value in vars(owner).items()}
    for name, owner in (("jobs", service.jobs), ("gate", engine.gate)):  # their numbers change by themselves
        parts |= {f"{name}.{part}": value for part, value in vars(owner).items() if callable(value)}
    instance = Instance.select(*KEPT_INSTANCE_FIELDS)
    return parts | {
        "open database": proxy.obj,
        "instance": service.read(lambda: list(instance.tuples())).result(),
        "overrides": {section: dict(values) for section, values in server.overrides.items()},
        "sites": dict(service.sites),
        "files": sorted(path.name for path in server.home.iterdir() if path.name not in CLEARED_FOLDERS),
        "media": (server.home / "media").is_file(),
    }


def _has_same_parts(now: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether plain data are equal, and everything else is the same object."""
    return now.keys() == before.keys() and all(
        part is before[name] or (isinstance(part, int | str | list | dict) and part == before[name])
        for name, part in now.items()
    )


def _has_work(now: int) -> bool:
    return bool(proxy.connection().execute(FIND_WORK, (now + SOON_MS,)).fetchone()[0])


def _delete_rows(tx: db.Tx) -> None:
    connection = proxy.connection()
    connection.execute("PRAGMA defer_foreign_keys = 1")
    for statement in EMPTY:
        connection.execute(statement)


# --- Fixtures, for the conftest.py of a room --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reused_server(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[ReusedServer]:
    reused = ReusedServer(lambda: tmp_path_factory.mktemp("server"), lab_thread)
    yield reused
    reused.close()


@pytest.fixture
def wall(reused_server: ReusedServer) -> MovableClock:
    """The server's clock."""
    return reused_server.clock


@pytest.fixture
def make_server(
    request: pytest.FixtureRequest, lab: SimulatorThread, wall: MovableClock, reused_server: ReusedServer
) -> Iterator[Callable[..., AppServer]]:
    """Start a server with settings of the test's own, or empty that of the test before if it had the same ones."""
    made: list[AppServer] = []
    is_patched = "monkeypatch" in request.fixturenames  # before a start, perhaps, or within what it has made

    def make(**settings: dict[str, Any]) -> AppServer:
        if not made:
            if is_patched:
                reused_server.close()
            made.append(reused_server.get(lab, settings))
        else:
            made.append(AppServer(made[0].home, lab, wall, settings).start())
        return made[-1]

    yield make
    for server in made[1:]:
        server.stop()
    if made:
        if len(made) > 1 or is_patched:
            reused_server.close()
        reused_server.release()


@pytest.fixture
def counting(reused_server: ReusedServer, counting: DatabaseCounter) -> Iterator[DatabaseCounter]:
    """Counts what the test's server does, which is started after it: let it stand before `server`."""
    reused_server.close()
    yield counting
    reused_server.close()

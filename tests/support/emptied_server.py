"""A server with the usual settings for the tests of a module, emptied between them.

A test that may leave more behind than rows ends it: one that moves the clock, replaces a part of the server, restarts
it, or leaves work that is not done. The next test gets a new one.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.domain.identity.signin import LoginThrottle
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.schema.models import TABLES, Job, NotificationChannel, WebhookEndpoint
from tests.support.app_server import AppServer, MovableClock

KEPT = ("Instance", "VersionCheck")  # tables of the server itself
SOON_MS = 600_000


class EmptiedServer:
    """The server, while there is one. `clock` is that of the next test."""

    def __init__(self, folder: Path, lab: SimulatorThread) -> None:
        self._folder, self._lab, self._names = folder, lab, map(str, itertools.count())
        self._server: AppServer | None = None
        self._before: Any = None
        self.clock = MovableClock()

    def open(self) -> AppServer:
        if self._server is None:
            home = self._folder / next(self._names)
            home.mkdir()
            self._server = AppServer(home, self._lab, self.clock).start()
            self._before = copy.deepcopy(self._server.service.runtime.settings), self._state(self._server)
        return self._server

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def give_back(self) -> None:
        """After each test; secrets in the clear fail it, as a stop would."""
        server, self._server = self._server, None
        if server is not None and self._is_reusable(server):
            self._empty(server)
            self._server = server
        elif server is not None:
            server.stop()
        if vars(self.clock) != vars(MovableClock()):
            self.clock = MovableClock()

    def _is_reusable(self, server: AppServer) -> bool:
        service = server.service
        is_failing = service.upstream.breakers._breakers  # noqa: SLF001 - also what has failed once
        is_quiet = not (is_failing or service.is_busy() or service.read(_has_work).result())
        return (
            is_quiet
            and vars(self.clock) == vars(MovableClock())
            and self._before == (server.service.runtime.settings, self._state(server))
        )

    def _state(self, server: AppServer) -> Any:
        service, engine = server.service, server.engine
        parts = (service, service.jobs, service.runtime, engine, engine.gate)
        replaced = [{name: part for name, part in vars(each).items() if callable(part)} for each in parts]
        return service, service.sites, replaced, engine.paused

    def _empty(self, server: AppServer) -> None:
        leaks = server.watch.leaks(server.home)
        server.watch.secrets.clear()
        server.watch.secrets |= {site.client_secret for site in server.service.sites.values() if site.client_secret}
        server.watch.lines.clear()
        server.watch.answers.clear()
        for api in server._apis:  # noqa: SLF001 - as its stop does
            api.close()
        server._apis.clear()  # noqa: SLF001
        server.service.write(_delete_rows).result()
        vars(server.engine.throttle).update(vars(LoginThrottle(self.clock)))
        for path in (server.home / "media").rglob("*"):
            if path.is_file():
                path.unlink()
        assert not leaks, f"secrets in the clear: {leaks}"


def _has_work() -> bool:
    soon = Job.select().where((Job.visible_at < _now_ms() + SOON_MS) | Job.epoch.is_null(False))
    return soon.exists() or WebhookEndpoint.select().exists() or NotificationChannel.select().exists()


def _now_ms() -> int:
    return MovableClock().now_ms()


def _delete_rows(tx: Tx) -> None:
    sql.execute("PRAGMA defer_foreign_keys = 1")
    for table in TABLES:
        if table.__name__ not in KEPT:
            sql.execute(f'DELETE FROM "{table._meta.table_name}"')


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[EmptiedServer]:
    shared = EmptiedServer(tmp_path_factory.mktemp("shared"), lab_thread)
    yield shared
    shared.close()


@pytest.fixture
def wall(shared: EmptiedServer) -> MovableClock:
    """The server's clock."""
    return shared.clock


@pytest.fixture
def make_server(
    tmp_path: Path, lab: SimulatorThread, wall: MovableClock, shared: EmptiedServer
) -> Iterator[Callable[..., AppServer]]:
    """Start a server with settings of the test's own; a process has one open database."""
    made: list[AppServer] = []

    def make(**settings: dict[str, Any]) -> AppServer:
        shared.close()
        made.append(AppServer(tmp_path, lab, wall, settings).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()
    if made:
        shared.give_back()


@pytest.fixture
def server(request: pytest.FixtureRequest, lab: SimulatorThread, shared: EmptiedServer) -> Iterator[AppServer]:
    is_watched = "counting" in request.fixturenames  # it watches servers that are started after it
    if is_watched:
        shared.close()
    yield shared.open()
    if is_watched:
        shared.close()
    shared.give_back()

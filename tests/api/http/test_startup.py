"""Startup order: the port opens when the engine has started."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import httpx
import pytest

from socialpub.base.runtime import Runtime, load_vault
from socialpub.base.system import sockets
from socialpub.commands.serve import bind, run_engine_and_web
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import open_context
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema import migration
from socialpub.web.app import build_app
from socialpub.web.server import run_in_thread, serve_app
from tests.support.app_server import AppServer, MovableClock

MANY = 64  # connections


class Watched(BackgroundEngine):
    """An engine with a client that comes in the midst of its start: `met` is whether there was a server for it."""

    met: bool

    def start(self) -> None:
        try:
            socket.create_connection(("127.0.0.1", self.service.runtime.settings.server.port), timeout=5).close()
            self.met = True
        except ConnectionRefusedError:
            self.met = False
        super().start()


def test_the_port_opens_when_the_engine_has_started(tmp_path: Path, lab: SimulatorThread, wall: MovableClock) -> None:
    sock = sockets.listen("127.0.0.1", 0)
    settings = AppServer(tmp_path, lab, wall).settings(sock.getsockname()[1])
    migration.migrate(settings.database_path)
    service = open_context(Runtime(settings, load_vault(settings), clock=wall))
    engine = Watched(service)
    with run_in_thread(run_engine_and_web(engine, serve_app(build_app(service, engine), sock))):
        assert httpx.get(f"{settings.base_url}/healthz", trust_env=False).status_code == 200
    assert not engine.met


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels hand over whoever connects")
def test_who_connects_and_says_nothing_is_kept_by_the_kernel(
    tmp_path: Path, lab: SimulatorThread, wall: MovableClock
) -> None:
    """Before whoever comes next and has something to ask, hundreds of them would be accepted."""
    listening, settings = bind(AppServer(tmp_path, lab, wall).settings(0))
    with listening, contextlib.ExitStack() as clients:
        listening.listen(8)
        listening.settimeout(10)
        address = ("127.0.0.1", settings.server.port)
        silent = clients.enter_context(socket.create_connection(address))
        speaks = clients.enter_context(socket.create_connection(address))
        speaks.sendall(b"G")
        first = clients.enter_context(contextlib.closing(listening.accept()[0]))
        assert first.getpeername() == speaks.getsockname()
        silent.sendall(b"G")
        second = clients.enter_context(contextlib.closing(listening.accept()[0]))
        assert second.getpeername() == silent.getsockname()

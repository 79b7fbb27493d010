"""How the server starts: nobody is served before it owns its database and has looked at what the run before left."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx

from socialpub.base import net
from socialpub.base.runtime import Runtime, load_vault
from socialpub.commands.serve import both
from socialpub.domain.core.service import open_service
from socialpub.domain.engine.engine import Engine
from socialpub.simulator.server import SimulatorThread
from socialpub.store import db
from socialpub.web.app import build_app
from socialpub.web.server import in_thread, running
from tests.kit import Clock, Server


class Watched(Engine):
    """An engine with a client that comes in the midst of its start: `met` is whether there was a server for it."""

    met: bool

    def start(self) -> None:
        try:
            socket.create_connection(("127.0.0.1", self.service.runtime.settings.server.port), timeout=5).close()
            self.met = True
        except ConnectionRefusedError:
            self.met = False
        super().start()


def test_the_port_opens_when_the_engine_has_started(tmp_path: Path, lab: SimulatorThread, wall: Clock) -> None:
    sock = net.listen("127.0.0.1", 0)
    settings = Server(tmp_path, lab, wall).settings(sock.getsockname()[1])
    db.migrate(settings.database_path)
    service = open_service(Runtime(settings, load_vault(settings), clock=wall))
    engine = Watched(service)
    with in_thread(both(engine, running(build_app(service, engine), sock))):
        assert httpx.get(f"{settings.base_url}/healthz", trust_env=False).status_code == 200
    assert not engine.met

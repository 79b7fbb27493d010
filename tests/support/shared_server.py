"""One server for many tests of a module: its start and stop take longer than most tests do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, MovableClock


class SharedServer:
    """A running server that is reused while tests want the same settings; each test has an organization of its own.

    Closed before another server starts, since a process has one open database.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._settings: dict[str, Any] = {}
        self._server: AppServer | None = None

    def open(self, lab: SimulatorThread, clock: MovableClock | None = None, **settings: Any) -> AppServer:
        """Return the open server if its settings are these, else start one. `clock`: of a new server."""
        if self._server is not None and self._settings == settings:
            return self._server
        self.close()
        self._number += 1
        home = self._folder / str(self._number)
        home.mkdir()
        self._server, self._settings = AppServer(home, lab, clock or MovableClock(), settings), settings
        self._server.start()
        return self._server

    def close(self) -> None:
        """Stop the server, which looks for secrets in the clear."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

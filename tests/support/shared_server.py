"""One server for many tests of a module: its start and stop take longer than most tests do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from socialpub.base.http.circuit_breakers import CircuitBreakers
from socialpub.domain.context.app_context import AppContext
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Job
from tests.support.app_server import AppServer, MovableClock


class SharedServer:
    """A running server that is reused while tests want the same settings; each test has an organization of its own.

    Unlike `ReusedServer` it is never emptied, and its clock, which tests move, goes on from one to the next.
    What earlier tests have left there does nothing any more, and its clock is the simulator's or shows the same time.
    Closed before another server starts, since a process has one open database. `kind`: the server's class.
    """

    def __init__(self, folder: Path, kind: type[AppServer] = AppServer) -> None:
        self._folder, self._kind, self._number = folder, kind, 0
        self._settings: dict[str, Any] = {}
        self._server: AppServer | None = None

    def open(self, lab: SimulatorThread, clock: MovableClock | None = None, **settings: Any) -> Any:
        """Return the open server if its settings are these, else start one. `clock`: of a new server."""
        if self._server is not None and self._settings == settings:
            _synchronize(self._server.clock, lab)
            _retire_accounts(self._server.service)
            return self._server
        self.close()
        self._number += 1
        home = self._folder / str(self._number)
        home.mkdir()
        self._server, self._settings = self._kind(home, lab, clock or MovableClock(), settings), settings
        _synchronize(self._server.clock, lab)
        self._server.start()
        return self._server

    def close(self) -> None:
        """Stop the server, which looks for secrets in the clear."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


def _synchronize(clock: MovableClock, lab: SimulatorThread) -> None:
    """Set the clock that is behind ahead: what one test has skipped is over for the next one at both ends."""
    theirs = lab.lab.clock
    assert isinstance(theirs, MovableClock)
    if clock is not theirs:
        ahead = (clock.now_ms() - theirs.now_ms()) / 1000
        (theirs if ahead > 0 else clock).skip(abs(ahead))


def _retire_accounts(service: AppContext) -> None:
    """Disconnect every account and delete every job; forget what calls have shown of platforms."""
    gone = {"disconnected_at": service.now_ms, "secret": None, "token_expires_at": None, "ends_at": None}

    def write(tx: Tx) -> None:
        Account.update(**gone, renewed_at=None, renewal_at=None).where(Account.disconnected_at.is_null()).execute()
        Job.delete().execute()

    service.write(write).result()
    service.upstream.breakers = CircuitBreakers(service.runtime.clock.monotonic)
    service.upstream.renewals.clear()

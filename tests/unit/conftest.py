"""Fixtures of the unit tests: a server that the tests of a module share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, MovableClock
from tests.support.shared_server import SharedServer
from tests.support.token_accounts import TokenAccount, connect_at_simulator


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    shared = SharedServer(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def _shared_clock(lab_thread: SimulatorThread, shared_server: SharedServer) -> Iterator[MovableClock]:
    clock = lab_thread.lab.clock
    assert isinstance(clock, MovableClock)
    yield clock
    shared_server.close()
    clock.right()


@pytest.fixture
def shared_lab(lab_thread: SimulatorThread, _shared_clock: MovableClock) -> Iterator[SimulatorThread]:
    """The simulator, empty before and after; a shared server may have its clock, which goes back only at the end."""
    lab_thread.lab.reset()
    yield lab_thread
    lab_thread.lab.reset()


@pytest.fixture
def open_shared(
    shared_server: SharedServer, shared_lab: SimulatorThread, _shared_clock: MovableClock
) -> Callable[..., AppServer]:
    """Open the shared server with these settings, on the simulator's clock."""
    return functools.partial(shared_server.open, shared_lab, _shared_clock)


@pytest.fixture
def connect_account(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TokenAccount]:
    """Connect an account of the simulator at the shared server."""
    return functools.partial(connect_at_simulator, open_shared, shared_lab, monkeypatch)


@pytest.fixture
def make_server(shared_server: SharedServer, make_server: Callable[..., AppServer]) -> Callable[..., AppServer]:
    """Start a server of the test's own, once the shared one has stopped."""
    shared_server.close()
    return make_server

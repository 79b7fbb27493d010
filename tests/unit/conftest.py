"""Fixtures of the unit tests: a server that the tests of a module share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, MovableClock
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.simulated_platforms import find_simulated_platforms
from tests.support.shared_server import SharedServer
from tests.support.token_accounts import TokenAccount, connect_at_simulator


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def simulator(clock: FixedClock, request: pytest.FixtureRequest) -> Iterator[SimulatorThread]:
    """A simulator of the platforms that the test's file names, on a clock that stands."""
    with SimulatorThread(clock, platforms=find_simulated_platforms(request.path)) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    shared = SharedServer(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def _shared_thread(lab_thread: SimulatorThread, shared_server: SharedServer) -> Iterator[SimulatorThread]:
    yield lab_thread
    shared_server.close()
    assert isinstance(lab_thread.lab.clock, MovableClock)
    lab_thread.lab.clock.right()


@pytest.fixture
def shared_lab(_shared_thread: SimulatorThread) -> Iterator[SimulatorThread]:
    """The simulator, empty before and after. Its clock goes on from test to test, as that of a shared server does."""
    _shared_thread.lab.reset()
    yield _shared_thread
    _shared_thread.lab.reset()


@pytest.fixture
def open_shared(shared_server: SharedServer, shared_lab: SimulatorThread) -> Callable[..., AppServer]:
    """Open the shared server with these settings."""
    return functools.partial(shared_server.open, shared_lab)


@pytest.fixture
def open_on_lab_clock(shared_server: SharedServer, shared_lab: SimulatorThread) -> Callable[..., AppServer]:
    """Open the shared server with these settings; its clock is the simulator's."""
    assert isinstance(shared_lab.lab.clock, MovableClock)
    return functools.partial(shared_server.open, shared_lab, shared_lab.lab.clock)


@pytest.fixture
def connect_account(
    open_on_lab_clock: Callable[..., AppServer], shared_lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TokenAccount]:
    """Connect an account of the simulator at the shared server, whose clock is the simulator's."""
    return functools.partial(connect_at_simulator, open_on_lab_clock, shared_lab, monkeypatch)


@pytest.fixture
def make_server(shared_server: SharedServer, make_server: Callable[..., AppServer]) -> Callable[..., AppServer]:
    """Start a server of the test's own, once the shared one has stopped."""
    shared_server.close()
    return make_server

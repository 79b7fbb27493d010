"""Fixtures for tests of connectors against their platform's fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.simulator.server import SimulatorThread
from tests.support.oauth_server import FixedClock
from tests.support.platforms.simulated_platforms import find_simulated_platforms


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def simulator(clock: FixedClock, request: pytest.FixtureRequest) -> Iterator[SimulatorThread]:
    with SimulatorThread(clock, platforms=find_simulated_platforms(request.path)) as simulator:
        yield simulator


@pytest.fixture
def client() -> Iterator[outbound.HttpClient]:
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http_client:
        yield http_client

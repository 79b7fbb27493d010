"""Fixtures of the simulator with Bluesky user Alice, and a client logged in as her."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread
from tests.support.bluesky_oauth_client import OAuthClient
from tests.support.bluesky_user import BlueskyUser
from tests.support.fixed_clock import FixedClock


@pytest.fixture
def alice(simulator: SimulatorThread) -> Iterator[BlueskyUser]:
    account = simulator.lab.add_account("bluesky", handle="alice.test", displayName="Alice")
    with httpx.Client(base_url=simulator.origin("bluesky"), timeout=60) as client:
        alice = BlueskyUser(simulator, client, account)
        alice.log_in()
        yield alice


@pytest.fixture
def client(alice: BlueskyUser, clock: FixedClock) -> OAuthClient:
    """A client of the fake Bluesky's OAuth."""
    return OAuthClient(alice.client, clock.now_ms)


@pytest.fixture
def fake(alice: BlueskyUser) -> Bluesky:
    found = alice.simulator.lab.fakes["bluesky"]
    assert isinstance(found, Bluesky)
    return found


@pytest.fixture
def control(simulator: SimulatorThread) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=simulator.url) as client:
        yield client

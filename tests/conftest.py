"""Fixtures of tests that go through HTTP: the simulator, a server in this process, and its fixed cast.

Alice owns an organization and has an org-wide key; Bob has a profile in it, and a key bound to that profile; Charlie is
another organization. Each has one Bluesky account at the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.kit import Clock, Person, Server


@pytest.fixture(scope="session")
def lab_thread() -> Iterator[SimulatorThread]:
    with SimulatorThread() as simulator:
        yield simulator


@pytest.fixture
def lab(lab_thread: SimulatorThread) -> Iterator[SimulatorThread]:
    """The simulator, empty before and after."""
    lab_thread.lab.reset()
    yield lab_thread
    lab_thread.lab.reset()


@pytest.fixture
def wall() -> Clock:
    """The server's clock."""
    return Clock()


@pytest.fixture
def make_server(tmp_path: Path, lab: SimulatorThread, wall: Clock) -> Iterator[Callable[..., Server]]:
    """Start a server with settings of the test's own: `make_server(limits={"posts": 3})`."""
    made: list[Server] = []

    def make(**settings: dict[str, Any]) -> Server:
        made.append(Server(tmp_path, lab, wall, settings).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server()


@pytest.fixture
def alice(server: Server) -> Person:
    """Owner of an organization, with an org-wide key and a Bluesky account in its profile `default`."""
    alice = server.person("Alice")
    server.connect_bluesky(alice)
    return alice


@pytest.fixture
def bob(server: Server, alice: Person) -> Person:
    """In Alice's organization, with a profile of his own and a key that is bound to it."""
    bob = server.person("Bob", organization=alice.organization, bound=True)
    server.connect_bluesky(bob)
    return bob


@pytest.fixture
def charlie(server: Server) -> Person:
    """Another organization."""
    charlie = server.person("Charlie")
    server.connect_bluesky(charlie)
    return charlie

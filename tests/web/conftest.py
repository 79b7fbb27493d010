from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.kit import Clock, Person, Server
from tests.sink import Sink, listening
from tests.web.world import World


@pytest.fixture
def world(server: Server, alice: Person, bob: Person, charlie: Person) -> World:
    return World(server, alice, bob, charlie)


@pytest.fixture
def world_of() -> Callable[[Server], World]:
    """The cast on a server with settings of the test's own."""

    def make(server: Server) -> World:
        alice = server.person("Alice")
        bob = server.person("Bob", organization=alice.organization, bound=True)
        people = (alice, bob, server.person("Charlie"))
        for person in people:
            server.connect_bluesky(person)
        return World(server, *people)

    return make


@pytest.fixture
def sink() -> Iterator[Sink]:
    with listening() as sink:
        yield sink


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[World]:
    """One server for all of a module's bad input: whatever comes in, the next request finds it whole."""
    limits = dict.fromkeys(("posts", "media", "writes", "reads", "failed_logins"), 1_000_000)
    security = {"allow_private_networks": False}
    home = tmp_path_factory.mktemp("tables")
    server = Server(home, lab_thread, Clock(), {"limits": limits, "security": security}).start()
    alice, charlie = server.person("Alice"), server.person("Charlie")
    for person in (alice, charlie):
        server.connect(person, "bluesky")
        server.connect(person, "instagram", username=person.name)
    yield World(server, alice, alice, charlie)
    server.stop()

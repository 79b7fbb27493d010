from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kit import Person, Server
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

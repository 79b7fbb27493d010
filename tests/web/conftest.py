from __future__ import annotations

import pytest

from tests.kit import Person, Server
from tests.web.world import World


@pytest.fixture
def world(server: Server, alice: Person, bob: Person, charlie: Person) -> World:
    return World(server, alice, bob, charlie)

"""Fixtures of the API tests: one server for each module, and one for its bad-input corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, MovableClock, Person
from tests.support.request_cast import LazyRequestCast, RequestCast
from tests.support.reused_server import counting, make_server, reused_server, wall

__all__ = ["counting", "make_server", "reused_server", "wall"]


@pytest.fixture
def world(server: AppServer, alice: Person, request: pytest.FixtureRequest) -> RequestCast:
    return LazyRequestCast(server, alice, request.getfixturevalue)


@pytest.fixture
def world_of() -> Callable[[AppServer], RequestCast]:
    """The cast on a server with settings of the test's own."""

    def make(server: AppServer) -> RequestCast:
        def make_person(name: str) -> Person:
            home = None if name == "charlie" else alice.organization
            person = server.person(name.title(), organization=home, bound=home is not None)
            server.connect_bluesky(person)
            return person

        alice = server.person("Alice")
        server.connect_bluesky(alice)
        return LazyRequestCast(server, alice, make_person)

    return make


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for all of a module's bad input: whatever comes in, the next request finds it whole."""
    limits = dict.fromkeys(("posts", "media", "writes", "reads", "failed_logins"), 1_000_000)
    security = {"allow_private_networks": False}
    home = tmp_path_factory.mktemp("tables")
    server = AppServer(home, lab_thread, MovableClock(), {"limits": limits, "security": security}).start()
    alice, charlie = server.person("Alice"), server.person("Charlie")
    for person in (alice, charlie):
        server.connect(person, "bluesky")
        server.connect(person, "instagram", username=person.name)
    yield RequestCast(server, alice, alice, charlie)
    server.stop()

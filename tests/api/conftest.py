"""Fixtures of the API tests: one server for each module, and one for its bad-input corpus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import UNLIMITED, running_server
from tests.support.request_cast import RequestCast
from tests.support.reused_server import counting, make_server, reused_server, wall

__all__ = ["counting", "make_server", "reused_server", "wall"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for all of a module's bad input: whatever comes in, the next request finds it whole."""
    security = {"allow_private_networks": False}
    home = tmp_path_factory.mktemp("tables")
    with running_server(home, lab_thread, limits=UNLIMITED, security=security) as server:
        cast = RequestCast(server, server.person("Alice"))
        cast.charlie = server.person("Charlie")
        for person in (cast.alice, cast.charlie):
            server.connect(person, "bluesky")
            server.connect(person, "instagram", username=person.name)
        yield cast

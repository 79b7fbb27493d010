"""Fixtures of the unit tests: a server that the tests of a module share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.app_server import AppServer
from tests.support.shared_server import SharedServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    shared = SharedServer(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


@pytest.fixture
def make_server(shared_server: SharedServer, make_server: Callable[..., AppServer]) -> Callable[..., AppServer]:
    """Start a server of the test's own, once the shared one has stopped."""
    shared_server.close()
    return make_server

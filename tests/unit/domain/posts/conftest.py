"""Fixture of the tests of posts: a server for all that a module tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.app_server import AppServer


@pytest.fixture
def server(open_shared: Callable[..., AppServer]) -> AppServer:
    return open_shared(limits={"reads": 100_000})

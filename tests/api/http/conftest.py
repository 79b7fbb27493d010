"""Fixture of the HTTP tests: a server with one thread for calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.app_server import AppServer
from tests.support.request_cast import RequestCast


@pytest.fixture
def narrow(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    return world_of(make_server(publishing={"threads": 1, "workers": 1}))

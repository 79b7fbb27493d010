"""Fixtures of the dashboard tests: browsers of Alice. The tests share a server if they can."""

from __future__ import annotations

import httpx
import pytest

from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.request_cast import RequestCast
from tests.support.reused_server import counting, make_server, reused_server, wall
from tests.support.sign_in import EMAIL, add_user, signed_in

__all__ = ["counting", "make_server", "reused_server", "wall"]


@pytest.fixture
def browser(world: RequestCast) -> ApiClient:
    return sign_in(world.server, world.alice.organization)


@pytest.fixture
def owner(server: AppServer, alice: Person) -> httpx.Client:
    """An owner who has signed in with a password, through the front door."""
    add_user(server, alice, EMAIL, "owner")
    return signed_in(server)

"""Fixtures of the client tests: a server for each module, and clients that meet faults."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub_client import Socialpub
from tests.support.app_server import UNLIMITED, AppServer, Person, running_server
from tests.support.client_cuts import CuttingTransport

PROGRAM = Path(sys.executable).with_name("socialpub")


@dataclass
class ClientWorld:
    """A server, Alice's key for it, and what her client sent and waited for."""

    server: AppServer
    alice: Person
    slept: list[float] = field(default_factory=list)
    clients: list[Socialpub] = field(default_factory=list)
    transport: CuttingTransport = field(default_factory=CuttingTransport)

    def client(self, *faults: str | None, retries: int = 4, patience: float = 120.0) -> Socialpub:
        """A client whose first requests meet these faults, and which does not really wait."""
        self.transport, self.slept = CuttingTransport(iter(faults)), []
        sp = Socialpub(
            self.server.url,
            self.alice.key,
            transport=self.transport,
            sleep=self.slept.append,
            retries=retries,
            patience=patience,
        )
        self.clients.append(sp)
        return sp

    def plain(self) -> Socialpub:
        """A client that nothing is cut for."""
        self.clients.append(Socialpub(self.server.url, self.alice.key))
        return self.clients[-1]

    def texts(self) -> list[str]:
        """The texts of all posts at the platforms."""
        return [entry.text for entry in self.server.lab.lab.ledger.posts()]


@pytest.fixture(scope="module")
def clients_server(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[AppServer]:
    platforms = {name: {"api_base": lab_thread.origin(name)} for name in ("bluesky", "instagram")}
    home = tmp_path_factory.mktemp("clients")
    with running_server(home, lab_thread, limits=UNLIMITED, platforms=platforms) as server:
        yield server


@pytest.fixture(scope="module")
def clients_alice(clients_server: AppServer) -> Person:
    return clients_server.connected_person("Alice")


@pytest.fixture
def world(clients_server: AppServer, clients_alice: Person) -> Iterator[ClientWorld]:
    world = ClientWorld(clients_server, clients_alice)
    yield world
    for client in world.clients:
        client.close()


@pytest.fixture
def environment(world: ClientWorld, tmp_path: Path) -> dict[str, str]:
    """The environment of the program as Alice runs it."""
    keys = {"SOCIALPUB_URL": world.server.url, "SOCIALPUB_KEY": world.alice.key, "XDG_CONFIG_HOME": str(tmp_path)}
    return os.environ | keys


@pytest.fixture
def sp(world: ClientWorld) -> Socialpub:
    return world.client()


@pytest.fixture
def text(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Texts that no other test publishes."""
    numbers = iter(range(1000))
    return lambda: f"{request.node.name} {next(numbers)}"

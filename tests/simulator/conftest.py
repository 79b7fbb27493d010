"""A simulator with Alice at Bluesky, and a client that is logged in as her."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread

from .oauth_client import Client

NOON = 1_795_176_000_000  # 2026-11-20T12:00:00Z
KEY = "3n2qaial32p6v"


@dataclass
class SetClock:
    """A clock that stands until a test moves it."""

    ms: int = NOON

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@dataclass
class Alice:
    """Alice at the fake Bluesky, as a client sees her."""

    simulator: SimulatorThread
    client: httpx.Client
    account: dict[str, Any]
    session: dict[str, Any] = field(default_factory=dict)

    @property
    def did(self) -> str:
        return str(self.account["did"])

    def log_in(self) -> None:
        login = {"identifier": self.account["handle"], "password": self.account["appPassword"]}
        self.session = self.client.post("/xrpc/com.atproto.server.createSession", json=login).json()

    def headers(self, token: str = "accessJwt") -> dict[str, str]:
        return {"authorization": f"Bearer {self.session[token]}"}

    def call(self, nsid: str, body: Any = None, token: str = "accessJwt") -> httpx.Response:
        return self.client.post(f"/xrpc/{nsid}", json=body, headers=self.headers(token))

    def refresh(self, token: str) -> httpx.Response:
        url = "/xrpc/com.atproto.server.refreshSession"
        return self.client.post(url, headers={"authorization": f"Bearer {token}"})

    def upload(self, content: bytes, kind: str = "image/png") -> dict[str, Any]:
        headers = {**self.headers(), "content-type": kind}
        answer = self.client.post("/xrpc/com.atproto.repo.uploadBlob", content=content, headers=headers)
        return dict(answer.json()["blob"])

    def write(self, method: str, record: dict[str, Any] | None = None, **fields: Any) -> httpx.Response:
        body = {"repo": self.did, "collection": "app.bsky.feed.post", **fields}
        return self.call(f"com.atproto.repo.{method}", body if record is None else {**body, "record": record})

    def put(self, text: str = "hello", rkey: str = KEY, **fields: Any) -> httpx.Response:
        return self.write("putRecord", post(text), rkey=rkey, **fields)

    def listed(self, **params: Any) -> dict[str, Any]:
        wanted = {"repo": self.did, "collection": "app.bsky.feed.post", **params}
        return dict(self.client.get("/xrpc/com.atproto.repo.listRecords", params=wanted).json())


def post(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A record of a post."""
    return {"$type": "app.bsky.feed.post", "text": text, "createdAt": "2026-11-20T12:00:00.000Z", **fields}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def simulator(clock: SetClock) -> Iterator[SimulatorThread]:
    with SimulatorThread(clock) as simulator:
        yield simulator


@pytest.fixture
def alice(simulator: SimulatorThread) -> Iterator[Alice]:
    account = simulator.lab.add_account("bluesky", handle="alice.test", displayName="Alice")
    with httpx.Client(base_url=simulator.origin("bluesky"), timeout=5) as client:
        alice = Alice(simulator, client, account)
        alice.log_in()
        yield alice


@pytest.fixture
def client(alice: Alice, clock: SetClock) -> Client:
    """A client of the fake Bluesky's OAuth."""
    return Client(alice.client, clock.now_ms)


@pytest.fixture
def fake(alice: Alice) -> Bluesky:
    found = alice.simulator.lab.fakes["bluesky"]
    assert isinstance(found, Bluesky)
    return found


@pytest.fixture
def control(simulator: SimulatorThread) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=simulator.url) as client:
        yield client

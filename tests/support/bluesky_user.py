"""Client for the fake Bluesky, logged in as its user Alice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from socialpub.simulator.server import SimulatorThread

KEY = "3n2qaial32p6v"


@dataclass
class BlueskyUser:
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
        return self.write("putRecord", make_record(text), rkey=rkey, **fields)

    def listed(self, **params: Any) -> dict[str, Any]:
        wanted = {"repo": self.did, "collection": "app.bsky.feed.post", **params}
        return dict(self.client.get("/xrpc/com.atproto.repo.listRecords", params=wanted).json())


def make_record(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A record of a post."""
    return {"$type": "app.bsky.feed.post", "text": text, "createdAt": "2026-11-20T12:00:00.000Z", **fields}

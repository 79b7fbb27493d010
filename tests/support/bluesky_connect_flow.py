"""Bluesky OAuth connect flow against a server with a public address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from socialpub.domain.accounts import tokens
from socialpub.store.schema.models import Account
from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.platforms.bluesky_oauth_network import HANDLE, ISSUER, BlueskyNetwork

BASE = "https://post.example.com"


START = "/v1/accounts/connect/bluesky"


TOKEN = f"{ISSUER}/oauth/token"


@dataclass
class BlueskyConnectSession:
    """Alice in front of the dashboard, and the network of Bluesky."""

    server: AppServer
    alice: Person
    browser: ApiClient
    net: BlueskyNetwork

    def start(self, **body: Any) -> httpx.Response:
        return self.browser.post(START, json=body)

    def back(self) -> dict[str, str]:
        """Where the browser comes back with, once the account's owner has agreed."""
        return self.net.visit(self.start(handle=HANDLE).json()["descriptor"]["authorizeUrl"])

    def complete(self, **body: Any) -> httpx.Response:
        return self.browser.post(f"{START}/complete", json=body)

    def connect(self) -> dict[str, Any]:
        answer = self.complete(**self.back())
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def held(self) -> tuple[dict[str, Any], Any]:
        (row,) = self.server.rows(Account)
        return row, tokens.decrypt(self.server.service, row["id"], row["secret"])


def open_bluesky_session(
    make_server: Callable[..., AppServer], patch: pytest.MonkeyPatch, base_url: str, user: str = "alice"
) -> BlueskyConnectSession:
    """A server that believes to stand at `base_url`."""
    server = make_server(platforms={"bluesky": {}}, server={"base_url": base_url})
    server.url = f"http://127.0.0.1:{server.port}"
    patch.setattr(server, "url", server.url)
    net = BlueskyNetwork(server.clock.now_ms, lambda: dict(server.api().get("/oauth/jwks.json").json()))
    object.__setattr__(server.service.runtime, "open_http", lambda *_: net)
    alice = server.person("Alice")
    return BlueskyConnectSession(server, alice, public_browser(server, alice.organization, user), net)


def public_browser(server: AppServer, organization: str, name: str = "alice") -> ApiClient:
    """A session as a browser shows it to this address."""
    browser = sign_in(server, organization, name=name)
    prefix = "__Host-" if server.service.base_url.startswith("https:") else ""
    browser.headers["Cookie"] = f"{prefix}socialpub_session={name}"
    return browser

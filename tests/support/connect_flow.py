"""Server with every fake platform, and a signed-in browser, for OAuth connect tests."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from socialpub import platforms
from socialpub.base.security.crypto import digest
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET, OAuthServer, find_server
from socialpub.simulator.registry import FAKES
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, ConnectAttempt, Session, User
from tests.support.app_server import ApiClient, AppServer, Person, unused_name

OAUTH = [name for name in FAKES if platforms.PLATFORMS[name].oauth is not None]
CONNECTING = [*OAUTH, "bluesky"]  # and this by its own OAuth, where the client is known by its documents
PUBLIC = "https://post.example.com"  # where a server believes to stand whose documents others read
APP = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "enabled": True}


@dataclass
class ConnectSession:
    """Alice in front of the dashboard. `name` is the platform of the test."""

    server: AppServer
    alice: Person
    browser: ApiClient
    name: str = ""
    handle: dict[str, str] = field(default_factory=dict)  # what has to be named where the login depends on it
    issuer: dict[str, str] = field(default_factory=dict)  # who sent the browser back, where that is told

    @property
    def upstream(self) -> OAuthServer:
        found = find_server(self.server.lab.lab.fake(self.name))
        assert found is not None
        return found

    def login_exists(self, **wanted: Any) -> dict[str, Any]:
        """Somebody has an account at the platform."""
        handle = unused_name()
        if self.name == "bluesky":
            handle += ".test"
            self.handle = {"handle": handle}
        made = self.server.lab.lab.add_account(self.name, **({"handle": handle} | wanted))
        self.server.lab.lab.calls.clear()
        return {"platformAccountId": made.get("did"), "accessToken": made.get("password")} | made

    def start(self, **body: Any) -> str:
        """Where the browser is sent."""
        answer = self.browser.post(f"/v1/accounts/connect/{self.name}", json=self.handle | body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["descriptor"]["type"] == "oauth"
        return str(answer.json()["descriptor"]["authorizeUrl"])

    def visit(self, url: str) -> dict[str, str]:
        """What the platform sends the browser back with, once its owner has decided."""
        answer = httpx.get(url, trust_env=False, follow_redirects=False)
        assert answer.status_code == 302, answer.text
        where = urlsplit(answer.headers["location"])
        assert f"{where.scheme}://{where.netloc}{where.path}" == self.callback
        params = dict(parse_qsl(where.query))
        self.issuer = {name: value for name, value in params.items() if name == "iss"}
        return params

    @property
    def callback(self) -> str:
        return f"{self.server.service.base_url}/connect/{self.name}/callback"

    def complete(self, who: ApiClient | None = None, /, **body: Any) -> httpx.Response:
        whole = body | (self.issuer if "code" in body else {})
        return (who or self.browser).post(f"/v1/accounts/connect/{self.name}/complete", json=whole)

    def connect(self, **body: Any) -> httpx.Response:
        """The whole way, with an owner who agrees; where several accounts are offered, the first."""
        back = self.visit(self.start(**body))
        answer = self.complete(code=back["code"], state=back["state"])
        if "choices" in answer.json():
            answer = self.complete(choiceId=answer.json()["choices"][0]["id"], state=back["state"])
        return answer

    def calls(self, *operations: str) -> int:
        """How many calls of these operations (all: of any) the platform has received."""
        received = [call for call in self.server.lab.lab.calls if call.platform == self.name]
        return len([call for call in received if not operations or call.operation in operations])

    def rows(self) -> list[dict[str, Any]]:
        return self.server.rows(Account, platform=self.name, organization=self.alice.organization)

    def attempts(self) -> list[dict[str, Any]]:
        return self.server.rows(ConnectAttempt, organization=self.alice.organization)


def sign_in(server: AppServer, organization: str, *, role: str = "owner", name: str = "alice") -> ApiClient:
    """A browser with a session of somebody of an organization."""
    now, user = server.clock.now_ms(), server.service.runtime.ids.uuid()

    def write(tx: Tx) -> None:
        User.insert(
            id=user, organization=organization, email=f"{name}@x.test", role=role, password="", created_at=now
        ).execute()
        Session.insert(
            id=digest(name),
            user=user,
            csrf=f"csrf-{name}",
            created_at=now,
            seen_at=now,
            ends_at=now + 86_400_000,
            proved_at=now,
        ).execute()

    server.service.write(write).result()
    prefix = "__Host-" if server.service.base_url.startswith("https:") else ""
    return server.api(**{"Cookie": f"{prefix}socialpub_session={name}", "X-CSRF-Token": f"csrf-{name}"})


def open_connect_session(
    make_server: Callable[..., AppServer],
    lab: Any,
    patch: pytest.MonkeyPatch,
    name: str = "",
    *,
    user: str = "alice",
    **settings: Any,
) -> ConnectSession:
    sites = {"bluesky": {"api_base": lab.origin("bluesky")}}
    for each in OAUTH:
        patch.setitem(platforms.CONNECTORS, each, importlib.import_module(f"socialpub.platforms.{each}.connector"))
        sites[each] = {"api_base": lab.origin(each), **APP}
    if name == "bluesky":
        settings = {"server": {"base_url": PUBLIC}} | settings
    server = make_server(**({"platforms": sites} | settings))
    server.url = f"http://127.0.0.1:{server.port}"
    alice = server.person("Alice")
    office = ConnectSession(server, alice, sign_in(server, alice.organization, name=user), name)
    if name == "bluesky":
        lab.lab.fake("bluesky").oauth.clients.stands_at[PUBLIC] = server.url
    if name:
        office.upstream.consent.mode, office.upstream.consent.without = "approve", frozenset()
    return office

"""In-memory OAuth authorization server, and a client that records the requests sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, OAuthFlow, Platform, Site, Tokens, Upstream
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET, OAuthQuirks, OAuthServer
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.scripted_upstream import FakeTransport

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
CALLBACK = "https://pub.example/connect/demo/callback"
HOST = "https://auth.example"


@dataclass(frozen=True)
class SentRequest:
    method: str
    url: str
    headers: Mapping[str, str]
    form: Mapping[str, str]


@dataclass
class OAuthTransport(FakeTransport):
    """Answers what is planned, else what the operations answer."""

    operations: tuple[Operation, ...] = ()
    planned: list[UpstreamResponse | ApiError] = field(default_factory=list)
    sent: list[SentRequest] = field(default_factory=list)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
        **_: Any,
    ) -> UpstreamResponse:
        self.sent.append(SentRequest(method, url, dict(headers or {}), dict(data or params or {})))
        if self.planned:
            planned = self.planned.pop(0)
            if isinstance(planned, ApiError):
                raise planned
            return planned
        return convert_answer(self.answer(method, url, headers or {}, params or {}, data))

    def answer(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> FakeResponse:
        parts = urlsplit(url)
        query = {**parse_qs(parts.query, keep_blank_values=True), **{name: [v] for name, v in (params or {}).items()}}
        kept = {name.lower(): value for name, value in (headers or {}).items()}
        if data is not None:
            kept["content-type"] = "application/x-www-form-urlencoded"
        body = urlencode(data or {}).encode()
        (operation,) = [one for one in self.operations if one.path == parts.path and method in one.methods]
        try:
            return operation.handle(Call(method, parts.path, HOST, query, kept, body))
        except RefusedError as refused:
            return refused.answer


def convert_answer(answer: FakeResponse) -> UpstreamResponse:
    return UpstreamResponse(answer.status, dict(answer.headers), answer.content())


def make_response(status: int, body: Any, **headers: str) -> UpstreamResponse:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return UpstreamResponse(status, headers, content)


def make_platform(**row: Any) -> Platform:
    """A platform with nothing but an OAuth row."""
    oauth = OAuthFlow(**{"scopes": ("read", "write"), **row})
    made: Any = SimpleNamespace(name="demo", label="Demo", oauth=oauth)
    return made  # type: ignore[no-any-return]


def make_site(**changes: Any) -> Site:
    given = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "authorize_url": f"{HOST}/authorize",
        "token_url": f"{HOST}/token",
    }
    return Site(**{**given, **changes})


@dataclass
class OAuthSetup:
    """A fake authorization server with one account, and its client."""

    clock: FixedClock
    server: OAuthServer
    wire: OAuthTransport

    def press(self, url: str, **form: str) -> dict[str, str]:
        """The parameters that the browser comes back with; `form`: buttons and fields of the consent page."""
        answer = self.look(url, **form)
        assert answer.status == 302, answer
        where = urlsplit(answer.headers["location"])
        return dict(parse_qsl(where.query))

    def look(self, url: str, **form: str) -> FakeResponse:
        if form:
            asked = dict(parse_qsl(urlsplit(url).query))
            return self.wire.answer("POST", url.partition("?")[0], data=asked | form)
        return self.wire.answer("GET", url)


def open_setup(**manners: Any) -> OAuthSetup:
    clock = FixedClock()
    given = {"authorize_path": "/authorize", "token_path": "/token", "revoke_path": "/revoke", **manners}
    server = OAuthServer(clock, OAuthQuirks(**given), lambda: ("alice", "bob"))
    return OAuthSetup(clock, server, OAuthTransport(server.operations()))


def make_upstream(wire: OAuthTransport, tokens: Tokens, **changes: Any) -> Upstream:
    return Upstream(wire, wire, make_site(**changes), ConnectorAccount("alice"), tokens)

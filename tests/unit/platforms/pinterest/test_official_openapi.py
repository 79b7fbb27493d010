"""Pinterest connector and fake against Pinterest's official OpenAPI description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from jsonschema import Draft202012Validator

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.base.http import CALL_SECONDS, HttpClient, UpstreamResponse
from socialpub.platforms.contract import (
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    Pending,
    Published,
    Ready,
    Tokens,
    Upstream,
)
from socialpub.platforms.pinterest import connector as pinterest
from socialpub.platforms.pinterest.declaration import PLATFORM, SCOPES
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import unused_name
from tests.support.platforms.meta_calls import jpeg, mp4
from tests.support.platforms.scripted_upstream import NONCE, FakeTransport

FILE = Path(__file__).parents[5] / "shared" / "upstream-specs" / "pinterest" / "pinterest-v5-openapi-5.23.0.json"
pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(not FILE.is_file(), reason="the official description (../shared) is not here"),
]


# --- The description -------------------------------------------------------------------------------------------------


@cache
def description() -> dict[str, Any]:
    return dict(modern(json.loads(FILE.read_text(encoding="utf-8"))))


def modern(node: Any) -> Any:
    """OpenAPI 3.0's own dialect as JSON Schema: only `nullable` means something else there."""
    if isinstance(node, list):
        return [modern(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {name: modern(value) for name, value in node.items() if name not in ("nullable", "discriminator")}
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") is True else made


def check(value: Any, schema: Any) -> None:
    whole = {"allOf": [schema], "components": description()["components"]}
    Draft202012Validator(whole).validate(value)


def operation(method: str, path: str) -> dict[str, Any]:
    """The description of a call, by the most exact of the paths that fit."""
    paths = description()["paths"]
    fitting = [known for known in paths if re.fullmatch(re.sub(r"{\w+}", "[^/]+", known), path)]
    return dict(paths[min(fitting, key=lambda known: known.count("{"))][method.lower()])


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    name = node.get("$ref", "").rpartition("/")[2]
    return description()["components"]["parameters"][name] if name else node


# --- A transport that holds every call against it ----------------------------------------------------------------


@dataclass
class Checked(FakeTransport):
    """Calls the fake, and checks what goes there and what comes back."""

    http: HttpClient
    base: str
    seen: list[str] = field(default_factory=list)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        timeout: float = CALL_SECONDS,
    ) -> UpstreamResponse:
        body = content if content is None or isinstance(content, bytes) else b"".join(content)
        reply = self.http.request(
            method, url, headers=headers, params=params, json=json, data=data, content=body, timeout=timeout
        )
        if url.startswith(self.base):
            self._check(method, url.removeprefix(self.base), params, data or json or _parsed(body), reply)
        return reply

    def _check(
        self, method: str, path: str, params: Mapping[str, str] | None, body: Any, reply: UpstreamResponse
    ) -> None:
        about = operation(method, path)
        self.seen.append(about["operationId"])
        known = {each["name"]: each["schema"] for each in map(resolved, about.get("parameters", ()))}
        for name, value in (params or {}).items():
            check(int(value) if value.isdecimal() else value, known[name])
        if body is not None:
            (kind,) = about["requestBody"]["content"].values()
            check(body, kind["schema"])
        answered = about["responses"].get(str(reply.status_code), about["responses"]["default"])
        check(reply.json(), answered["content"]["application/json"]["schema"])


def _parsed(body: bytes | None) -> Any:
    return None if body is None else json.loads(body)


@pytest.fixture
def up(lab: SimulatorThread) -> Iterator[Upstream]:
    """A line to Alice's account at the fake; her token is fresh."""
    made = lab.lab.add_account("pinterest", handle=unused_name("alice"))
    lab.lab.configure(processingMs=0)
    origin = lab.origin("pinterest")
    site = PLATFORM.site(api_base=origin, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    who = ConnectorAccount(made["platformAccountId"], "Alice", made["extra"])
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
        checked = Checked(http, f"{origin}/v5")
        yield Upstream(checked, checked, site, who, Tokens(made["accessToken"], made["refreshToken"]))


def item(folder: Path, name: str, content: bytes, kind: str) -> DraftMedia:
    (folder / name).write_bytes(content)
    medium = DraftMedia(
        "video" if kind.startswith("video/") else "image", "a cat", facts=MediaFacts(kind, len(content))
    )
    return replace(medium, path=folder / name)


def published(up: Upstream, draft: Draft) -> dict[str, Any]:
    found = pinterest.prepare(up, draft, None)
    while isinstance(found, Pending):
        found = pinterest.prepare(up, draft, found.saved)
    assert isinstance(found, Ready)
    assert isinstance(pinterest.send(up, found.plan), Published)
    return found.plan


OPTIONS = {"title": "T" * 100, "destinationUrl": "https://example.com/?a=1"}


def test_pins_of_images_are_as_described(up: Upstream, lab: SimulatorThread, tmp_path: Path) -> None:
    inline = [item(tmp_path, str(n), jpeg(40, 40 + n), "image/jpeg") for n in range(5)]
    linked = replace(item(tmp_path, "w", b"", "image/webp"), url=f"{lab.url}/pages/a.png")
    for items in ((inline[0],), tuple(inline), (linked,), (linked, linked)):
        plan = published(up, Draft("d" * 800, items, OPTIONS, now_ms=0, nonce=NONCE))
        found = pinterest.settle(up, plan, lab.lab.clock.now_ms())
        assert not isinstance(found, ApiError)
    assert set(up.http.seen) == {"pins/create", "boards/list_pins"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [OPTIONS, {"coverImageUrl": "/pages/a.png"}])
def test_video_pins_are_as_described(
    up: Upstream, lab: SimulatorThread, tmp_path: Path, options: dict[str, str]
) -> None:
    given = {name: lab.url + value if value.startswith("/") else value for name, value in options.items()}
    published(up, Draft("hello", (item(tmp_path, "v", mp4(), "video/mp4"),), given, now_ms=0, nonce=NONCE))
    assert set(up.http.seen) == {"media/create", "media/get", "pins/create"}  # type: ignore[attr-defined]


def test_connecting_and_boards_are_as_described(up: Upstream) -> None:
    assert len(pinterest.identify(up, 0)) == 1
    assert len(pinterest.boards(up)) == 1
    assert pinterest.refresh(up, 0).refresh != up.tokens.refresh
    with pytest.raises(ApiError):
        pinterest.boards(replace(up, tokens=Tokens("nonsense")))
    assert up.http.seen == ["user_account/get", "boards/list", "oauth/token", "boards/list"]  # type: ignore[attr-defined]


def test_creating_a_pin_needs_no_more_scopes_than_are_asked_for() -> None:
    needed = {
        scope
        for call in (("POST", "/pins"), ("POST", "/media"), ("GET", "/boards"), ("GET", "/user_account"))
        for way in operation(*call)["security"]
        for scope in way.get("pinterest_oauth2", ())
    }
    assert needed <= set(SCOPES)


def test_the_authorize_address_is_the_described_one() -> None:
    flow = description()["components"]["securitySchemes"]["pinterest_oauth2"]["flows"]["authorizationCode"]
    assert urlsplit(flow["authorizationUrl"]).path == urlsplit(PLATFORM.site().authorize_url).path
    assert flow["tokenUrl"] == PLATFORM.site().token_url
    assert dict(parse_qsl(urlsplit(flow["authorizationUrl"]).query)) == {}

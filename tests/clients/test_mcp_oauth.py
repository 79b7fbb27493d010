"""Signing in by the OAuth client of the MCP SDK, over `socialpub mcp --http`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from socialpub.simulator.server import SimulatorThread
from socialpub_client.mcp_server.http_endpoint import METADATA_PATH, PATH
from tests.support.app_server import AppServer, Person, running_server
from tests.support.mcp_clients import SECONDS, answered, http_server, run
from tests.support.oauth_assistant import answer_of, decide
from tests.support.ports import free_port, unused_address
from tests.support.sign_in import EMAIL, add_user, csrf_of, signed_in

BACK = "http://127.0.0.1:1/back"


class Store:
    """What the client keeps; also its tokens before it knows that they have ended."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def office(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread, port: int) -> Iterator[AppServer]:
    mcp = {"oauth": True, "url": f"http://127.0.0.1:{port}{PATH}"}
    with running_server(tmp_path_factory.mktemp("oauth"), lab_thread, mcp=mcp) as server:
        yield server


@pytest.fixture
def alice(office: AppServer) -> Person:
    alice = office.connected_person("Alice")
    add_user(office, alice, EMAIL, "owner")
    return alice


def use(address: str, store: Store, browser: httpx.Client, work: Callable[[Client], Any], **chosen: str) -> Any:
    """The result of work with a client that signs in where it must; the person chooses what the key may do."""
    sent: list[httpx.Response] = []

    async def open_browser(url: str) -> None:
        sent.append(decide(browser, url, **chosen))

    async def wait_for_answer() -> AuthorizationCodeResult:
        answer = answer_of(sent[-1])
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])

    async def session() -> tuple[Any, int]:
        metadata = OAuthClientMetadata(client_name="The SDK", redirect_uris=[BACK])
        auth = OAuthClientProvider(address, metadata, store, open_browser, wait_for_answer)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=SECONDS, trust_env=False) as sender,
            Client(streamable_http_client(address, http_client=sender)) as client,
        ):
            return await work(client), len(sent)

    return run(session)


async def tools(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.slow
def test_the_sdk_signs_in_and_again_when_its_key_is_revoked(office: AppServer, alice: Person, port: int) -> None:
    browser, store = signed_in(office), Store()

    async def plan(client: Client) -> Any:
        arguments = {"to": [alice.bluesky], "text": "By an assistant"}
        return await tools(client), answered(await client.call_tool("check_post", arguments))

    with http_server(office.url, port=port) as address:
        (names, checked), asked = use(address, store, browser, plan)
        assert ("check_post" in names, "publish_post" in names, asked) == (True, False, 1)
        assert checked["plan"]
        assert store.tokens is not None
        key = store.tokens.access_token
        limited = office.api(key)
        content = {"targets": [{"accountId": alice.bluesky}], "text": "now"}
        assert limited.post("/v1/posts", json=content).json()["error"]["rule"] == "api_key.scope"
        assert use(address, store, browser, tools) == (names, 0)  # the key is kept

        key_id = limited.get("/v1/me").json()["key"]["id"]
        assert "The SDK" in browser.get("/settings/keys").text
        form = {"csrf_token": csrf_of(browser.get("/settings"))}
        assert browser.post(f"/settings/keys/{key_id}/revoke", data=form).status_code == 303
        headers = {"Authorization": f"Bearer {key}"}
        refused = httpx.post(address, json={}, headers=headers, trust_env=False)
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
        names, asked = use(address, store, browser, tools, **{"scope.posts:write": "yes"})
        assert ("publish_post" in names, asked) == (True, 1)
        assert store.tokens.access_token != key

        base = address.removesuffix(PATH)
        places = (office.url + METADATA_PATH, base + METADATA_PATH, base + METADATA_PATH + PATH)
        answers = [httpx.get(url, trust_env=False) for url in places]
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.text for answer in answers} == {answers[0].text}
    texts = [entry.text for entry in office.lab.lab.ledger.posts()]
    assert "By an assistant" not in texts  # only planned


@pytest.mark.slow
def test_without_an_answer_of_the_server_nothing_is_said_about_signing_in() -> None:
    with unused_address() as nowhere, http_server(nowhere) as address:
        assert httpx.get(address.removesuffix(PATH) + METADATA_PATH, trust_env=False).status_code == 503
        refused = httpx.post(address, json={}, trust_env=False)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")

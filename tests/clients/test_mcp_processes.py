"""`socialpub mcp` as a process: over stdio with its own key, over HTTP with each caller's."""

from __future__ import annotations

import subprocess
from typing import Any

import httpx
import pytest
from mcp import Client

from socialpub_client.commands.cli import main
from socialpub_client.mcp_server.http_endpoint import METADATA_PATH, PATH
from tests.clients.conftest import PROGRAM, ClientWorld
from tests.support.mcp_clients import Answers, answered, http, http_server, run, stdio

INITIALIZE = b"""\
{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
 "clientInfo": {"name": "test", "version": "1"}}}
""".replace(b"\n ", b"")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_by_stdio_a_post_is_checked_and_published(world: ClientWorld, mode: str) -> None:
    user = Answers()

    async def work() -> Any:
        async with Client(stdio(world.server.url, world.alice.key), elicitation_callback=user, mode=mode) as client:
            assert len((await client.list_tools()).tools) == 11
            arguments = {"to": [world.alice.bluesky], "text": f"By stdio, {mode}"}
            plan = answered(await client.call_tool("check_post", arguments))["plan"]
            return answered(await client.call_tool("publish_post", {"plan": plan}))

    assert run(work)["outcome"] == "published"
    assert (world.texts().count(f"By stdio, {mode}"), len(user.questions)) == (1, 1)


@pytest.mark.slow
def test_a_client_that_no_longer_reads_ends_the_process(environment: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        line = [PROGRAM, "mcp"]
        ended = subprocess.run(line, env=environment, input=INITIALIZE, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.decode() == "socialpub: the client no longer reads: [Errno 28] No space left on device\n"


@pytest.mark.slow
def test_by_http_every_caller_has_their_own_key(world: ClientWorld) -> None:
    reading = world.server.limited(world.alice, scopes=["posts:read", "accounts:read"])
    user = Answers()
    with http_server(world.server.url) as address:

        async def work() -> None:
            async with http(address, reading.key) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == [
                    "list_accounts",
                    "list_posts",
                    "read_post",
                    "list_events",
                    "explain",
                ]
            for mode in ("auto", "legacy"):
                async with http(address, world.alice.key, user, mode) as client:
                    arguments = {"to": [world.alice.bluesky], "text": f"By HTTP, {mode}"}
                    plan = answered(await client.call_tool("check_post", arguments))["plan"]
                    done = answered(await client.call_tool("publish_post", {"plan": plan}))
                    assert done["outcome"] == "published"

        run(work)
        for headers in ({}, {"Authorization": "Basic x"}):
            answer = httpx.post(address, json={}, headers=headers, trust_env=False)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert httpx.get(address.removesuffix(PATH) + METADATA_PATH, trust_env=False).status_code == 404  # by default
    assert [world.texts().count(f"By HTTP, {mode}") for mode in ("auto", "legacy")] == [1, 1]
    assert len(user.questions) == 1  # an older client cannot be asked without a session
    assert "Text: By HTTP, auto" in user.questions[0]


@pytest.mark.parametrize(
    "words, message",
    [
        (("--http", "8765"), "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--media-root", "."), "for stdio"),
        (("--http", "127.0.0.1:0", "--key", "svc_live_x"), "for stdio"),
        (("--http", "192.0.2.1:0"), "192.0.2.1"),
        (("--media-root", "/nonexistent"), "no folder"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOCIALPUB_URL", "http://127.0.0.1:1")
    code = main(["mcp", *words], [])
    said = capsys.readouterr().err
    assert (code, message in said) == (2, True), said

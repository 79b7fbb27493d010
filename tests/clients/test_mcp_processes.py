"""`socialpub mcp` as a process: over stdio with its own key, over HTTP with each caller's."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import INVALID_REQUEST, PARSE_ERROR

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
def test_a_line_that_is_no_message_is_answered(environment: dict[str, str]) -> None:
    """By its id where there is one: the client would wait for an answer that never comes."""
    lines = {
        b'{"jsonrpc": "2.0", "id": "half", "method": "tools/call", "params": {"name": "explain", '
        b'"arguments": {"name": "\\ud83d"}}}': ("half", PARSE_ERROR),
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": "explain"}': (7, INVALID_REQUEST),
        b'{"jsonrpc": "1.0", "id": 8, "method": "ping"}': (8, INVALID_REQUEST),
        b'[{"jsonrpc": "2.0", "id": 9, "method": "ping"}]': (None, INVALID_REQUEST),
        b'{"jsonrpc": "2.0", "id": 10, "method": "ping"': (None, PARSE_ERROR),
        b"\xff\x00": (None, PARSE_ERROR),
        b"[" * 100_000: (None, PARSE_ERROR),
    }
    given = INITIALIZE + b"\n \n" + b"\n".join(lines) + b"\n"
    ended = subprocess.run([PROGRAM, "mcp"], env=environment, input=given, capture_output=True, timeout=60)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in answers if "error" in each] == [*lines.values()]
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.slow
def test_ctrl_c_ends_a_server_that_waits_for_input(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [PROGRAM, "mcp"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=30) == -signal.SIGINT
        finally:
            process.kill()
        assert process.stderr.read() == b""


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
